"""Programs of --exec: which ones are accepted, their input, and their failures."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

from paths import ROOT
from pollkit import ConfigError
from pollkit.edges.ledger.records import Notification, NotificationFailed
from pollkit.edges.notify.program import Program

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs are shell scripts here")
NOTIFICATION = Notification(1, "a b;$(x)", 0.0, 2, {"to": "me"}, {"id": "a", "state": "done"})


@pytest.fixture
def script(tmp_path):
    """Writes a shell script; its path."""

    def write(text):
        path = tmp_path / "notify"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return str(path)

    return write


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "--exec needs a program"),
        ([""], "--exec needs a program"),
        (["no-such-program-here"], "there is no program no-such-program-here"),
        (["/etc/passwd"], "there is no program /etc/passwd that can be run"),
        (["/tmp"], "there is no program /tmp"),
    ],
)
def test_a_missing_program_is_an_error_from_the_start(words, message):
    with pytest.raises(ConfigError, match=message):
        Program(words, 10)


def test_a_timeout_of_zero_is_an_error():
    with pytest.raises(ConfigError, match="a program's timeout must be above zero, not 0s"):
        Program(["true"], 0.0)


def test_a_program_gets_the_outcome_on_stdin_and_the_rest_in_its_environment(script, tmp_path):
    text = 'cat > "$1"; echo "$POLLKIT_ID|$POLLKIT_STATE|$POLLKIT_TRY|$POLLKIT_METADATA" >> "$1"\n'
    out = tmp_path / "out"
    Program([script(text), str(out)], 10).run(NOTIFICATION)
    given, variables = out.read_text().splitlines()
    assert json.loads(given) == NOTIFICATION.outcome
    assert variables == 'a b;$(x)|done|2|{"to": "me"}'


def test_metadata_of_another_job_is_not_inherited(script, tmp_path, monkeypatch):
    monkeypatch.setenv("POLLKIT_METADATA", '{"to": "another"}')
    out = tmp_path / "out"
    program = Program([script('echo "[$POLLKIT_METADATA]" > "$1"\n'), str(out)], 10)
    program.run(NOTIFICATION._replace(metadata=None))
    assert out.read_text() == "[]\n"


@pytest.mark.parametrize(
    "text, problem",
    [
        ("echo working; echo 'no route' >&2; exit 7\n", "exited with 7: no route"),
        ("exit 7\n", "exited with 7"),
        ("kill -9 $$\n", "was killed by signal 9"),
        ("echo started; sleep 60\n", "took longer than 200ms: started"),
    ],
)
def test_a_failure_is_reported_with_the_last_line_of_output(script, text, problem):
    path = script(text)
    with pytest.raises(NotificationFailed) as raised:
        Program([path], 0.2 if "sleep" in text else 10).run(NOTIFICATION)
    assert str(raised.value) == "%s %s" % (path, problem)


def test_a_program_that_was_removed_is_an_error(script):
    path = script("exit 0\n")
    program = Program([path], 10)
    os.unlink(path)
    with pytest.raises(NotificationFailed) as raised:
        program.run(NOTIFICATION)
    assert str(raised.value) == "can't run %s: No such file or directory" % path


def test_a_program_is_killed_if_no_thread_can_read_its_output(script, monkeypatch):
    started = []
    start = Program._start

    def recorded_start(*arguments):
        started.append(start(*arguments))
        return started[0]

    def no_thread(thread):
        raise RuntimeError("can't start new thread")

    program = Program([script("sleep 60\n")], 60)
    monkeypatch.setattr(Program, "_start", recorded_start)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError, match="new thread"):
        program.run(NOTIFICATION)
    started[0].stdout.close()
    assert started[0].returncode == -signal.SIGKILL


def test_an_unusable_temporary_folder_is_an_error(script, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(NotificationFailed, match="^can't make a temporary file: No such file"):
        Program([script("exit 0\n")], 5).run(NOTIFICATION)


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}])
def test_ids_and_programs_beyond_ascii_need_no_locale(script, locale):
    program = script('echo "$POLLKIT_ID|$POLLKIT_METADATA|$1" > "$0.out"\n')
    os.rename(program.encode(), program.encode() + "\u2603".encode("utf-8"))
    code = """
import sys
from pollkit.edges.ledger.records import Notification
from pollkit.edges.notify.program import Program
path = sys.argv[1].encode("utf-8", "surrogateescape").decode("utf-8") + "\\u2603"
metadata = {"to": "\\u2603"}
notification = Notification(1, "\\xfcn\\xef \\u2603", 0.0, 1, metadata, {"state": "done"})
Program([path, "\\u2603"], 10).run(notification)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, program],
        env=dict(locale, PYTHONPATH=ROOT),
        stderr=subprocess.PIPE,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    with open(program.encode() + "\u2603.out".encode("utf-8"), "rb") as file:
        assert file.read().decode("utf-8") == '\xfcn\xef \u2603|{"to": "\\u2603"}|\u2603\n'
