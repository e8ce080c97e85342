"""No text of a server, a file or an argument reaches a terminal with control characters.

Every command runs in a real pseudo-terminal. TERM=dumb and --progress log keep pollkit's own
escape sequences away, so any that arrives is the server's.
"""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("pty")

from paths import ROOT
from raw_server import RawServer, reply

EVIL = "a\x1b[2Jb\x9b31mc\u202ed\u2066e\x07f\x7fg\u2028h\r\x08\u200fi\u061c\x1b]0;title\x07"
WITH_NUL = EVIL + "\x00"
BODIES = {
    "status": {"status": WITH_NUL},
    "text": {"status": "done", "result": WITH_NUL},
    "object": {"status": "done", "result": {WITH_NUL: [WITH_NUL]}},
    "error": {"status": "failed", "error": {"code": WITH_NUL, "message": WITH_NUL}},
    "progress": {"status": "running", "progress": WITH_NUL, "id": WITH_NUL, WITH_NUL: WITH_NUL},
}
RAW = {
    "redirect": reply(b"", "302 Found", Location="/x\x1b[2J\x9b"),
    "refusal": reply(b"{}", "503 \x1b[2Jx\x9b", Retry_After="\x1b[2Jx", X_RateLimit_Limit="\x1b"),
    "page": reply("<title>%s</title>" % EVIL, Content_Type="text/html\x1b[2J"),
    "garbage": b"\x1b[2J\x9b31m\x00hello\r\n\r\n",
}
ONCE = ["--timeout", "0", "--max-faults", "1"]


def answer(connection, request):
    name = request.target[1:]
    if name in RAW:
        connection.send(RAW[name])
        connection.close()
    else:
        connection.send(
            reply(json.dumps(BODIES.get(name, {}), ensure_ascii=False), "200 OK\x1b[2J")
        )


@pytest.fixture(scope="module")
def server():
    with RawServer(answer) as server:
        yield server


@pytest.fixture
def on_terminal(tmp_path):
    """A function that runs a command on a terminal and returns what arrives there."""

    def run(*words):
        master, slave = os.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "pollkit"] + list(words),
            cwd=str(tmp_path),
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            env=dict(os.environ, PYTHONPATH=ROOT, TERM="dumb", PYTHONIOENCODING="utf-8"),
        )
        os.close(slave)
        received = b""
        try:
            while True:
                received += os.read(master, 65536)
        except OSError:  # Linux reports the end of a terminal as an error
            pass
        finally:
            os.close(master)
            process.wait()
        return received.replace(b"\r\n", b"\n").decode("utf-8")

    return run


def assert_harmless(text):
    assert text.strip()
    harmful = {char for char in text if not char.isprintable() and char not in "\n\t"}
    assert not harmful, text


@pytest.mark.parametrize("kind", list(BODIES) + list(RAW))
def test_wait_shows_no_control_characters(server, on_terminal, kind):
    url = server.url("/" + kind)
    assert_harmless(on_terminal("wait", url, "-vv", "--progress", "log", *ONCE))


@pytest.mark.parametrize("kind", ["text", "object"])
def test_a_result_on_a_terminal_has_no_control_characters(server, on_terminal, kind):
    assert_harmless(on_terminal("wait", server.url("/" + kind), "--result", *ONCE))


@pytest.mark.parametrize("kind", ["status", "object", "refusal", "page", "garbage"])
def test_doctor_shows_no_control_characters(server, on_terminal, kind):
    assert_harmless(on_terminal("doctor", server.url("/" + kind), "--show-reply"))


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_batch_shows_no_control_characters(server, on_terminal, output):
    urls = [server.url("/" + kind) for kind in list(BODIES) + list(RAW)]
    assert_harmless(on_terminal("batch", "--output", output, "-v", *(urls + ONCE)))


def test_a_ledger_shows_no_control_characters(server, on_terminal, tmp_path):
    (tmp_path / "mine.ini").write_text("[mine]\nurl = %s\n" % server.url("/{id}"))
    profile = ["--profiles", "mine.ini"]
    lines = [{"id": kind, "metadata": {EVIL: WITH_NUL}} for kind in list(BODIES) + list(RAW)]
    (tmp_path / "jobs").write_text("\n".join(map(json.dumps, lines)))
    assert_harmless(on_terminal("add", "L", "jobs", "--profile", "mine", *profile))
    assert_harmless(on_terminal("run", "L", "--once", "-v", *(profile + ["--progress", "log"])))
    assert_harmless(on_terminal("status", "L"))
    assert_harmless(on_terminal("status", "L", "--json"))
    assert_harmless(on_terminal("run", "L", "--dry-run", *profile))


@pytest.mark.parametrize(
    "words",
    [
        [EVIL],
        ["wait", EVIL],
        ["wait", "--" + EVIL],
        ["help", EVIL],
        ["status", EVIL],
        ["profiles", "show", EVIL],
        ["batch", EVIL],
    ],
    ids=lambda words: words[0] if words[0] != EVIL else "command",
)
def test_an_argument_is_quoted_without_control_characters(on_terminal, words):
    assert_harmless(on_terminal(*words))
