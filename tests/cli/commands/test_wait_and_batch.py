"""The commands wait and batch: output, exit codes, signals."""

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
from pollkit.testing import FakeJobApi
from raw_server import HANG, RawServer, reply, wait_for

KEYS = [
    "id",
    "url",
    "profile",
    "label",
    "metadata",
    "state",
    "status",
    "result",
    "error",
    "progress",
    "polls",
    "faults",
    "waited_s",
    "slept_s",
    "notice_delay_s",
    "started_at",
    "ended_at",
    "saved_to",
]
INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
QUICK = ["--pace", "fixed 20ms"]


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in [
        name for name in os.environ if name.startswith("POLLKIT") or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def api():
    with FakeJobApi() as api:
        yield api


def run(capsys, words):
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


def put_on_stdin(monkeypatch, *lines):
    text = "".join(line + "\n" for line in lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode("utf-8"))))


def profile_file(api, more=""):
    with open("mine.ini", "w") as file:
        file.write(
            "[fake]\nurl = %s/jobs/{id}\nresult = result\nerror = error.message\n%s"
            % (api.base, more)
        )
    return ["--profile", "fake", "--profiles", "mine.ini"]


# One job


def test_an_outcome_has_its_keys_in_order(api, capsys):
    api.add("1", lasts=0.3, pages=4, result={"words": 9})
    code, out, _ = run(capsys, ["wait", api.url("1")] + QUICK)
    outcome = json.loads(out)
    assert code == 0 and out.count("\n") == 1 and list(outcome) == KEYS
    assert list(outcome["slept_s"]) == ["pace", "limit", "retry_after", "fault"]
    assert (outcome["state"], outcome["result"], outcome["error"]) == ("done", {"words": 9}, None)
    assert re.fullmatch(INSTANT, outcome["started_at"])
    assert re.fullmatch(INSTANT, outcome["ended_at"])


def test_a_failed_job_has_a_code_and_a_message(api, capsys):
    api.add("1", fails="bad page", code="E7")
    code, out, _ = run(capsys, ["wait", api.url("1")])
    assert code == 1 and json.loads(out)["error"] == {"code": "E7", "message": "bad page"}


@pytest.mark.parametrize(
    "prepare, flags, code, state",
    [
        (lambda api: api.add("1"), [], 0, "done"),
        (lambda api: api.add("1", fails="no"), [], 1, "failed"),
        (lambda api: api.add("1", lasts=60), ["--timeout", "100ms"], 3, "timed_out"),
        (lambda api: api.add("1", lasts=60), ["--timeout", "0"], 3, "timed_out"),
        (lambda api: api.fault(400), [], 4, "unreachable"),
        (lambda api: api.fault(500), ["--max-faults", "1"], 4, "unreachable"),
        (lambda api: api.add("1", lasts=0.3), ["--timeout", "never"], 0, "done"),
    ],
)
def test_exit_codes(api, capsys, prepare, flags, code, state):
    prepare(api)
    found, out, _ = run(capsys, ["wait", api.url("1")] + QUICK + flags)
    assert (found, json.loads(out)["state"]) == (code, state)
    if flags == ["--timeout", "0"]:
        assert len(api.requests) == 1


@pytest.mark.parametrize(
    "result, expected",
    [
        ("text as it is", "text as it is\n"),
        ("", "\n"),
        ("two\nlines", "two\nlines\n"),
        (None, "null\n"),
        (7, "7\n"),
        ({"a": ["é", 1]}, '{"a": ["é", 1]}\n'),
        ([], "[]\n"),
        ("lone \ud800 surrogate", "lone \\ud800 surrogate\n"),
    ],
)
def test_result_prints_only_the_result(api, capsys, result, expected):
    api.add("1", result=result)
    code, out, err = run(capsys, ["wait", "1", "--result", "--quiet"] + profile_file(api))
    assert (code, out, err) == (0, expected, "")


def test_without_a_result_stdout_is_empty_and_stderr_has_the_error(api, capsys):
    api.add("1", fails="bad page")
    code, out, err = run(capsys, ["wait", api.url("1"), "--result", "--quiet"])
    assert (code, out) == (1, "") and re.fullmatch(
        r"pollkit: \S+: failed after .*: bad page\n", err
    )


@pytest.mark.parametrize(
    "flags, label",
    [
        ([], None),
        (["--label", "small"], "small"),
        (["--size", "3"], "small"),
        (["--size", "10"], "small"),
        (["--size", "11"], "large"),
        (["--size", "1e9"], None),
        (["--label", "large", "--size", "3"], "large"),
    ],
)
def test_label_and_size_choose_the_label(api, capsys, flags, label):
    api.add("1")
    more = "[fake:small]\nup_to = 10\n[fake:large]\nup_to = 100\n"
    code, out, _ = run(capsys, ["wait", "1"] + profile_file(api, more) + flags)
    assert code == 0 and (json.loads(out)["label"], json.loads(out)["profile"]) == (label, "fake")


def test_without_a_terminal_changes_are_logged_but_not_every_poll(api, capsys):
    api.add("1", lasts=0.5, queued=0.3)
    code, out, err = run(capsys, ["wait", "1"] + profile_file(api) + QUICK)
    lines = err.splitlines()
    assert code == 0 and "\x1b" not in out + err and len(api.requests) > 4
    assert [re.sub(r"^\d\d:\d\d:\d\d 1: ", "", line).split(" (")[0] for line in lines] == [
        'status "pending"',
        'status "running"',
        "done",
    ]


@pytest.mark.parametrize("flag", ["-v", "-vv", "-vvv", "--verbose"])
def test_verbose_logs_every_poll_and_the_reason_for_the_delay(api, capsys, flag):
    api.add("1", lasts=0.3)
    code, _, err = run(capsys, ["wait", "1", flag] + profile_file(api) + QUICK)
    polls = re.findall(r"1: poll \d+: .*", err)
    assert code == 0 and len(polls) == len(api.requests) > 2
    assert all("(pace)" in poll for poll in polls[:-1]) and "done" in polls[-1]


def test_log_json_writes_one_object_per_line(api, capsys):
    api.add("1", lasts=0.3)
    code, _, err = run(capsys, ["wait", "1", "--log-json", "-v"] + profile_file(api) + QUICK)
    lines = [json.loads(line) for line in err.splitlines()]
    assert code == 0 and {"poll", "status", "end"} <= {line["event"] for line in lines}
    assert all(
        re.fullmatch(INSTANT, line["at"]) and line["id"] == "1" and line["text"] for line in lines
    )


def test_quiet_writes_nothing_to_stderr(api, capsys, monkeypatch):
    api.add("1", lasts=0.3)
    api.fault(500)
    assert run(capsys, ["wait", api.url("1"), "--quiet", "-v"] + QUICK)[::2] == (0, "")
    put_on_stdin(monkeypatch, api.url("1"))
    assert run(capsys, ["batch", "-", "--quiet"])[::2] == (0, "")


# Many jobs


@pytest.mark.parametrize(
    "kinds, expected",
    [
        ("done", 0),
        ("done failed", 1),
        ("done late", 3),
        ("done gone", 4),
        ("late gone", 4),
        ("late failed gone", 1),
        ("failed late", 1),
    ],
)
def test_a_failed_job_counts_before_an_unreachable_and_that_before_a_timed_out_one(
    api, capsys, monkeypatch, kinds, expected
):
    api.add("done")
    api.add("late", lasts=60)
    api.add("failed", fails="no")
    for _ in range(9):
        api.fault(400, "gone")
    put_on_stdin(monkeypatch, *kinds.split())
    code, out, err = run(capsys, ["batch", "-", "--timeout", "500ms"] + profile_file(api) + QUICK)
    outcomes = [json.loads(line) for line in out.splitlines()]
    assert code == expected and sorted(o["id"] for o in outcomes) == sorted(kinds.split())
    assert all(list(outcome) == KEYS for outcome in outcomes)
    assert re.search(r"^%d jobs?: .*; \d+ polls?$" % len(outcomes), err, re.MULTILINE)


def test_a_job_that_is_listed_twice_is_polled_once(api, capsys, monkeypatch):
    api.add("a")
    put_on_stdin(monkeypatch, "a", "# a comment", "", '{"id": "a"}', "  a  ")
    code, out, _ = run(capsys, ["batch", "-"] + profile_file(api))
    assert (code, out.count("\n"), len(api.requests)) == (0, 1, 1)


def test_urls_that_differ_in_a_secret_are_two_jobs(capsys, monkeypatch):
    """Both are shown as the same URL, but count as two."""

    def act(connection, request):
        connection.send(
            reply('{"status": "%s"}' % ("failed" if "first" in request.target else "done"))
        )

    with RawServer(act) as server:
        put_on_stdin(monkeypatch, server.url("/1?token=first"), server.url("/1?token=second"))
        code, out, err = run(capsys, ["batch", "-", "--workers", "1"])
    assert code == 1 and out.count("token=***") == 4 and "2 jobs: 1 done, 1 failed" in err


def test_a_batch_of_hundreds_of_jobs_prints_each_outcome_once(api, capsys, monkeypatch):
    for number in range(200):
        api.add("job_%d" % number, result=number)
    put_on_stdin(monkeypatch, *["job_%d" % number for number in range(200)])
    code, out, err = run(
        capsys, ["batch", "-", "--quiet", "--limit", "100000/s burst 1000"] + profile_file(api)
    )
    outcomes = [json.loads(line) for line in out.splitlines()]
    expected = {"job_%d" % number: number for number in range(200)}
    assert (code, err, len(outcomes)) == (0, "", 200)
    assert {outcome["id"]: outcome["result"] for outcome in outcomes} == expected


def test_flags_override_the_profile_that_a_job_names(api, capsys, monkeypatch):
    api.add("a", lasts=60)
    api.add("b")
    put_on_stdin(
        monkeypatch,
        '{"id": "a", "profile": "other", "metadata": {"n": 1}}',
        '{"id": "b", "size": 2}',
    )
    more = "[fake:small]\nup_to = 5\n[other]\nurl = %s/jobs/{id}\ntimeout = 1h\n" % api.base
    code, out, _ = run(
        capsys, ["batch", "-", "--timeout", "100ms"] + profile_file(api, more) + QUICK
    )
    fields = ("state", "profile", "label", "metadata")
    found = {o["id"]: tuple(map(o.get, fields)) for o in map(json.loads, out.splitlines())}
    assert code == 3 and found == {
        "a": ("timed_out", "other", None, {"n": 1}),
        "b": ("done", "fake", "small", None),
    }


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
