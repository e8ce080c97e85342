"""The commands wait and batch: signals, streams, locales, and a copied folder."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import pytest

from paths import ROOT
from pollkit import Ledger, __version__
from pollkit.cli import main
from pollkit.cli.progress.event_log import EventLog
from raw_server import HANG, RawServer, reply, wait_for
from wait_commands import KEYS, profile_file, run

# In process


@pytest.mark.parametrize("words", [["profiles"], ["wait"], ["nonsense"], ["wait", "--help"]])
def test_main_restores_signal_handlers_and_streams(capsys, words):
    def mine(number, frame):
        """The caller's handler."""

    before = signal.signal(signal.SIGTERM, mine)
    streams = sys.stdout, sys.stderr
    try:
        main(words)
        assert signal.getsignal(signal.SIGTERM) is mine and (sys.stdout, sys.stderr) == streams
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        main(words)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_an_event_is_shown_stops_the_wait(api, capsys, monkeypatch, number, code):
    def interrupt(log, event, wall):
        os.kill(os.getpid(), number)

    api.add("1")
    monkeypatch.setattr(EventLog, "format_event", interrupt)
    found, out, err = run(capsys, ["wait", api.url("1")])
    assert (found, out) == (code, "") and err.startswith("pollkit: interrupted: ")


def test_main_runs_in_another_thread(capsys):
    codes = []
    thread = threading.Thread(target=lambda: codes.append(main(["profiles"])))
    thread.start()
    thread.join()
    assert codes == [0]


@pytest.mark.parametrize("path", ["jobs", "-"])
def test_a_short_list_of_jobs_takes_little_memory(path, monkeypatch, capsys):
    """A host may allow less memory than the longest list could take: ulimit -v, a container."""
    with open("jobs", "wb") as file:
        file.write(b"job_1\n")
    with open("jobs", "rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        tracemalloc.start()
        try:
            code = main(["add", "ledger.db", "--from", path, "--profile", "knowhere"])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert code == 0 and "1 added" in capsys.readouterr().err
    assert peak < 32 * 1024 * 1024


# As processes

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and a shell")


def start(words, **environ):
    env = dict({"PATH": os.environ.get("PATH", ""), "PYTHONPATH": ROOT}, **environ)
    return subprocess.Popen(
        [sys.executable, "-m", "pollkit"] + words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )


@posix
@pytest.mark.parametrize("command", ["wait", "batch"])
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("answer", [HANG, reply('{"status": "running"}')], ids=["hangs", "sleeps"])
def test_a_signal_stops_it_within_a_second_and_it_lists_unfinished_jobs(
    command, number, code, answer
):
    with RawServer(answer) as server:
        if command == "batch":
            with open("jobs", "w") as file:
                file.write("%s\n%s\n" % (server.url("/1"), server.url("/2?token=s3cr3t")))
        process = start(
            [command, "jobs" if command == "batch" else server.url("/1"), "--pace", "fixed 1m"]
        )
        wait_for(lambda: len(server.requests) == (2 if command == "batch" else 1))
        time.sleep(0.05)
        process.send_signal(number)
        began = time.monotonic()
        out, err = process.communicate(timeout=10)
        lasted = time.monotonic() - began
    lines = [line for line in err.decode().splitlines() if line.startswith("pollkit: ")]
    unfinished = ".*/1 has not finished"
    if command == "batch":
        unfinished = "2 of 2 jobs have not finished: .*/1, .*token="
    assert (process.returncode, out) == (code, b"") and lasted < 1.5
    assert len(lines) == 1 and re.match("pollkit: interrupted: " + unfinished, lines[0])
    assert b"Traceback" not in err and b"s3cr3t" not in err


@posix
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_repeated_signals_change_nothing(number, code):
    with RawServer(reply('{"status": "running"}')) as server:
        process = start(["wait", server.url("/1"), "--pace", "fixed 5ms"])
        wait_for(lambda: len(server.requests) > 2)
        while process.poll() is None:  # also while Python exits
            process.send_signal(number)
        _, err = process.communicate(timeout=10)
    assert (
        process.returncode == code
        and err.count(b"pollkit: interrupted") == 1
        and b"Traceback" not in err
    )


@posix
def test_a_closed_output_pipe_stops_it_without_a_message(api):
    for number in range(50):
        api.add("%d" % number, lasts=0.01 * number, result="x" * 5000)
    with open("jobs", "w") as file:
        file.write("".join(api.url("%d" % number) + "\n" for number in range(50)))
    command = "%s -m pollkit batch jobs --progress none | head -1" % sys.executable
    done = subprocess.Popen(
        ["sh", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": ROOT},
    )
    out, err = done.communicate(timeout=20)
    assert list(json.loads(out.decode())) == KEYS and err == b""


@posix
@pytest.mark.parametrize(
    "environ", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C.UTF-8"}], ids=repr
)
def test_results_with_characters_that_the_locale_lacks(api, environ):
    result = "é 処 \U0001f600 \ud800"
    api.add("1", result={"text": result})
    process = start(["wait", api.url("1"), "--quiet"], **environ)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out.decode())["result"] == {"text": result}


@posix
def test_a_profile_with_characters_that_the_locale_lacks():
    with open("mine.ini", "wb") as file:
        file.write("[mine]\nurl = http://h/{id}\ndone = terminé\n".encode("utf-8"))
    process = start(
        ["profiles", "show", "mine", "--profiles", "mine.ini"], PYTHONIOENCODING="ascii"
    )
    out, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (0, b"") and b"termin\\xe9" in out


@posix
@pytest.mark.parametrize(
    "words, out",
    [
        (["batch", "jü", "--quiet", "--timeout", "0"], b'"state": "done"'),
        (["profiles", "check", "pü"], b"no mistakes"),
        (
            ["simulate", "--durations", "dü", "--svg", "sü", "--json"],
            b'{"scenario": "d\\u00fc", "jobs": 2',
        ),
        (["simulate", "--durations", "ledger:lü"], b"has no durations yet"),
    ],
    ids=repr,
)
def test_paths_with_characters_that_the_locale_lacks(api, words, out):
    """As in cron on Python 3.6; the environment makes later versions behave like it."""
    for name, text in (
        ("jü", api.url("1")),
        ("pü", "[p]\nurl = http://h/{id}\n"),
        ("dü", "5s\n9s\n"),
    ):
        with open(name.encode("utf-8"), "w") as file:
            file.write(text)
    api.add("1")
    Ledger("l").close()
    os.rename("l", "lü".encode("utf-8"))
    process = start(
        [word.encode("utf-8") for word in words],
        LC_ALL="C",
        PYTHONCOERCECLOCALE="0",
        PYTHONUTF8="0",
    )
    printed, err = process.communicate(timeout=20)
    assert out in printed + err and process.returncode == (2 if err else 0), err
    assert os.path.exists("sü".encode("utf-8")) == ("--svg" in words)


@posix
def test_a_huge_result_is_printed_whole(api):
    api.add("1", result="x" * 5000000)
    process = start(["wait", "1", "--result", "--quiet"] + profile_file(api))
    out, err = process.communicate(timeout=20)
    assert (process.returncode, len(out), err) == (0, 5000001, b"")


def test_a_copied_package_folder_can_be_run(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for place in (os.path.join(ROOT, "pollkit"), os.path.join(ROOT, "pollkit", "__main__.py")):
        done = subprocess.run(
            [sys.executable, place, "--version"],
            cwd=str(tmp_path),
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        assert (done.returncode, done.stdout) == (0, "pollkit %s\n" % __version__)
