"""Secrets that a server repeats in any form are not shown; results are data and do not change."""

import base64
import json
import os

import pytest

from pollkit.cli import main
from raw_server import RawServer, reply

SECRET = "s3cr3t/with+odd=chars"
IN_URL = "s3cr3t%2Fwith%2Bodd%3Dchars"
USER = "someone"
BASIC = base64.b64encode(("%s:%s" % (USER, SECRET)).encode()).decode()
CREDENTIALS = ("authorization", "proxy-authorization", "x-api-key")
HIDDEN = (SECRET, IN_URL, BASIC)


def flatten_request(request):
    """A whole request on one line, the secrets first."""
    fields = sorted(request.fields, key=lambda field: field[0].lower() not in CREDENTIALS)
    return " | ".join(
        ["%s: %s" % field for field in fields[:1]]
        + [request.line]
        + ["%s: %s" % f for f in fields[1:]]
    )


def answer(head, **data):
    """An answer that repeats the whole request wherever the data says ECHO."""

    def act(connection, request):
        text = json.dumps(data).replace("ECHO", json.dumps(flatten_request(request))[1:-1])
        connection.send(reply(text, head))

    return act


def link(status, where):
    """A redirect to a URL that repeats a header of the request."""

    def act(connection, request):
        value = (
            request.headers.get("authorization")
            or request.headers.get("x-api-key")
            or request.target
        )
        connection.send(
            reply(
                b"",
                status,
                Location=where % {"value": value, "here": connection.sock.getsockname()[1]},
            )
        )

    return act


ANSWERS = {
    "error": [answer("400 Bad Request", error={"message": "ECHO", "code": "ECHO"})],
    "unauthorised": [answer("401 Unauthorized", message="ECHO")],
    "html": [
        lambda connection, request: connection.send(
            reply("<html>%s</html>" % flatten_request(request), "502 Bad Gateway")
        )
    ],
    "unknown status": [answer("200 OK", status="ECHO"), answer("200 OK", status="done")],
    "failed": [answer("200 OK", status="failed", error={"message": "ECHO", "code": "ECHO"})],
    "not JSON": [
        lambda connection, request: connection.send(reply("oops " + flatten_request(request)))
    ],
    "redirected": [link("302 Found", "/jobs/%(value)s"), answer("404 Not Found", message="ECHO")],
    "redirected to nowhere": [link("302 Found", "gopher://%(value)s/")],
    "redirected away": [
        link("302 Found", "http://localhost:%(here)d/?x=%(value)s"),
        answer("403 Forbidden", m="ECHO"),
    ],
    "see other": [link("303 See Other", "/results/%(value)s"), answer("500 Oh", message="ECHO")],
    "under another name": [
        lambda connection, request: connection.send(
            reply(b"", "303 See Other", Location="/results?z=%s" % IN_URL)
        ),
        answer("500 Oh", message="ECHO"),
    ],
    "redirected under another name": [
        lambda connection, request: connection.send(
            reply(b"", "302 Found", Location="/results?z=%s" % IN_URL)
        ),
        answer("410 Gone", message="ECHO"),
    ],
    "encoded": [
        lambda connection, request: connection.send(reply(b"{}", **{"Content-Encoding": SECRET}))
    ],
    "accepted": [
        lambda connection, request: connection.send(
            reply(
                b"",
                "202 Accepted",
                Location="/later/%s" % request.headers.get("authorization", "x").replace(" ", "_"),
            )
        ),
        answer("410 Gone", message="ECHO"),
    ],
}


def by_profile(auth):
    def prepare(folder, server):
        (folder / "mine.ini").write_text(
            "[mine]\nurl = %s\nauth = %s\n" % (server.url("/jobs/{id}"), auth)
        )
        return ["1", "--profile", "mine", "--profiles", str(folder / "mine.ini")]

    return prepare


def by_proxy(folder, server):
    proxy = "http://%s:%s@%s" % (USER, IN_URL, server.authority)
    (folder / "mine.ini").write_text(
        "[mine]\nurl = http://api.invalid/jobs/{id}\nproxy = %s\n" % proxy
    )
    return ["1", "--profile", "mine", "--profiles", str(folder / "mine.ini")]


def by_file(folder, server):
    return [server.url(), "--token-file", str(folder / "token")]


def by_auth(specification):
    return lambda folder, server: [server.url(), "--auth", specification]


SOURCES = {
    "--token-env": lambda folder, server: [server.url(), "--token-env", "MY_TOKEN"],
    "--token-file": by_file,
    "--auth header": by_auth("header X-API-Key env:MY_TOKEN"),
    "--auth basic": by_auth("basic env:MY_LOGIN"),
    "--auth command": by_auth("bearer command:cat token"),
    "--auth netrc": by_auth("netrc"),
    "bearer env": by_profile("bearer env:MY_TOKEN"),
    "bearer file": by_profile("bearer file:token"),
    "bearer command": by_profile("bearer command:cat token"),
    "basic env": by_profile("basic env:MY_LOGIN"),
    "netrc": by_profile("netrc"),
    "header": by_profile("header X-API-Key env:MY_TOKEN"),
    "user and password in the URL": lambda folder, server: [
        server.url(userinfo="%s:%s" % (USER, IN_URL))
    ],
    "a token in the URL": lambda folder, server: [server.url("/jobs/1?token=%s&n=1" % IN_URL)],
    "a proxy's password": by_proxy,
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "token").write_text(SECRET + "\n")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login %s password %s\n" % (USER, SECRET))
    for name in ("token", ".netrc"):
        (tmp_path / name).chmod(0o600)
    for name in [
        name for name in os.environ if name.startswith("POLLKIT") or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv("MY_TOKEN", SECRET)
    monkeypatch.setenv("MY_LOGIN", "%s:%s" % (USER, SECRET))
    monkeypatch.chdir(tmp_path)
    return tmp_path


FLAGS = ["--pace", "fixed 10ms", "-vv"]
TIMEOUTS = ["30ms", "5s"]  # the second only if a busy machine was too slow to send the secret


@pytest.mark.parametrize("source, what", [(name, what) for name in SOURCES for what in ANSWERS])
def test_a_secret_that_a_server_repeats_is_not_shown(here, capsys, source, what):
    log_flags = ["--log-json"] if what == "error" else []
    for timeout in TIMEOUTS:
        with RawServer(*ANSWERS[what]) as server:
            words = SOURCES[source](here, server)
            main(["wait"] + words + ["--timeout", timeout] + FLAGS + log_flags)
            sent = "".join(flatten_request(request) for request in server.requests)
        out, err = capsys.readouterr()
        was_sent = any(secret in sent for secret in HIDDEN)  # and so it was repeated
        if was_sent:
            break
    assert was_sent
    assert not [secret for secret in HIDDEN if secret in out + err], out + err
    assert json.loads(out)["state"] and (what != "error" or "***" in out)


@pytest.mark.parametrize(
    "source", ["--token-env", "basic env", "header", "user and password in the URL"]
)
def test_no_part_of_a_truncated_secret_is_shown(here, capsys, source):
    """Long messages are truncated, perhaps in the middle of a secret."""
    padding = []

    def pad(connection, request):
        secret = (
            SECRET if "basic" not in request.headers.get("authorization", "").lower() else BASIC
        )
        text = "x" * padding[0] + " " + secret + " and more" * 50
        connection.send(
            reply(
                json.dumps(
                    {"status": "failed", "error": text} if padding[0] % 2 else {"error": text}
                ),
                "200 OK" if padding[0] % 2 else "400 Bad",
            )
        )

    with RawServer(pad) as server:
        words = SOURCES[source](here, server)
        for length in range(40, 330, 13):
            padding[:] = [length]
            main(["wait"] + words + ["--timeout", TIMEOUTS[0]] + FLAGS)
            out, err = capsys.readouterr()
            assert SECRET[:6] not in out + err and BASIC[:6] not in out + err, (length, out, err)


def test_a_result_is_data_and_stays_as_it_is(here, capsys):
    """Otherwise a credential could change a result that happens to contain it."""
    with RawServer(
        answer("200 OK", status="done", result={"link": "https://cdn.internal/?token=" + SECRET})
    ) as server:
        assert main(["wait"] + by_file(here, server) + ["--quiet"]) == 0
    out, err = capsys.readouterr()
    assert (
        json.loads(out)["result"] == {"link": "https://cdn.internal/?token=" + SECRET} and err == ""
    )


@pytest.mark.parametrize(
    "mode, flags, warned",
    [
        (0o600, [], 0),
        (0o400, [], 0),
        (0o644, [], 1),
        (0o640, [], 1),
        (0o644, ["--quiet"], 0),
        (0o644, ["--log-json"], 1),
    ],
)
def test_a_token_file_that_others_can_read_is_warned_of_once(here, capsys, mode, flags, warned):
    (here / "token").chmod(mode)
    with RawServer(answer("200 OK", status="done")) as server:
        (here / "jobs").write_text("%s\n%s\n" % (server.url("/1"), server.url("/2")))
        for words in (
            ["wait", server.url(), "--token-file", "token"],
            ["batch", "jobs", "--token-file", "token"],
            ["wait", server.url(), "--auth", "header X-Key file:token"],
        ):
            assert main(words + flags) == 0
            err = capsys.readouterr().err
            assert err.count("others on this host can read") == warned and SECRET not in err
            assert err.count("chmod 600") == warned


def test_a_password_in_a_url_on_the_command_line_is_warned_of(here, capsys):
    (here / "my.ini").write_text("[mine]\nurl = {base}/{id}\n")
    mine = ["--profile", "mine", "--profiles", "my.ini", "--base-url"]
    with RawServer(answer("200 OK", status="done")) as server:
        plain = server.url("/1", userinfo="")
        secret = server.url("/1", userinfo="u:" + IN_URL)
        for words in (["wait", secret], ["batch", plain, secret], ["wait", "1"] + mine + [secret]):
            assert main(words) == 0
            err = capsys.readouterr().err
            assert err.count("others on this host can read the password in the URL") == 1
        for words in (["wait", plain + "?at=a@b"], ["batch", plain, plain + "2"]):
            assert main(words) == 0
            assert "others on this host" not in capsys.readouterr().err


def test_a_batch_shows_no_secret_either(here, capsys):
    with RawServer(answer("400 Bad Request", error="ECHO")) as server:
        lines = [
            server.url("/jobs/1?token=" + IN_URL),
            server.url("/jobs/2", userinfo="u:" + IN_URL),
            json.dumps({"id": "three", "url": server.url("/jobs/3?sig=" + IN_URL)}),
        ]
        (here / "jobs").write_text("\n".join(lines))
        assert main(["batch", "jobs", "--token-env", "MY_TOKEN", "-vv"]) == 4
    out, err = capsys.readouterr()
    assert not [secret for secret in HIDDEN if secret in out + err]
    assert len(out.splitlines()) == 3 and "token=***" in out and "***@" in out and "sig=***" in out
