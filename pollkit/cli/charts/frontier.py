"""The text chart of a simulation: polls per job against mean notice delay, on log scales."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...drivers.simulation.figures import Figures
from ...drivers.simulation.optimum import Optimum
from .scales import LogAxis, number_text
from .table import LETTERS, letter

WIDTH = 79
ROWS = 14
MARGIN = 13  # columns beside the plot
STEPS = 12  # dots between two points of the optimum


class _Strokes(NamedTuple):
    dot: str
    unheld: str
    bar: str
    dash: str
    corner: str
    tick: str


UNICODE = _Strokes(*"·:│─└┬")
ASCII = _Strokes(*".:|-++")


class Curve(NamedTuple):
    """The optimum at the price of the simulation, and at many prices."""

    optimum: Optimum
    frontier: Sequence[Optimum]


class _Plot:
    """The cells of the chart, and where values are in it."""

    def __init__(self, x_axis: LogAxis, y_axis: LogAxis, columns: int) -> None:
        self.x_axis = x_axis
        self.y_axis = y_axis
        self.columns = columns
        self._cells: Dict[Tuple[int, int], str] = {}

    def row(self, polls: float) -> int:
        return ROWS - 1 - int(min(0.9999, self.y_axis.position(polls)) * ROWS)

    def column(self, delay: float) -> int:
        return int(min(0.9999, self.x_axis.position(delay)) * self.columns)

    def draw_dot(self, polls: float, delay: float, dot: str) -> None:
        has_polls = self.y_axis.low <= polls <= self.y_axis.high
        has_delay = self.x_axis.low <= delay <= self.x_axis.high
        if has_polls and has_delay:
            self._cells[self.row(polls), self.column(delay)] = dot

    def draw_letter(self, polls: float, delay: float, name: str) -> None:
        """Draw a letter, to the right of others if they are in its place."""
        row = self.row(polls)
        column = self.column(delay)
        while self._cells.get((row, column), " ") in LETTERS and column < self.columns - 1:
            column += 1
        self._cells[row, column] = name

    def row_text(self, row: int) -> str:
        return "".join(self._cells.get((row, column), " ") for column in range(self.columns))


def chart(
    all_figures: Sequence[Figures],
    curve: Curve,
    unicode: bool = True,
    width: int = WIDTH,
    unheld: Optional[Curve] = None,
) -> str:
    """Each pace as a letter, the optimum as a dotted line; and that of a server without holds."""
    points = [(one.polls_per_job, one.mean) for one in all_figures if one.mean is not None]
    if not points:
        return ""
    strokes = UNICODE if unicode else ASCII
    legend = "polls per job (log); %s the optimum" % (strokes.dot * 3)
    optima = [curve.optimum]
    if unheld is not None:
        legend += ", %s without holding" % (strokes.unheld * 3)
        optima.append(unheld.optimum)
    x_axis, y_axis = axes(points, optima)
    plot = _Plot(x_axis, y_axis, width - MARGIN)
    if unheld is not None:
        for polls, delay in _interpolate(unheld.frontier, x_axis.zero):
            plot.draw_dot(polls, delay, strokes.unheld)
    for polls, delay in _interpolate(curve.frontier, x_axis.zero):
        plot.draw_dot(polls, delay, strokes.dot)
    for i, figures in enumerate(all_figures):
        if figures.mean is not None:
            plot.draw_letter(figures.polls_per_job, figures.mean, letter(i))
    tick_texts = {plot.row(tick): number_text(tick) for tick in y_axis.ticks(5)}
    rows = [
        "%7s %s%s" % (tick_texts.get(row, ""), strokes.bar, plot.row_text(row))
        for row in range(ROWS)
    ]
    lines = [
        legend,
        *rows,
        *_x_axis_lines(plot, strokes),
        "mean notice delay, seconds (log)".rjust(41)[-width:],
    ]
    return "".join(line.rstrip() + "\n" for line in lines)


def _x_axis_lines(plot: _Plot, strokes: _Strokes) -> List[str]:
    """The horizontal axis, and the numbers at its ticks."""
    axis = [strokes.dash] * plot.columns
    numbers = [" "] * (plot.columns + 8)
    for tick in plot.x_axis.ticks(max(3, plot.columns // 9)):
        column = plot.column(tick)
        axis[column] = strokes.tick
        text = number_text(tick)
        start = max(0, column - len(text) // 2)
        numbers[start : start + len(text)] = text
    return [" " * 8 + strokes.corner + "".join(axis), " " * 9 + "".join(numbers)]


def axes(
    points: Sequence[Tuple[float, float]], optima: Sequence[Optimum]
) -> Tuple[LogAxis, LogAxis]:
    """The axes of delays and of polls, with room for the (polls, delay) points and the optima."""
    polls, delays = zip(*points)
    polls += tuple(best.polls for best in optima)
    delays += tuple(best.delay for best in optima)
    return LogAxis.around(delays), LogAxis.around(polls)


def _interpolate(curve: Sequence[Optimum], zero: float) -> List[Tuple[float, float]]:
    """Points on the curve, close together; delays below `zero` are raised to it."""
    points = [(best.polls, max(best.delay, zero)) for best in curve if best.delay or zero]
    found = []
    for (polls, delay), (next_polls, next_delay) in zip(points, points[1:]):
        for i in range(STEPS):
            part = i / STEPS
            found.append(
                (polls * (next_polls / polls) ** part, delay * (next_delay / delay) ** part)
            )
    return found
