"""`pollkit demo`: an embedded job API, polled live."""

import re
import subprocess
import sys

import pytest

from paths import ROOT

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


def start_demo(home, **environ):
    """Start it with pipes, in an environment with nothing but proxies that don't work."""
    proxies = {"http_proxy": NOWHERE, "HTTP_PROXY": NOWHERE, "all_proxy": NOWHERE}
    return subprocess.Popen(
        [sys.executable, "-m", "pollkit", "demo", "--quick", "--progress", "bar"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=dict(proxies, HOME=str(home), **environ),
    )


def finish_demo(process):
    """Wait for its end; the exit code and the output."""
    with process:
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(scope="module")
def both(home):
    """A run, and one in a narrow terminal; a run takes two seconds, so they run side by side."""
    processes = [start_demo(home), start_demo(home, COLUMNS="40")]
    return [finish_demo(process) for process in processes]


@pytest.fixture(scope="module")
def ran(both):
    return both[0]


def test_it_exits_with_0_although_one_job_fails_on_purpose(ran):
    assert ran.returncode == 0
    assert re.search(rb"^scan-5 +failed .*page 7 can't be read$", ran.stdout, re.MULTILINE)
    assert b"scan-5 failed on purpose" in ran.stdout


def test_it_saves_no_duration_history(ran, home):
    assert list(home.iterdir()) == []


def test_the_table_has_one_row_per_job_aligned_and_within_80_columns(ran):
    table = ran.stdout.decode().split("\n\n")[0].splitlines()
    assert len(table) == 13 and all(len(row) <= 80 for row in ran.stdout.decode().splitlines())
    assert table[0].split() == "job state polls waited noticed after disturbed by".split()
    for row in table[1:]:
        assert re.fullmatch(r".{8}  (done|failed)  +\d+  +\d\.\d s  +\d\.\d\d s(  .*)?", row), row
        assert row[table[0].index("noticed after") + 12] == "s"


def test_in_a_narrow_terminal_no_line_is_wrapped_by_the_terminal(both):
    lines = both[1].stdout.decode().splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[0].split() == "job state polls waited".split()
    row = next(number for number, line in enumerate(lines) if line.startswith("scan-8"))
    assert lines[row + 1] == "  a 503" and lines[row + 2].startswith("video-1 ")


def test_it_shows_the_disturbances_of_each_job(ran):
    for name, disturbance in [
        ("scan-4", "a broken connection"),
        ("scan-7", "a 429 with Retry-After"),
        ("scan-8", "a 503"),
    ]:
        assert re.search(
            r"^%s +done .*  %s$" % (name, disturbance), ran.stdout.decode(), re.MULTILINE
        )
    assert re.search(
        rb"12 jobs, \d+ polls; 2 x 429 obeyed, 1 broken connection and 1 x 503 survived", ran.stdout
    )


def test_the_last_lines_are_three_commands_to_try(ran):
    last = ran.stdout.decode().splitlines()[-3:]
    assert [line.split()[:2] for line in last] == [
        ["pollkit", "profiles"],
        ["pollkit", "wait"],
        ["pollkit", "help"],
    ]


def test_piped_there_is_a_log_of_changes_without_escape_codes(ran):
    assert b"\x1b" not in ran.stdout + ran.stderr and b"\r" not in ran.stderr
    for text in (
        rb"scan-1: done \(",
        rb"scan-5: failed: page 7",
        rb"broke: ",
        rb"the server asks for a pause",
        rb"the server answered 503",
    ):
        assert re.search(rb"^\d\d:\d\d:\d\d .*" + text, ran.stderr, re.MULTILINE), text
    assert b"poll 1" not in ran.stderr and b"Traceback" not in ran.stderr
