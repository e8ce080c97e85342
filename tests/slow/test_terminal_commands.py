"""wait and batch in a real pseudo-terminal: a bar, then a clean screen and complete data."""

import json
import re
import subprocess
import sys
import threading

import pytest

pytest.importorskip("pty")

from job_api import JobApi
from paths import ROOT
from screen import InPty

WIDTHS = [40, 80, 200]
BAR = re.compile("[█░]{8,}")
JOBS = 4
POLLS = 8
PROFILE = "[fake]\nurl = %s/jobs/{id}\nprogress = progress\n"


def answer(job_id, count):
    """A quick job takes POLLS polls, however slow the host is; a slow one never finishes."""
    if job_id.startswith("quick") and count >= POLLS:
        return 200, {}, {"status": "done", "result": {"page": "é" * 30}}
    return 200, {}, {"status": "running", "progress": min(count, POLLS) / (2 * POLLS)}


def read_to_end(terminal):
    out = []
    if terminal.process.stdout:  # a pipe must be read while the terminal is
        reader = threading.Thread(target=lambda: out.append(terminal.process.stdout.read()))
        reader.start()
    terminal.read()
    if terminal.process.stdout:
        reader.join()
    terminal.out = b"".join(out)


def has_bar(screen):
    return any(BAR.search(row) for row in screen.shown())


def is_drawn(screen):
    """Whether a drawing is complete: on ^C the kernel discards the unread part of one."""
    return has_bar(screen) and screen.frames and (screen.row, screen.column) == (0, 0)


def interrupt(terminal):
    terminal.read(until=is_drawn)
    terminal.type("\x03")
    read_to_end(terminal)


def resize(terminal, wraps_again=False):
    for columns, fits in ((40, lambda row: len(row) < 40), (120, lambda row: len(row) > 50)):
        terminal.read(until=has_bar)
        terminal.resize(columns, wraps_again=wraps_again)
        terminal.read(
            until=lambda screen, fits=fits: any(
                BAR.search(row) and fits(row) for row in screen.shown()
            )
        )
        wrapped = terminal.screen.wrapped
        seen = len(terminal.screen.frames)
        terminal.read(until=lambda screen, seen=seen: len(screen.frames) >= seen + 3)
        terminal.fits.append(
            (columns, terminal.screen.wrapped - wrapped, terminal.screen.frames[-1])
        )
    interrupt(terminal)


def resize_and_wrap_again(terminal):
    resize(terminal, wraps_again=True)


# Command, columns, whether the jobs finish, whether stdout is the same terminal, action.
RUNS = {
    "%s %d" % (command, columns): (command, columns, True, False, read_to_end)
    for command in ("wait", "batch")
    for columns in WIDTHS
}
RUNS.update(
    {
        "wait, one terminal": ("wait", 80, True, True, read_to_end),
        "batch, one terminal": ("batch", 80, True, True, read_to_end),
        "wait interrupted": ("wait", 80, False, True, interrupt),
        "batch interrupted": ("batch", 40, False, True, interrupt),
        "batch resized": ("batch", 80, False, True, resize),
        "batch wrapped again": ("batch", 80, False, True, resize_and_wrap_again),
    }
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """All at once, because each takes a second or two."""
    terminals = {}
    threads = []
    folder = tmp_path_factory.mktemp("jobs")
    with JobApi(answer) as api:
        profiles = folder / "profiles.ini"
        profiles.write_text(PROFILE % api.url)
        try:
            for name, (command, columns, finishes, is_same, act) in RUNS.items():
                kind = "quick" if finishes else "slow"
                ids = ["%s-%s-%d" % (kind, len(terminals), number) for number in range(JOBS)]
                jobs = folder / name
                jobs.write_text("\n".join(ids))
                words = [
                    "-m",
                    "pollkit",
                    command,
                    str(jobs) if command == "batch" else ids[0],
                    "--pace",
                    "fixed 100ms",
                    "--profile",
                    "fake",
                    "--profiles",
                    str(profiles),
                ]
                terminal = terminals[name] = InPty(
                    words, columns, stdout=None if is_same else subprocess.PIPE
                )
                terminal.fits = []
                terminal.out = b""
                threads.append(threading.Thread(target=act, args=(terminal,)))
                threads[-1].start()
            for thread in threads:
                thread.join()
            yield terminals
        finally:
            for terminal in terminals.values():
                terminal.__exit__()


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("command", ["wait", "batch"])
def test_there_is_a_bar_and_then_a_clean_terminal(runs, command, columns):
    terminal = runs["%s %d" % (command, columns)]
    screen = terminal.screen
    assert terminal.process.returncode == 0
    assert (screen.scrolled, screen.wrapped, screen.unknown) == (0, 0, [])
    assert screen.widest < columns
    bars = [row for frame in screen.frames for row in frame if BAR.search(row)]
    assert bars and 3 <= len(screen.frames) <= 10 * terminal.lasted_s + 1
    expected = "" if command == "wait" else r"4 jobs: 4 done; \d+ polls"
    assert re.fullmatch(expected, "|".join(screen.shown()))
    outcomes = [json.loads(line) for line in terminal.out.decode("utf-8").splitlines()]
    assert [outcome["state"] for outcome in outcomes] == ["done"] * (
        JOBS if command == "batch" else 1
    )


def test_a_wait_on_a_terminal_ends_with_a_summary(runs):
    terminal = runs["wait, one terminal"]
    shown = terminal.screen.shown()
    assert terminal.process.returncode == 0
    assert [line.split()[0] for line in shown] == ["job", "state", "result", "polls", "time"]
    assert shown[1] == "state     done" and shown[2] == 'result    {"page": "%s"}' % ("é" * 30)
    assert any(BAR.search(row) for frame in terminal.screen.frames for row in frame)
    assert not has_bar(terminal.screen) and terminal.screen.column == 0


def test_a_batch_on_a_terminal_ends_with_a_line_per_job(runs):
    terminal = runs["batch, one terminal"]
    shown = terminal.screen.shown()
    lines = [line for line in shown if re.match(r"quick-\S+  done  .*  \d+ polls +\{", line)]
    assert terminal.process.returncode == 0 and len(lines) == JOBS and len(shown) == JOBS + 1
    assert all(len(line) < 80 for line in lines) and "é" in lines[0]
    assert any(BAR.search(row) for frame in terminal.screen.frames for row in frame)
    assert not has_bar(terminal.screen) and terminal.screen.column == 0


@pytest.mark.parametrize(
    "name, message",
    [
        ("wait interrupted", "pollkit: interrupted: slow-.* has not finished"),
        ("batch interrupted", "pollkit: interrupted: 4 of 4 jobs have not finished: slow-"),
        ("batch resized", "4 of 4 jobs"),
        ("batch wrapped again", "4 of 4 jobs"),
    ],
)
def test_ctrl_c_clears_the_bar_and_lists_unfinished_jobs(runs, name, message):
    terminal = runs[name]
    shown = "".join(terminal.screen.shown())
    assert terminal.process.returncode == 130 and re.search(message, shown)
    assert not BAR.search(shown) and terminal.screen.column == 0
    assert "Traceback" not in shown and "^C" not in shown


@pytest.mark.parametrize("name", ["batch resized", "batch wrapped again"])
def test_after_a_resize_the_batch_fits_again_and_nothing_else_is_left(runs, name):
    fits = runs[name].fits
    assert [columns for columns, _, _ in fits] == [40, 120]
    for columns, wrapped, shown in fits:
        assert wrapped == 0 and all(len(row) < columns for row in shown)
        assert len(shown) == 5 and BAR.search(shown[0]) and "requests" in shown[1]
        assert all(row.startswith("  slow-") for row in shown[2:])


def read_display(folder, command, url, options, until):
    """Run a command on three slow jobs until the condition is true of the screen, then press ^C."""
    jobs = folder / "jobs"
    jobs.write_text("slow-1\nslow-2\nslow-3")
    profiles = folder / "profiles.ini"
    profiles.write_text(PROFILE % url)
    names = ["--profile", "fake", "--profiles", str(profiles)]
    source = str(jobs)
    if command == "run":
        source = str(folder / "ledger.db")
        words = ["-m", "pollkit", "add", source, "--from", str(jobs), "--quiet"]
        subprocess.run([sys.executable] + words + names, check=True, cwd=ROOT)
    words = ["-m", "pollkit", command, source, "--pace", "fixed 100ms"]
    with InPty(words + names + options, 80) as terminal:
        terminal.read(until=until)
        terminal.type("\x03")
        terminal.read()
    assert terminal.process.returncode == 130


@pytest.mark.parametrize("command", ["batch", "run"])
def test_jobs_that_wait_for_the_rate_limit_say_so(tmp_path, command):
    def are_delayed(screen):
        rows = [row for row in screen.shown() if row.startswith("  slow-")]
        delayed = re.compile(r"  slow-\d .*  waits for the rate limit, about \d+s")
        return len(rows) == 3 and all(delayed.fullmatch(row) for row in rows)

    with JobApi(answer) as api:
        read_display(tmp_path, command, api.url, ["--limit", "3/m burst 3"], are_delayed)


@pytest.mark.parametrize("command", ["batch", "run"])
def test_an_outage_is_shown(tmp_path, command):
    def is_down(screen):
        rows = [row for row in screen.shown() if row.startswith("http://127.0.0.1:9: down")]
        return rows and re.fullmatch(r".*: down for 0:0[1-9], next try in \ds", rows[0])

    options = ["--max-faults", "100"] if command == "batch" else []
    read_display(tmp_path, command, "http://127.0.0.1:9", options, is_down)
