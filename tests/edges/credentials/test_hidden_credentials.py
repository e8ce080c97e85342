"""Credentials are never shown, whatever goes wrong."""

import contextlib
import json
import logging
import socket
import traceback

import pytest

import pollkit
from credential_polls import poll
from leaky_servers import FAILURES, SECRETS, basic, leaks
from pollkit import ConfigError, Poller, PollkitError, Profile
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply


def shown_of(work):
    """Everything that a wait shows: events, its outcome, its exception; log records are apart."""
    told = []
    try:
        outcome = work(told.append)
    except PollkitError as error:
        told += [str(error), repr(error), repr(getattr(error, "args", ""))]
        told += traceback.format_exception(type(error), error, None)
        outcome = getattr(error, "outcome", None)
    if outcome is not None:
        told += [json.dumps(outcome.as_dict()), repr(outcome), outcome.summary()]
    told += [event.text for event in told if hasattr(event, "text")]
    return "\n".join(map(str, told))


def wait_with_secrets(url, on_event, **settings):
    def work(told):
        pollkit.wait(
            url,
            profile=Profile(auth="bearer env:TOKEN", **settings),
            on_event=told,
            headers={"X-API-Key": SECRETS["header"]},
            clock=VirtualClock(),
            timeout=30,
        )

    return work(on_event)


@pytest.mark.parametrize("way", ["straight", "through a proxy"])
@pytest.mark.parametrize("case", list(FAILURES))
def test_secrets_are_never_shown_after_any_failure(case, way, environment, caplog):
    """Not in events, log records, outcomes or exceptions; nor their base64 forms."""
    caplog.set_level(logging.DEBUG, logger="pollkit")
    environment.setenv("TOKEN", SECRETS["token"])
    with RawServer(FAILURES[case]) as server:
        target = "/?api_key=" + SECRETS["query"]
        url = server.url(target, "me:" + SECRETS["password"])
        proxy = "none"
        if way == "through a proxy":
            url = "http://me:%s@j.test%s" % (SECRETS["password"], target)
            proxy = "http://us:%s@%s" % (SECRETS["proxy"], server.authority)
        shown = shown_of(
            lambda told: wait_with_secrets(
                url,
                told,
                proxy=proxy,
                request_timeout=0.05 if case == "slow" else 10.0,
                max_faults=3,
            )
        )
        sent = b"".join(request.raw for request in server.requests).decode("latin-1")
    # The server got all of them, so there was something to leak.
    for name in ("token", "header", "query") + (("proxy",) if way == "through a proxy" else ()):
        assert SECRETS[name] in sent or basic("us:" + SECRETS[name]) in sent
    assert len(shown) > 100
    assert "poll 1" in shown
    assert "poll 1" in caplog.text
    assert not leaks(shown)
    assert not leaks(caplog.text)


REACHED_NOT = {  # no server answers, or none can: no poll is made
    "refused": "http://me:{password}@127.0.0.1:{unused}/?token={query}",
    "no such name": "http://me:{password}@nowhere.invalid/?token={query}",
    "no TLS": "https://me:{password}@127.0.0.1:{unused}/?token={query}",
    "proxy refuses": "http://me:{password}@jobs.invalid/?token={query}",
    "another scheme": "ftp://me:{password}@h/?token={query}",
    "no host": "http://me:{password}@/?token={query}",
    "no such port": "http://me:{password}@h:99999/?token={query}",
    "a space in the name": "http://me:{password}@h h/?token={query}",
    "two signs": "http://me:{password}@@h:0/?token={query}",
    "a slash in the password": "http://me:x/{password}@h/?token={query}",
    "a hash in the password": "http://me:x#{password}@h/?token={query}",
    "a question mark in the password": "http://me:x?{password}@h/?token={query}",
}


@pytest.mark.parametrize("case", list(REACHED_NOT))
def test_secrets_are_never_shown_if_no_server_is_reached(case, environment, caplog):
    caplog.set_level(logging.DEBUG, logger="pollkit")
    environment.setenv("TOKEN", SECRETS["token"])
    with contextlib.closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        proxy = (
            "http://us:%s@127.0.0.1:%d" % (SECRETS["proxy"], port) if "proxy" in case else "none"
        )
        shown = shown_of(
            lambda told: wait_with_secrets(
                REACHED_NOT[case].format(unused=port, **SECRETS),
                told,
                proxy=proxy,
                request_timeout=2.0,
                max_faults=2,
            )
        )
    assert "Job" in shown or "ConfigError" in shown
    assert not leaks(shown)
    assert not leaks(caplog.text)


def test_credential_is_never_shown_with_any_name_of_its_header(environment):
    """An API may repeat it in its error."""

    def repeat(connection, request):
        connection.send(
            reply(
                json.dumps({"error": "no tenant " + request.headers["x-tenant"]}), "400 Bad Request"
            )
        )

    environment.setenv("TOKEN", SECRETS["token"])
    with RawServer(repeat) as server:
        message = poll(server, auth="header X-Tenant env:TOKEN").error.message
    assert "no tenant ***" in message and not leaks(message)


def test_job_given_by_id_shows_no_secret_of_its_template(environment):
    """The profile's URL may hold a key as well."""
    told = []
    with RawServer(reply(b"", "404 Gone")) as server:
        url = server.url("/jobs/{id}?api_key=" + SECRETS["query"], "me:" + SECRETS["password"])
        with Poller(Profile(url=url), clock=VirtualClock(), on_event=told.append) as poller:
            outcome = poller.poll("job_1")
            with pytest.raises(ConfigError) as caught:
                poller.poll("..")
    assert SECRETS["query"] in server.targets[0]
    assert outcome.id == "job_1"
    assert not leaks(json.dumps(outcome.as_dict()) + "".join(map(str, told)) + repr(caught.value))
