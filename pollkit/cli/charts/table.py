"""The table of a simulation: one row of figures per pace, and one for the optimum."""

from typing import List, Optional, Sequence, Tuple

from ...drivers.simulation.figures import Figures
from ...drivers.simulation.optimum import Optimum

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
HEADING = ("", "pace", "/ job", "mean", "p95", "max", "429s", "out", "cost", "optimum")
LEAST_WIDTHS = (1, 4, 5, 5, 5, 5, 4, 5, 5, 7)


def letter(index: int) -> str:
    """The letter of a pace in the table and the chart."""
    return LETTERS[index] if index < len(LETTERS) else "*"


def table(
    all_figures: Sequence[Figures], optimum: Optimum, unheld: Optional[Optimum] = None
) -> str:
    """The figures of all paces, and the optimum below them; also that of a server without holds."""
    rows: List[Tuple[str, ...]] = [HEADING]
    for i, figures in enumerate(all_figures):
        ratio = figures.cost_ratio
        rows.append(
            (
                letter(i),
                str(figures.pace),
                short_number(figures.polls_per_job),
                short_number(figures.mean),
                short_number(figures.p95),
                short_number(figures.max),
                "%d" % figures.rate_limited,
                "%d" % figures.timed_out,
                short_number(figures.cost),
                "-" if ratio is None else "%.2f" % ratio,
            )
        )
    rows.append(_optimum_row("the optimum", optimum, optimum))
    if unheld is not None:
        rows.append(_optimum_row("  without holding", unheld, optimum))
    widths = [max([least] + [len(row[i]) for row in rows]) for i, least in enumerate(LEAST_WIDTHS)]
    lines = [_upper_heading(widths)] + [_line(row, widths) for row in rows]
    return "".join(line.rstrip() + "\n" for line in lines)


def _optimum_row(name: str, best: Optimum, optimum: Optimum) -> Tuple[str, ...]:
    polls = short_number(best.polls)
    delay = short_number(best.delay)
    cost = short_number(best.cost)
    return ("", name, polls, delay, "", "", "", "", cost, "%.2f" % (best.cost / optimum.cost))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
    cells += [cell.rjust(width) for cell, width in zip(row[2:], widths[2:])]
    return " ".join(cells)


def _upper_heading(widths: Sequence[int]) -> str:
    """The first line of the two-line heading, aligned to the columns below it."""
    starts = [sum(widths[:i]) + i for i in range(len(widths))]
    line = " " * starts[2] + "polls".rjust(widths[2]) + " "
    line += "notice delay, s".center(starts[6] - starts[3] - 1)
    line = line.ljust(starts[7]) + "timed".rjust(widths[7])
    return line.ljust(starts[9]) + "against".rjust(widths[9])


def short_number(value: Optional[float]) -> str:
    """A figure to one decimal place if it is below 100, otherwise to none; '-' for None."""
    if value is None:
        return "-"
    return "%.1f" % value if value < 99.95 else "%.0f" % value
