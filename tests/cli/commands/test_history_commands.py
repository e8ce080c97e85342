"""The duration history, used by the library and by the commands."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import pytest

from history_file import KIND, content, posix, put, read_durations, save_durations, steady
from job_api import JobApi
from paths import ROOT
from pollkit import BatchPoller, Poller, Profile
from pollkit.cli import main
from pollkit.edges import history_file as history_module
from pollkit.edges.history_file import History, Kind, default_path
from pollkit.testing import FakeJobApi, VirtualClock

NOT_SAVED = "can't (use|save) the duration history"
PLENTY = [duration / 300 for duration in steady(40)]  # around 0.33 s


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "there" / "history.json")


@pytest.fixture
def api(monkeypatch):
    for name in [
        name for name in os.environ if name.startswith("POLLKIT") or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    with FakeJobApi() as served:
        yield served


# In Python


def test_the_library_saves_no_history_unless_asked(api, history_of_its_own):
    api.add("1", lasts=0.1)
    api.add("2", lasts=0.1)
    Poller(api.profile, pace="fixed 30ms").poll("1")
    with BatchPoller(api.profile, pace="adaptive min=20ms max=40ms") as batch:
        batch.run(["2"])
    assert not history_of_its_own.exists()


def test_durations_are_recorded_by_origin_or_profile():
    """Without a profile, the jobs of two servers are two kinds of jobs."""
    clock = VirtualClock()
    history = History()
    with FakeJobApi(clock=clock) as one, FakeJobApi(clock=clock) as other:
        one.add("1", lasts=40)
        other.add("1", lasts=3)
        with Poller(pace="adaptive", clock=clock, history=history) as poller:
            poller.poll(one.url("1"))
            poller.poll(other.url("1"))
            poller.poll(lambda: clock.now() > 100)
        one.add("2", lasts=40)
        with Poller(Profile(name="mine"), pace="adaptive", clock=clock, history=history) as poller:
            poller.poll(one.url("2"))
        for kind in (one.base, other.base, "mine", ""):
            assert len(history.durations(Kind(kind))) == 1


# The commands


def run(capsys, *words):
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def job_list(tmp_path, *lines):
    path = tmp_path / "jobs.txt"
    path.write_text("".join(line + "\n" for line in lines))
    return str(path)


def test_the_tests_write_to_a_temporary_history(api, capsys, history_of_its_own):
    assert str(history_of_its_own).startswith(tempfile.gettempdir())
    assert default_path() == str(history_of_its_own) and not history_of_its_own.exists()
    api.add("1", lasts=0.1)
    assert run(capsys, "wait", api.url("1"), "--pace", "fixed 30ms", "--quiet")[0] == 0
    assert history_of_its_own.exists()


@pytest.mark.parametrize("command", ["wait", "batch"])
@pytest.mark.parametrize("pace", ["fixed 30ms", "adaptive min=20ms max=40ms"])
def test_a_command_records_durations_whatever_its_pace(
    api, capsys, tmp_path, history_of_its_own, command, pace
):
    api.add("1", lasts=0.15, fails="no" if command == "wait" else None)
    job = api.url("1") if command == "wait" else job_list(tmp_path, api.url("1"))
    code, _, err = run(capsys, command, job, "--pace", pace, "--progress", "none", "--quiet")
    assert (code, err) == (int(command == "wait"), "")
    (duration,) = read_durations(str(history_of_its_own), Kind(api.base))
    assert 0.05 < duration < 0.4


def test_durations_are_recorded_by_profile_and_label_even_if_the_size_chose_the_label(
    api, capsys, tmp_path, history_of_its_own
):
    ini = tmp_path / "mine.ini"
    ini.write_text(
        "[fake]\nurl = %s/jobs/{id}\n[fake:small]\nup_to = 10\n[free]\nurl = %s/jobs/{id}\n"
        % (api.base, api.base)
    )
    for name, words in (
        ("1", ["--profile", "fake", "--size", "3"]),
        ("2", ["--profile", "fake"]),
        ("3", ["--profile", "free", "--label", "any"]),
    ):
        api.add(name, lasts=0.1)
        code, _, _ = run(
            capsys, "wait", name, "--profiles", str(ini), "--pace", "fixed 30ms", *words
        )
        assert code == 0
    for kind in (Kind("fake", "small"), Kind("fake"), Kind("free", "any")):
        assert len(read_durations(str(history_of_its_own), kind)) == 1


@pytest.mark.parametrize("command", ["wait", "batch"])
def test_verbose_logs_how_past_durations_decide_the_next_poll(api, capsys, tmp_path, path, command):
    save_durations(path, PLENTY, Kind(api.base))
    api.add("1", lasts=0.33)
    job = api.url("1") if command == "wait" else job_list(tmp_path, api.url("1"))
    code, _, err = run(
        capsys, command, job, "-v", "--history", path, "--pace", "adaptive max=500ms"
    )
    assert code == 0
    assert re.search(
        r"poll 1: .*: pending; most jobs like this finish at 0\.3-0\.4 s; "
        r"next poll in 0\.5 s \(max\)$",
        err,
        re.MULTILINE,
    )
    assert len(read_durations(path, Kind(api.base))) == len(PLENTY) + 1


def test_verbose_logs_it_for_a_ledger_whose_durations_stay_in_the_ledger(
    api, capsys, tmp_path, history_of_its_own
):
    ledger = str(tmp_path / "jobs.db")
    for name in ("1", "2"):
        # A label that no profile has.
        assert run(capsys, "add", ledger, api.url(name), "--label", "any")[0] == 0
        api.add(name, lasts=0.4)
        code, _, err = run(capsys, "run", ledger, "-v", "--pace", "adaptive min=50ms max=100ms")
        assert code == 0
    assert re.search(
        r"poll 1: .*judging by 1 job like this, most finish at [\d.-]+ s; next poll in [\d.]+ m?s",
        err,
    )
    assert not history_of_its_own.exists()


def test_on_event_reports_how_past_durations_decide_the_next_poll(api):
    history = History()
    texts = []
    for duration in PLENTY:
        history.durations(Kind(api.base)).record(duration)
    api.add("1", lasts=0.1)
    with Poller(
        pace="adaptive max=500ms", history=history, on_event=lambda event: texts.append(event.text)
    ) as poller:
        poller.poll(api.url("1"))
    assert "most jobs like this finish at 0.3-0.4 s; next poll in 0.5 s" in texts[0]


@pytest.mark.parametrize("pace", ["fixed 30ms", "adaptive min=20ms max=40ms"])
def test_history_none_neither_reads_nor_writes(api, capsys, history_of_its_own, pace):
    put(str(history_of_its_own), b"damaged")
    api.add("1", lasts=0.1)
    code, _, err = run(capsys, "wait", api.url("1"), "-v", "--history", "none", "--pace", pace)
    assert code == 0 and "history" not in err and content(str(history_of_its_own)) == b"damaged"
    assert os.listdir(str(history_of_its_own.parent)) == ["history.json"]


@pytest.mark.parametrize("word, code", [("done", 0), ("running", 3)])
def test_a_job_of_unknown_duration_creates_no_file(capsys, history_of_its_own, word, code):
    """One that may have finished long ago, and one that has not finished at all."""
    with JobApi(lambda name, count: word) as api:
        found, _, _ = run(
            capsys,
            "wait",
            api.url + "/1",
            "--pace",
            "adaptive",
            "--timeout",
            "50ms",
            "--proxy",
            "none",
        )
    assert found == code and not history_of_its_own.parent.exists()


@pytest.mark.parametrize("command", ["wait", "batch"])
@pytest.mark.parametrize("flags, lines", [([], 1), (["--quiet"], 0), (["--log-json"], 1)])
def test_a_damaged_history_is_one_warning(
    api, capsys, tmp_path, history_of_its_own, command, flags, lines
):
    put(str(history_of_its_own), b'{"version')
    api.add("1", lasts=0.1)
    job = api.url("1") if command == "wait" else job_list(tmp_path, api.url("1"))
    code, out, err = run(capsys, command, job, "--pace", "adaptive min=20ms max=40ms", *flags)
    warnings = [line for line in err.splitlines() if "damaged" in line]
    assert code == 0 and json.loads(out)["state"] == "done" and len(warnings) == lines
    expected = "pollkit: warning: %s was damaged" % history_of_its_own
    assert all(expected in line for line in warnings)
    assert len(read_durations(str(history_of_its_own), Kind(api.base))) == 1


def test_neither_ids_nor_paths_nor_secrets_are_in_the_file(api, capsys, history_of_its_own):
    api.add("secret_1", lasts=0.1)
    url = api.url("secret_1").replace("://", "://user:secret_2@") + "?token=secret_3"
    assert run(capsys, "wait", url, "--pace", "fixed 30ms", "--quiet")[0] == 0
    text = content(str(history_of_its_own)).decode()
    assert (
        "secret" not in text
        and "user" not in text
        and "jobs" not in text
        and '"profile":"%s"' % api.base in text
    )


@posix
def test_an_interrupted_batch_saves_the_durations_so_far(api, capsys, tmp_path, history_of_its_own):
    api.add("1", lasts=0.1)
    api.add("2", lasts=60)
    batch = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pollkit",
            "batch",
            job_list(tmp_path, api.url("1"), api.url("2")),
            "--pace",
            "fixed 30ms",
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert json.loads(batch.stdout.readline().decode())["state"] == "done"
    batch.send_signal(signal.SIGTERM)
    batch.communicate(timeout=10)
    assert (
        batch.returncode == 143
        and len(read_durations(str(history_of_its_own), Kind(api.base))) == 1
    )


def as_cron(words, **environ):
    """Run a command with nothing but this in its environment."""
    env = dict({"PATH": os.environ.get("PATH", ""), "PYTHONPATH": ROOT}, **environ)
    done = subprocess.Popen(
        [sys.executable, "-m", "pollkit"] + words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )
    out, err = done.communicate(timeout=20)
    return done.returncode, out.decode(), err.decode()


@posix
@pytest.mark.parametrize(
    "environ",
    [{}, {"HOME": "/nonexistent"}, {"HOME": "/proc"}, {"XDG_STATE_HOME": os.devnull}],
    ids=repr,
)
def test_an_unusable_default_path_is_a_warning_only_with_verbose(api, environ):
    words = ["wait", api.url("1"), "--pace", "adaptive min=20ms max=40ms", "--progress", "none"]
    for flags, lines in [([], 0), (["-v"], 1)][bool(environ) :]:
        api.add("1", lasts=0.08)
        code, out, err = as_cron(words + flags, **environ)
        assert (code, json.loads(out)["state"]) == (0, "done")
        notes = [line for line in err.splitlines() if not re.match(r"\d\d:\d\d:\d\d ", line)]
        assert len(notes) == lines, err
        assert all(re.search(NOT_SAVED, line) for line in notes), err
    assert not os.path.exists("/nonexistent")


@posix
@pytest.mark.parametrize("place", [os.devnull, "/", "/dev/null/history.json"])
def test_an_unusable_path_of_the_history_option_is_one_warning(api, capsys, place):
    for fails, expected in (None, 0), ("no", 1):
        api.add("1", lasts=0.08, fails=fails)
        code, out, err = run(
            capsys,
            "wait",
            api.url("1"),
            "--pace",
            "adaptive min=20ms max=40ms",
            "--progress",
            "none",
            "--history",
            place,
        )
        assert code == expected and json.loads(out)["id"] == api.url("1")
        assert re.fullmatch("pollkit: warning: .*%s .*%s: [^\n]+\n" % (NOT_SAVED, place), err), err


@posix
def test_a_full_disk_loses_no_outcome(api, path):
    api.add("1", lasts=0.08)
    command = (
        "ulimit -f 0; exec %s -m pollkit wait %s --pace 'fixed 30ms' --progress none --history %s"
        % (sys.executable, api.url("1"), path)
    )
    done = subprocess.Popen(
        ["/bin/sh", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = done.communicate(timeout=20)
    assert (done.returncode, json.loads(out.decode())["state"]) == (0, "done")
    assert err.count(b"\n") == 1 and b"File too large" in err


@pytest.mark.parametrize("words", [["--history"], ["--history", ""]])
def test_bad_input_is_one_line_and_exit_code_2(capsys, words):
    code, out, err = run(capsys, "wait", "http://127.0.0.1:9/1", *words)
    assert (code, out, err.count("\n")) == (2, "", 1) and "--history" in err


@pytest.mark.parametrize("pace, times", [("fixed 30ms", 0), ("adaptive", 1)])
def test_before_a_job_finishes_only_an_adaptive_pace_reads_the_file(
    capsys, monkeypatch, pace, times
):
    read = []
    monkeypatch.setattr(history_module, "_read", lambda path: read.append(path) or {})
    with JobApi(lambda name, count: "done") as api:
        assert (
            run(capsys, "wait", api.url + "/1", "--pace", pace, "--quiet", "--proxy", "none")[0]
            == 0
        )
    assert len(read) == times


def test_without_a_path_a_wait_is_recorded_only_if_its_durations_are_used():
    history = History()
    assert history.begin(KIND, 100.0) is None
    assert len(history.durations(KIND)) == 0 and history.begin(KIND, 100.0) == 100.0
    assert history.begin(KIND, 100.0) > 100.0  # each wait has its own start
