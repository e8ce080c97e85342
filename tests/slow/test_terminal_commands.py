"""wait and batch in a real pseudo-terminal: the bar meanwhile, a clean screen and whole data afterwards."""

import json
import re
import subprocess
import threading

import pytest

pytest.importorskip("pty")

from job_api import JobApi
from screen import InPty

WIDTHS = [40, 80, 200]
BAR = re.compile("[█░]{8,}")
JOBS, POLLS = 4, 8
PROFILE = "[fake]\nurl = %s/jobs/{id}\nprogress = progress\n"
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


def answer(job_id, count):
    """A job lasts so many polls, however slow the host is; a slow one has no end."""
    if job_id.startswith("quick") and count >= POLLS:
        return 200, {}, {"status": "done", "result": {"page": "é" * 30}}
    return 200, {}, {"status": "running", "progress": min(count, POLLS) / (2 * POLLS)}


def to_the_end(terminal):
    out = []
    if terminal.process.stdout:  # a pipe must be read while the terminal is
        reader = threading.Thread(target=lambda: out.append(terminal.process.stdout.read()))
        reader.start()
    terminal.read()
    if terminal.process.stdout:
        reader.join()
    terminal.out = b"".join(out)


def bar_is_up(screen):
    return any(BAR.search(row) for row in screen.shown())


def is_painted(screen):
    """Between two paintings: on ^C the kernel throws away what of a painting nobody has read yet."""
    return bar_is_up(screen) and screen.frames and (screen.row, screen.column) == (0, 0)


def interrupted(terminal):
    terminal.read(until=is_painted)
    terminal.type("\x03")
    to_the_end(terminal)


def resized(terminal):
    for columns, fits in ((40, lambda row: len(row) < 40), (120, lambda row: len(row) > 50)):
        terminal.read(until=bar_is_up)
        terminal.resize(columns)
        terminal.read(
            until=lambda screen, fits=fits: any(
                BAR.search(row) and fits(row) for row in screen.shown()
            )
        )
        wrapped, seen = terminal.screen.wrapped, len(terminal.screen.frames)
        terminal.read(until=lambda screen, seen=seen: len(screen.frames) >= seen + 3)
        terminal.fits.append(
            (columns, terminal.screen.wrapped - wrapped, terminal.screen.frames[-1])
        )
    interrupted(terminal)


# Command, columns, whether the jobs end, whether stdout is the terminal, too, and what is done to it.
RUNS = {
    "%s %d" % (command, columns): (command, columns, True, False, to_the_end)
    for command in ("wait", "batch")
    for columns in WIDTHS
}
RUNS.update(
    {
        "wait, one terminal": ("wait", 80, True, True, to_the_end),
        "batch, one terminal": ("batch", 80, True, True, to_the_end),
        "wait interrupted": ("wait", 80, False, True, interrupted),
        "batch interrupted": ("batch", 40, False, True, interrupted),
        "batch resized": ("batch", 80, False, True, resized),
    }
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """All at once, because each takes a second or two."""
    terminals, threads, folder = {}, [], tmp_path_factory.mktemp("jobs")
    with JobApi(answer) as api:
        profiles = folder / "profiles.ini"
        profiles.write_text(PROFILE % api.url)
        try:
            for name, (command, columns, ends, is_one, act) in RUNS.items():
                kind = "quick" if ends else "slow"
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
                    words, columns, stdout=None if is_one else subprocess.PIPE
                )
                terminal.fits, terminal.out = [], b""
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
def test_a_bar_meanwhile_and_a_clean_terminal_afterwards(runs, command, columns):
    terminal = runs["%s %d" % (command, columns)]
    screen = terminal.screen
    assert terminal.process.returncode == 0
    assert (screen.scrolled, screen.wrapped, screen.strange) == (
        0,
        0,
        [],
    ) and screen.widest < columns
    bars = [row for frame in screen.frames for row in frame if BAR.search(row)]
    assert bars and 3 <= len(screen.frames) <= 10 * terminal.lasted_s + 1
    left = screen.shown()
    assert (
        left == []
        if command == "wait"
        else re.fullmatch(r"4 jobs: 4 done; \d+ polls", "|".join(left))
    )
    outcomes = [json.loads(line) for line in terminal.out.decode("utf-8").splitlines()]
    assert [outcome["state"] for outcome in outcomes] == ["done"] * (
        JOBS if command == "batch" else 1
    )


@pytest.mark.parametrize("command", ["wait", "batch"])
def test_data_on_the_same_terminal_stays_whole(runs, command):
    terminal = runs[command + ", one terminal"]
    lines = ESCAPES.sub(b"", terminal.raw).replace(b"\r\n", b"\n").decode("utf-8").split("\n")
    found = [json.loads(line[line.index('{"id"') :]) for line in lines if '{"id"' in line]
    assert terminal.process.returncode == 0 and len(found) == (JOBS if command == "batch" else 1)
    assert all(outcome["result"] == {"page": "é" * 30} for outcome in found)
    assert any(BAR.search(row) for frame in terminal.screen.frames for row in frame)
    assert not bar_is_up(terminal.screen) and terminal.screen.column == 0


@pytest.mark.parametrize(
    "name, left",
    [
        ("wait interrupted", "pollkit: interrupted: slow-.* had not ended"),
        ("batch interrupted", "pollkit: interrupted: 4 of 4 jobs had not ended: slow-"),
        ("batch resized", "4 of 4 jobs"),
    ],
)
def test_ctrl_c_clears_the_bar_and_says_what_was_left(runs, name, left):
    terminal = runs[name]
    shown = "".join(terminal.screen.shown())
    assert terminal.process.returncode == 130 and re.search(left, shown)
    assert (
        not BAR.search(shown)
        and "Traceback" not in shown
        and "^C" not in shown
        and terminal.screen.column == 0
    )


def test_after_a_resize_the_batch_fits_again(runs):
    fits = runs["batch resized"].fits
    assert [columns for columns, _, _ in fits] == [40, 120]
    assert all(
        wrapped == 0 and all(len(row) < columns for row in shown)
        for columns, wrapped, shown in fits
    )
