"""A table that fits into a terminal, with one line per row."""

import pytest

from pollkit.cli.output.tables import Column, fit_table
from pollkit.cli.progress.terminal import width_of

COLUMNS = (Column("ID", 0, 4), Column("STATE", 0), Column("POLLS", 2), Column("PROBLEM", 1, 6))
ROWS = [("job_1", "waiting", "12", "the connection was refused"), ("a-long-name", "done", "3", "-")]


@pytest.mark.parametrize(
    "width, expected",
    [
        (
            None,
            [
                "ID           STATE    POLLS  PROBLEM",
                "job_1        waiting  12     the connection was refused",
                "a-long-name  done     3      -",
            ],
        ),
        (
            48,
            [
                "ID           STATE    POLLS  PROBLEM",
                "job_1        waiting  12     the connection wa..",
                "a-long-name  done     3      -",
            ],
        ),
        (
            36,
            [
                "ID         STATE    POLLS  PROBLEM",
                "job_1      waiting  12     the con..",
                "a-long-..  done     3      -",
            ],
        ),
        (25, ["ID       STATE    PROBLEM", "job_1    waiting  the c..", "a-lon..  done     -"]),
        (16, ["ID       STATE", "job_1    waiting", "a-lon..  done"]),
        (3, ["ID    STATE", "job_  waiting", "a-lo  done"]),  # nothing more can be left out
    ],
)
def test_a_narrow_table_drops_columns_by_rank_and_shortens_cells(width, expected):
    lines = fit_table(COLUMNS, ROWS, width)
    assert lines == expected
    assert width in (None, 3) or max(map(width_of, lines)) <= width


def test_a_column_without_values_is_left_out():
    rows = [("a", "-", "-", "-"), ("b", "-", "1", "-")]
    assert fit_table(COLUMNS, rows) == ["ID  STATE  POLLS", "a   -      -", "b   -      1"]


def test_wide_characters_count_twice():
    lines = fit_table(COLUMNS[:2], [("処理", "x"), ("ab", "y")])
    assert [width_of(line[: line.rindex(char)]) for line, char in zip(lines[1:], "xy")] == [6, 6]
