"""Redirects and links to another origin: which are followed, by the profile's `redirects`."""

import contextlib
import logging
import socket

import pytest

from pollkit import ConfigError, Fault, Poller, Profile
from pollkit.core.profiles import origins
from pollkit.edges.background import BackgroundCalls
from pollkit.edges.http import redirects
from pollkit.edges.http.connections import connecting
from pollkit.edges.http.request import Request
from pollkit.testing import VirtualClock
from raw_server import RawServer, redirect, reply

DONE = reply('{"status": "done"}')
PUBLIC = "127.0.0.2"  # plays the part of a public address here
SECRETS = {"X-API-Key": "SECRET", "Cookie": "SECRET"}

# The ways a server has to point elsewhere: the transport follows the first, the core the others.
POINTERS = {
    "302": lambda url: redirect(url),
    "303": lambda url: redirect(url, "303 See Other"),
    "202 Location": lambda url: reply(b"", "202 Accepted", Location=url),
    "202 Operation-Location": lambda url: reply(
        '{"status": "running"}', "202 Accepted", Operation_Location=url
    ),
    "307 later": lambda url: reply(b"", "307 Temporary", Location=url, Retry_After="1"),
}
every_pointer = pytest.mark.parametrize("pointer", list(POINTERS))


@pytest.fixture(autouse=True)
def network(monkeypatch):
    """A network of our own, in which PUBLIC is a public address; the names in it may be changed."""
    names = {"public.test": PUBLIC, "inside.test": "127.0.0.1"}
    is_internal = origins.is_internal
    getaddrinfo = socket.getaddrinfo

    def resolve(host, *more):
        name = host.decode() if isinstance(host, bytes) else host
        return getaddrinfo(names.get(name, name), *more)

    for module in (connecting, redirects):
        monkeypatch.setattr(
            module, "is_internal", lambda host: host != PUBLIC and is_internal(host)
        )
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return names


def public_server(*answers, **options):
    """A server at the address that counts as public."""
    try:
        return RawServer(*answers, **dict({"host": PUBLIC}, **options))
    except OSError as error:
        pytest.skip("there is no address %s here: %s" % (PUBLIC, error))


def poll(job_url, **settings):
    """The outcome of a wait, and its events."""
    told = []
    headers = settings.pop("headers", None)
    profile = Profile(**dict({"proxy": "none", "max_faults": 1, "request_timeout": 10}, **settings))
    with Poller(profile, clock=VirtualClock(), on_event=told.append, headers=headers) as poller:
        return poller.poll(job_url), told


def warnings_of(told):
    return [event.text for event in told if event.kind == "warning"]


# safe: the default


@every_pointer
@pytest.mark.parametrize(
    "target", ["127.0.0.1", "localhost", "127.1", "[::ffff:127.0.0.1]", "inside.test"]
)
def test_public_server_cannot_point_to_an_internal_address(pointer, target):
    """Neither by an address, however it is written, nor by a name that resolves to one."""
    with RawServer(DONE) as inside:
        url = "http://%s:%d/there" % (target, inside.port)
        with public_server(POINTERS[pointer](url)) as home:
            outcome, _ = poll(home.url())
    assert outcome.state == "unreachable"
    assert "an internal address, which is not followed (redirects = any" in outcome.error.message
    assert outcome.polls == 1 or target == "inside.test"  # a name is resolved only when it is asked
    assert inside.accepted == 0


@every_pointer
def test_public_server_may_point_to_a_public_address_without_credentials(pointer):
    """Results on object stores need it."""
    with public_server(DONE) as store:
        with public_server(POINTERS[pointer](store.url("/there"))) as home:
            outcome, told = poll(home.url(), headers=SECRETS)
    assert outcome.state == "done"
    assert b"SECRET" in home.requests[0].raw and b"SECRET" not in store.requests[0].raw
    assert warnings_of(told) == [
        "the server points to another origin, %s, which gets no credentials" % store.origin
    ]


@every_pointer
def test_internal_server_may_point_to_another_one(pointer):
    with RawServer(DONE) as there, RawServer(POINTERS[pointer](there.url("/there"))) as home:
        outcome, told = poll(home.url(), headers=SECRETS)
    assert outcome.state == "done"
    assert b"SECRET" not in there.requests[0].raw
    assert len(warnings_of(told)) == 1


def test_internal_server_may_point_to_a_public_one(fetch):
    with public_server(DONE) as there, RawServer(redirect(there.url())) as home:
        assert fetch(home.url()).status == 200


@every_pointer
@pytest.mark.parametrize("target", ["127.0.0.1", "inside.test"])
def test_public_server_in_between_cannot_point_back_inside(pointer, target):
    """Though the job's own server is an internal one."""
    with RawServer(DONE) as inside:
        url = "http://%s:%d/there" % (target, inside.port)
        with public_server(POINTERS[pointer](url)) as between, RawServer(
            POINTERS[pointer](between.url())
        ) as home:
            outcome, _ = poll(home.url())
    assert "an internal address, which is not followed" in outcome.error.message
    assert inside.accepted == 0


@every_pointer
def test_public_server_in_between_cannot_choose_the_request_to_an_internal_home(pointer):
    """The request would carry credentials."""
    with RawServer(DONE) as home:
        with public_server(POINTERS[pointer](home.url("/admin"))) as between:
            home.answers = [POINTERS[pointer](between.url()), DONE]
            outcome, _ = poll(home.url("/jobs/1"), headers=SECRETS)
    assert "an internal address, which is not followed" in outcome.error.message
    assert home.targets == ["/jobs/1"]


def test_name_that_changes_from_public_to_internal_is_refused_when_it_does(network):
    with RawServer(DONE) as inside:
        url = "http://public.test:%d/later" % inside.port

        def rebind(connection, request):
            network["public.test"] = "127.0.0.1"
            connection.send(POINTERS["202 Location"](url))

        with public_server(rebind, name=PUBLIC) as home:
            outcome, _ = poll(home.url())
    assert "an internal address, which is not followed" in outcome.error.message
    assert inside.accepted == 0


def test_link_of_a_public_server_is_still_refused_by_another_process(new_transport):
    """A ledger keeps where to look next; the process that resumes the job has seen no redirect."""
    with RawServer(DONE) as inside, public_server(DONE, name="public.test") as home:
        got = new_transport().fetch(Request(inside.url(), home.origin))
    assert "an internal address" in got.message and got.final
    assert inside.accepted == 0


def test_open_connection_to_an_internal_server_is_not_used_either(new_transport):
    """Other jobs of the profile may be there."""
    transport = new_transport()
    with RawServer(DONE, name="inside.test") as inside:
        with public_server(redirect(inside.url("/there"))) as home:
            assert transport.fetch(Request(inside.url("/own"), inside.origin)).status == 200
            got = transport.fetch(Request(home.url(), home.origin))
            assert transport.fetch(Request(inside.url("/own"), inside.origin)).status == 200
    assert isinstance(got, Fault) and "an internal address" in got.message
    assert inside.targets == ["/own", "/own"]


@pytest.mark.parametrize("target", ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254"])
def test_behind_a_proxy_a_name_counts_as_public(target, fetch):
    """The proxy resolves names; whether one is internal is not known here."""
    with RawServer(redirect("http://%s/latest/meta-data" % target), DONE) as proxy:
        got = fetch("http://jobs.example/1", proxy="http://" + proxy.authority)
    assert "points to %s, an internal address" % target in got.message
    assert len(proxy.requests) == 1


@pytest.mark.parametrize(
    "target",
    ["%6cocalhost", "[%6c%6f%63%61%6c%68%6f%73%74]", "localhost%2fa.test", "a%40localhost"],
)
def test_no_spelling_leads_a_proxy_to_an_internal_address(target, fetch):
    """Proxies and curl decode it."""
    with RawServer(redirect("http://%s/latest/meta-data" % target), DONE) as proxy:
        assert isinstance(fetch("http://jobs.example/1", proxy="http://" + proxy.authority), Fault)
    assert len(proxy.requests) == 1


def test_behind_a_proxy_an_internal_address_may_point_to_another(fetch):
    with RawServer(redirect("http://10.0.0.2/there"), DONE) as proxy:
        assert fetch("http://10.0.0.1/1", proxy="http://" + proxy.authority).status == 200


def test_name_that_is_needed_to_decide_and_cannot_be_resolved_is_a_passing_fault(new_transport):
    """A resumed job is not given up because DNS is down."""
    with RawServer(DONE) as inside:
        got = new_transport(request_timeout=2.0).fetch(
            Request(inside.url(), "http://gone.invalid:80")
        )
    assert "resolve" in got.message and not got.final
    assert not inside.requests


# same-origin and any


@every_pointer
def test_same_origin_follows_nothing_to_another_origin(pointer):
    with RawServer(DONE) as there, RawServer(POINTERS[pointer](there.url("/there"))) as home:
        outcome, _ = poll(home.url(), redirects="same-origin")
    assert outcome.state == "unreachable"
    assert "points to %s, another origin" % there.url("/there") in outcome.error.message
    assert "which redirects = same-origin forbids" in outcome.error.message
    assert there.accepted == 0


@every_pointer
def test_same_origin_follows_redirects_within_the_origin(pointer):
    with RawServer(POINTERS[pointer]("/there"), DONE) as home:
        outcome, told = poll(home.url(), redirects="same-origin")
    assert outcome.state == "done" and warnings_of(told) == []


@every_pointer
def test_any_follows_a_public_server_inside_but_without_credentials(pointer):
    with RawServer(DONE) as inside:
        with public_server(POINTERS[pointer](inside.url("/there"))) as home:
            outcome, _ = poll(home.url(), redirects="any", headers=SECRETS)
    assert outcome.state == "done"
    assert b"SECRET" not in inside.requests[0].raw


def test_redirect_to_an_origin_listed_for_jobs_carries_no_credentials_either():
    """`origins` lists origins of jobs; no server may send credentials from one to another."""
    with RawServer(DONE) as there, RawServer(redirect(there.url())) as home:
        outcome, _ = poll(
            home.url(), url=home.url("/{id}"), origins=(there.origin,), headers=SECRETS
        )
    assert outcome.state == "done"
    assert b"SECRET" in home.requests[0].raw and b"SECRET" not in there.requests[0].raw


# The log


def test_each_hop_to_another_origin_is_logged_and_warned_of_once(caplog):
    caplog.set_level(logging.INFO, "pollkit")
    with RawServer(reply('{"status": "running"}'), reply('{"status": "running"}'), DONE) as there:
        with RawServer(redirect(there.url("/there?token=SECRET"))) as home:
            outcome, told = poll(home.url())
    assert outcome.polls == 3
    hops = [
        line.getMessage()
        for line in caplog.records
        if line.levelno == logging.INFO and "another origin" in line.getMessage()
    ]
    assert (
        hops
        == [
            "%s: the server points to another origin, %s, which gets no credentials"
            % (home.url(), there.origin)
        ]
        * 3
    )
    assert len(warnings_of(told)) == 1


def test_hops_within_an_origin_are_not_worth_a_word(caplog):
    caplog.set_level(logging.INFO, "pollkit")
    with RawServer(redirect("/there"), DONE) as home:
        poll(home.url())
    assert "another origin" not in caplog.text


def test_log_repeats_no_secret_that_a_server_put_into_a_host_name(caplog, monkeypatch):
    caplog.set_level(logging.DEBUG, "pollkit")
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-token")
    with RawServer(redirect("http://s3cr3t-token.invalid/x")) as home:
        outcome, told = poll(home.url(), auth="bearer env:MY_TOKEN")
    assert "s3cr3t" not in caplog.text + str(outcome) + "".join(map(str, told))


@contextlib.contextmanager
def many_origins(count):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(RawServer(DONE)) for _ in range(count)]


def test_the_memory_for_origins_is_bounded(monkeypatch, new_transport):
    monkeypatch.setattr(redirects, "_MAX_ORIGINS", 2)
    with many_origins(4) as servers, public_server(DONE) as store:
        transport = new_transport()
        for server in servers:
            server.answers = [redirect(store.url())]
            assert transport.fetch(Request(server.url(), server.origin)).status == 200
        assert len(transport._redirects._hosts) <= 2


def test_an_internal_address_among_many_public_ones_is_not_forgotten(monkeypatch):
    monkeypatch.setattr(redirects, "_MAX_HOSTS", 3)
    rules = redirects.Redirects("safe", "none", BackgroundCalls())
    for host in ["127.0.0.1"] + ["8.8.8.%d" % i for i in range(10)]:
        rules._remember("http://many.test:80", {host})
    assert not rules.is_known_public("http://many.test:80")
    assert len(rules._hosts["http://many.test:80"]) <= 3


def test_bad_policy_is_a_config_error():
    with pytest.raises(ConfigError, match="redirects must be safe or same-origin or any"):
        Poller(Profile(redirects="never"))
