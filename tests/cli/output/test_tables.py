"""Tables and long lines, on terminals and elsewhere."""

import subprocess
import sys

import pytest

from paths import ROOT
from pollkit.cli.output.tables import format_table, wrap_line

ROWS = [
    ("NAME", "LABELS", "FROM"),
    ("a", "small, medium, large", "built in"),
    ("bee", "-", "x.ini"),
]


def test_a_table_has_aligned_columns():
    table = (
        "NAME  LABELS                FROM\n"
        "a     small, medium, large  built in\n"
        "bee   -                     x.ini\n"
    )
    assert format_table(ROWS) == table
    assert format_table(ROWS, 36) == table


def test_a_table_that_is_too_wide_becomes_a_block_per_row():
    assert format_table(ROWS, 24) == (
        "a\n  labels  small, medium,\n          large\n  from    built in\nbee\n  from    x.ini\n"
    )
    assert max(map(len, format_table([("A", "B"), ("x" * 99, "y" * 99)], 20).splitlines())) == 20


def test_a_long_line_is_wrapped_with_an_indent_unless_there_is_no_terminal():
    assert wrap_line("ok    one two three", 13, 6) == "ok    one two\n      three"
    assert wrap_line("ok    one two three", 19, 6) == "ok    one two three"
    assert wrap_line("ok    one two three", None, 6) == "ok    one two three"


@pytest.mark.parametrize(
    "words", [["profiles"], ["doctor", "http://127.0.0.1:9/jobs/1", "--proxy", "none"]]
)
@pytest.mark.parametrize("columns", [40, 80])
def test_a_terminal_of_any_width_shows_all_lines_whole(words, columns, tmp_path):
    pytest.importorskip("pty")
    from screen import InPty

    with InPty(["-m", "pollkit"] + words, columns, 200, HOME=str(tmp_path)) as terminal:
        terminal.read()
        shown = [line for line in terminal.screen.shown() if line]
    assert terminal.screen.wrapped == 0 and len(shown) > 9
    assert any(line.startswith(("knowhere", "ok", "skipped")) for line in shown)


def test_a_pipe_gets_whole_lines(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pollkit", "doctor", "http://127.0.0.1:9/1", "--proxy", "none"],
        env={"COLUMNS": "40", "HOME": str(tmp_path), "PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
    )
    assert len(done.stdout.decode().splitlines()) == 10
