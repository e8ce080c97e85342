"""Credentials: their sources, and which of them goes first."""

import contextlib
import os
import sys
import traceback

import pytest

from credential_polls import poll, print_command
from leaky_servers import DONE, basic
from pollkit import ConfigError, Poller, PollkitError, Profile
from pollkit.edges.credentials import Credential
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply

# Sources


def test_sources_and_schemes_on_the_wire(environment, tmp_path):
    """Each combination as the server sees it."""
    environment.setenv("TOKEN", "  t0ken=+/ \n")
    (tmp_path / "token").write_text("t0ken\n")
    (tmp_path / "login").write_text("me:p\u00e4ss\n", encoding="utf-8")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password s3cret\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / "other-netrc").write_text("default login you password 0ther\n")
    table = [
        ("bearer env:TOKEN", "authorization", "Bearer t0ken=+/"),
        ("Bearer  env:TOKEN", "authorization", "Bearer t0ken=+/"),
        ("bearer file:%s" % (tmp_path / "token"), "authorization", "Bearer t0ken"),
        ("bearer file:~/token", "authorization", "Bearer t0ken"),
        ("bearer " + print_command("t0ken"), "authorization", "Bearer t0ken"),
        ("basic file:%s" % (tmp_path / "login"), "authorization", basic("me:p\u00e4ss")),
        ("basic " + print_command("me:pw"), "authorization", basic("me:pw")),
        ("header X-API-Key env:TOKEN", "x-api-key", "t0ken=+/"),
        ("header X-API-Key file:~/token", "x-api-key", "t0ken"),
        ("netrc", "authorization", basic("me:s3cret")),
        ("basic netrc", "authorization", basic("me:s3cret")),
    ]
    for auth, name, value in table:
        with RawServer(DONE) as server:
            assert poll(server, auth=auth).state == "done"
        assert server.requests[0].headers[name] == value, auth
        assert ("authorization" in server.requests[0].headers) == (name == "authorization"), auth
    environment.setenv("NETRC", str(tmp_path / "other-netrc"))
    with RawServer(DONE) as server:
        poll(server, auth="netrc")
    assert server.requests[0].headers["authorization"] == basic("you:0ther")


def test_command_runs_without_a_shell():
    """No word of it is expanded."""
    assert Credential("bearer command:echo '$HOME' `x` ; true").header("h") == (
        "Authorization",
        "Bearer $HOME `x` ; true",
    )


def test_command_cannot_take_the_input_that_was_meant_for_pollkit():
    reads = "command:'%s' -c 'import sys; print(repr(sys.stdin.read()))'" % sys.executable
    ours, theirs = os.pipe()
    os.write(theirs, b"job_1")
    os.close(theirs)
    kept = os.dup(0)
    try:
        os.dup2(ours, 0)
        assert Credential("bearer " + reads).header("h") == ("Authorization", "Bearer ''")
        assert os.read(0, 100) == b"job_1"
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(ours)


def test_source_is_read_when_first_needed_and_then_remembered(tmp_path):
    runs = tmp_path / "runs"
    script = tmp_path / "script.py"
    script.write_text("open(%r, 'a').write('x'); print('t0ken')" % str(runs))
    with RawServer(
        reply('{"status": "running"}'), reply('{"status": "running"}'), DONE
    ) as server, Poller(
        Profile(auth="bearer command:'%s' '%s'" % (sys.executable, script)), clock=VirtualClock()
    ) as poller:
        assert not runs.exists()
        assert poller.poll(server.url()).polls == 3
    assert runs.read_text() == "x"


@pytest.mark.parametrize(
    "auth",
    [
        "",
        "bearer",
        "SECRET",
        "bearer SECRET",
        "basic me:SECRET",
        "digest env:SECRET",
        "bearer env:",
        "bearer file:",
        "bearer command:",
        "bearer netrc:SECRET",
        "netrc SECRET",
        "header",
        "header X-Key",
        "header X-Key SECRET",
        "header X:Key env:SECRET",
        "header X-Key: env:SECRET",
        "bearer vault:SECRET",
    ],
)
def test_specification_that_makes_no_sense_is_refused_and_not_repeated(auth):
    """It may contain the credential by mistake, so no error repeats it."""
    with pytest.raises(ConfigError) as caught:
        Credential(auth)
    assert "bearer env:NAME" in str(caught.value)  # how it is written
    assert "SECRET" not in repr(caught.value)


@pytest.mark.parametrize(
    "name", ["Host", "host", "Content-Length", "Transfer-Encoding", "connection"]
)
def test_header_that_belongs_to_the_exchange_carries_no_credential(name):
    with pytest.raises(ConfigError, match="^the header %s is not yours to set$" % name):
        Credential("header %s env:TOKEN" % name)


def test_header_of_a_credential_is_sent_once_in_any_case(environment):
    environment.setenv("TOKEN", "t0ken")
    for name in ("authorization", "user-agent", "accept", "content-type"):
        with RawServer(DONE) as server:
            poll(server, auth="header %s env:TOKEN" % name, method="POST", body="{}")
        assert [value for sent, value in server.requests[0].fields if sent.lower() == name] == [
            "t0ken"
        ]


def unusable(tmp_path):
    """Specifications, and the words that their error must contain."""

    def written(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    directory = tmp_path / "directory"
    directory.mkdir()
    netrc_entry = b"machine elsewhere.test login me password SECRET\n"
    return {
        "variable not set": (
            "bearer env:NOT_SET",
            ["environment variable NOT_SET is not set, or empty"],
        ),
        "variable empty": ("bearer env:BLANK", ["environment variable BLANK is not set, or empty"]),
        "variable of two lines": ("bearer env:LINES", ["environment variable LINES", "one line"]),
        "variable no header can carry": ("bearer env:EURO", ["environment variable EURO"]),
        "file not there": ("bearer file:%s/none" % tmp_path, ["/none", "No such file"]),
        "file empty": ("bearer file:" + written("blank", b" \n\n"), ["/blank", "empty"]),
        "file of two lines": (
            "bearer file:" + written("two", b"SECRET\nSECRET\n"),
            ["/two", "one line"],
        ),
        "file that is binary": (
            "bearer file:" + written("binary", b"SECRET\0\1"),
            ["/binary", "one line"],
        ),
        "file not in UTF-8": ("bearer file:" + written("latin", b"SECRET\xff\xfe"), ["/latin"]),
        "file that is a directory": ("bearer file:%s" % directory, ["/directory", "directory"]),
        "command not there": ("bearer command:/nonexistent/program", ["command", "No such file"]),
        "command that fails": (
            "bearer command:'%s' -c 'print(\"SECRET\"); raise SystemExit(3)'" % sys.executable,
            ["command", "exit code 3"],
        ),
        "command without output": ("bearer " + print_command(""), ["command", "empty"]),
        "command with two lines": (
            "bearer " + print_command("SECRET\\nSECRET"),
            ["command", "one line"],
        ),
        "command with a quote too many": ("bearer command:echo 'SECRET", ["command"]),
        "netrc not there": ("netrc", ["netrc", "No such file"]),
        "netrc of other hosts": ("netrc", ["netrc", "127.0.0.1"]),
        "netrc that is malformed": ("netrc", ["netrc", "well-formed"]),
    }, {
        "netrc not there": str(tmp_path / "none"),
        "netrc of other hosts": written("others", netrc_entry),
        "netrc that is malformed": written("malformed", b"machine 127.0.0.1 passwort SECRET\n"),
    }


UNUSABLE = [
    "variable not set",
    "variable empty",
    "variable of two lines",
    "variable no header can carry",
    "file not there",
    "file empty",
    "file of two lines",
    "file that is binary",
    "file not in UTF-8",
    "file that is a directory",
    "command not there",
    "command that fails",
    "command without output",
    "command with two lines",
    "command with a quote too many",
    "netrc not there",
    "netrc of other hosts",
    "netrc that is malformed",
]


@pytest.mark.parametrize("case", UNUSABLE)
def test_credential_that_cannot_be_read_is_a_config_error_before_any_poll(
    case, environment, tmp_path
):
    """One line that names the source, never its content."""
    specifications, netrc_files = unusable(tmp_path)
    environment.setenv("BLANK", " ")
    environment.setenv("LINES", "SECRET\nSECRET")
    environment.setenv("EURO", "SECRET\u20ac")
    environment.setenv("NETRC", netrc_files.get(case, ""))
    auth, words = specifications[case]
    with RawServer(DONE) as server, pytest.raises(PollkitError) as caught:
        poll(server, auth=auth)
    shown = (
        str(caught.value)
        + repr(caught.value)
        + "".join(traceback.format_exception(caught.type, caught.value, None))
    )
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "SECRET" not in shown
    assert isinstance(caught.value, ConfigError)
    assert server.accepted == 0


def test_table_of_unusable_credentials_is_complete(tmp_path):
    names = {getattr(case, "values", (case,))[0] for case in UNUSABLE}
    assert names == set(unusable(tmp_path)[0])


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root can read any file"
)
def test_file_that_may_not_be_read_is_a_config_error(tmp_path):
    secret = tmp_path / "token"
    secret.write_text("SECRET")
    secret.chmod(0)
    with pytest.raises(ConfigError, match="Permission denied"):
        Credential("bearer file:%s" % secret).header("h")


# Precedence


def test_header_given_by_hand_goes_before_the_credential(environment):
    environment.setenv("TOKEN", "t0ken")
    with RawServer(DONE) as server:
        poll(server, auth="bearer env:TOKEN", headers={"authorization": "Custom x"})
    assert [
        value for name, value in server.requests[0].fields if name.lower() == "authorization"
    ] == ["Custom x"]


def test_credential_goes_before_the_urls_userinfo(environment):
    environment.setenv("TOKEN", "t0ken")
    transport = Transport(Profile(auth="bearer env:TOKEN"))
    with RawServer(DONE) as server, contextlib.closing(transport):
        transport.fetch(Request(server.url("/jobs/1", "me:pw"), server.origin))
    assert server.requests[0].headers["authorization"] == "Bearer t0ken"
