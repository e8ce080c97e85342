"""`status --watch` in a real pseudo-terminal: redrawn in place, resized, and left with Ctrl-C."""

import re

import pytest

pytest.importorskip("pty")

from pollkit import Ledger
from screen import InPty

MANY = 40


def shows(pattern):
    """Whether a drawing is complete and matches: on ^C the kernel discards the rest of one."""

    def is_shown(screen):
        is_complete = screen.frames and (screen.row, screen.column) == (0, 0)
        return bool(is_complete and re.search(pattern, "\n".join(screen.shown())))

    return is_shown


@pytest.mark.parametrize("wraps_again", [False, True])
def test_watch_redraws_at_each_size_and_leaves_the_last_table(tmp_path, wraps_again):
    path = str(tmp_path / "jobs.db")
    with Ledger(path) as ledger:
        ledger.add("https://api.internal/v1/jobs/%d" % i for i in range(3))
        words = ["-m", "pollkit", "status", path, "--watch", "100ms"]
        with InPty(words, 80) as terminal:
            screen = terminal.screen
            terminal.read(until=shows("^3 waiting; .*\n\nID +STATE +POLLS +NEXT POLL +DEADLINE\n"))
            ledger.add(["https://api.internal/v1/jobs/new"])
            terminal.read(until=shows("^4 waiting; [^$]*/new +waiting"))
            assert (screen.scrolled, screen.wrapped, screen.unknown) == (0, 0, [])
            terminal.resize(40, wraps_again=wraps_again)
            terminal.read(until=shows("^4 waiting; .*\n\nID +STATE +NEXT POLL\n(.{1,39}\n){3}.*$"))
            terminal.type("\x03")
            terminal.read()
    assert terminal.process.returncode == 130
    shown = screen.shown()
    assert re.match("4 waiting", shown[0]) and len(shown) <= 8 and screen.column == 0
    assert len([row for row in shown if "waiting  now" in row]) == 4


def test_a_long_table_is_cut_to_the_height_of_the_terminal(tmp_path):
    path = str(tmp_path / "jobs.db")
    with Ledger(path) as ledger:
        ledger.add("job_%d" % i for i in range(MANY))
    words = ["-m", "pollkit", "status", path, "--watch", "100ms"]
    with InPty(words, 80, lines=12) as terminal:
        terminal.read(until=shows("and 33 more"))
        terminal.read(until=lambda screen: len(screen.frames) >= 4, within_s=10)
        assert terminal.screen.scrolled == 0
        terminal.type("\x03")
        terminal.read()
