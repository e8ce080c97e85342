"""What a simulation found, as text: the table, a sentence that recommends a pace, and a chart."""

from textwrap import fill
from typing import Dict, List, Optional, Sequence, Tuple

from ...core.units import Limit
from ...drivers.simulation.optimum import Optimum
from ...drivers.simulation.simulation import Figures
from .scales import Log, number_text

ROWS, MARGIN = 14, 13  # of the chart: its lines, and what it takes beside its columns
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WIDTH = 79
TIE = 1.02  # costs that differ by less are the same
FEW = 0.03  # of all jobs: so many more or fewer given up decide nothing
BUSY = 0.8  # of what a limit allows; less is left by the first and the last jobs


def letter(index: int) -> str:
    """What a pace is called in the chart."""
    return LETTERS[index] if index < len(LETTERS) else "*"


def table(all_figures: Sequence[Figures], optimum: Optimum) -> str:
    """The figures, a line a pace, and the optimum below them."""
    rows = [("", "pace", "/ job", "mean", "p95", "max", "429s", "out", "cost", "optimum")]
    for i, one in enumerate(all_figures):
        rows.append(
            (
                letter(i),
                str(one.pace),
                _short(one.polls_per_job),
                _short(one.mean),
                _short(one.p95),
                _short(one.max),
                "%d" % one.rate_limited,
                "%d" % one.timed_out,
                _short(one.cost),
                "-" if one.cost_ratio is None else "%.2f" % one.cost_ratio,
            )
        )
    rows.append(
        (
            "",
            "the optimum",
            _short(optimum.polls),
            _short(optimum.delay),
            "",
            "",
            "",
            "",
            _short(optimum.cost),
            "1.00",
        )
    )
    widths = [
        max([least] + [len(row[i]) for row in rows])
        for i, least in enumerate((1, 4, 5, 5, 5, 5, 4, 5, 5, 7))
    ]
    lines = [
        " ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        )
        for row in rows
    ]
    starts = [sum(widths[:i]) + i for i in range(len(widths))]
    head = (
        " " * starts[2]
        + "polls".rjust(widths[2])
        + " "
        + "notice delay, s".center(starts[6] - starts[3] - 1)
    )
    head = head.ljust(starts[7]) + "timed".rjust(widths[7])
    head = head.ljust(starts[9]) + "against".rjust(widths[9])
    return "".join(line.rstrip() + "\n" for line in [head] + lines)


def _short(value: Optional[float]) -> str:
    return "-" if value is None else "%.0f" % value if value >= 99.95 else "%.1f" % value


def recommended(all_figures: Sequence[Figures]) -> Optional[Figures]:
    """The cheapest, or the first that is nearly so, of those that see all jobs through; None where nobody saw an end.

    Where every pace gives up jobs, it is chance whether one gives up a few in a hundred more: then
    they are all in the running.
    """
    least = min(one.timed_out for one in all_figures)
    seen = [
        (one.cost, one)
        for one in all_figures
        if one.cost is not None and one.timed_out <= least + (_few(one) if least else 0)
    ]
    lowest = min((cost for cost, _ in seen), default=0.0)
    return next((one for cost, one in seen if cost <= TIE * lowest), None)


def _few(one: Figures) -> float:
    """So many jobs given up may be chance."""
    return max(1.0, FEW * one.jobs)


def recommendation(
    all_figures: Sequence[Figures],
    limit: Optional[Limit] = None,
    because: Sequence[str] = (),
    width: int = WIDTH,
) -> str:
    """Which pace, and why, in a sentence or two; and what jobs that were given up may be `because` of."""
    best, why = recommended(all_figures), ": " + " or ".join(because) if because else ""
    if best is None:
        return fill("No pace saw any job end%s." % why, width) + "\n"
    rest = [one for one in all_figures if one is not best and one.cost is not None]
    if not best.timed_out:
        return fill(_of_complete(best, rest, limit) + ".", width) + "\n"
    if len(all_figures) == 1:
        return fill("'%s' gave up %s%s." % (best.pace, _given_up(best), why), width) + "\n"
    text = "Every pace gave up jobs%s. Take '%s' all the same: " % (why, best.pace)
    near = [one for one in rest if one.timed_out <= best.timed_out + _few(one)]
    is_tie = any(_cost(one) <= TIE * _cost(best) for one in near)
    text += "it gave up %s and %s%s" % (
        _given_up(best),
        "is as cheap as any" if is_tie else "costs least",
        "" if len(near) == len(rest) else " of those that gave up so few",
    )
    if near:
        rival = min(near, key=_cost)
        text += "; '%s', the next, gave up %d, %s" % (
            rival.pace,
            rival.timed_out,
            _against(rival, best),
        )
    return fill(text + ".", width) + "\n"


def _of_complete(best: Figures, rest: Sequence[Figures], limit: Optional[Limit]) -> str:
    """Why a pace that saw all jobs through is the best."""
    text, ratio = "Take '%s': " % (best.pace,), "%.2f times the optimum" % (best.cost_ratio or 0.0)
    patient = [one for one in rest if not one.timed_out]
    if not rest:
        return "'%s' costs %s" % (best.pace, ratio)
    if len(patient) < len(rest):
        text += "it is the cheapest that sees all jobs through, at %s" % ratio
    elif all(abs(_cost(one) / _cost(best) - 1.0) <= TIE - 1.0 for one in rest):
        decides = limit is not None and all(_is_busy(one, limit) for one in rest)
        return text + "at %s it is as good as any here%s" % (
            ratio,
            ", where the limit decides and not the pace" if decides else "",
        )
    elif any(_cost(one) <= TIE * _cost(best) for one in patient):
        text += "at %s no other is cheaper by more than %.0f%%" % (ratio, 100 * (TIE - 1.0))
    else:
        text += "it costs least, %s" % ratio
    if patient:
        rival = min(patient, key=_cost)
        text += "; '%s', the next, %s" % (rival.pace, _against(rival, best))
    # Whoever can do with a few jobs less may want to know of it.
    cheaper = [
        one for one in rest if 0 < one.timed_out <= _few(one) and TIE * _cost(one) < _cost(best)
    ]
    if cheaper:
        rival = min(cheaper, key=_cost)
        text += "; '%s' gave up %s, but %s" % (rival.pace, _given_up(rival), _against(rival, best))
    return text


def _cost(one: Figures) -> float:
    return one.cost or 0.0


def _given_up(one: Figures) -> str:
    return "%d of %d jobs" % (one.timed_out, one.jobs) if one.jobs > 1 else "its only job"


def _is_busy(one: Figures, limit: Limit) -> bool:
    """Whether a pace had hardly a minute to spare, from the first request to the last."""
    minutes = 1 + max(one.per_minute) - min(one.per_minute)
    return sum(one.per_minute.values()) >= BUSY * minutes * 60 * limit.polls / limit.per


def comparison(pairs: Sequence[Tuple[Figures, Figures]], width: int = WIDTH) -> str:
    """A line for each pair of paces that make as many polls: it may be the later one."""
    if not pairs:
        return ""
    lines = ["", fill("With no more polls than these make, adaptive notices ends after", width)]
    for ours, theirs in pairs:
        soon, late = _short(ours.mean), _short(theirs.mean)
        than = (", as after " if soon == late else ", later than ") + late
        if (ours.mean or 0.0) < (theirs.mean or 0.0) and soon != late:
            than = " instead of " + late.rjust(4)
        lines.append(
            fill(
                "  %s s%s s, at %s, beside %s"
                % (
                    soon.rjust(4),
                    than,
                    str(ours.pace).partition(" ")[2] or "price=1s",
                    theirs.pace,
                ),
                width,
                subsequent_indent="    ",
            )
        )
    return "".join(line + "\n" for line in lines)


def _against(one: Figures, best: Figures) -> str:
    """How a pace compares with the best."""
    polls = _times(one.polls_per_job, best.polls_per_job, "polls")
    late, soon = _short(one.mean), _short(best.mean)
    return "makes %s and notices ends %s" % (
        polls,
        "as soon" if late == soon else "after %s s instead of %s s" % (late, soon),
    )


def _times(value: float, other: float, what: str) -> str:
    if abs(value / other - 1.0) < 0.02 or _short(value) == _short(other):
        return "as many %s" % what
    return "%s %s a job instead of %s" % (_short(value), what, _short(other))


def chart(
    all_figures: Sequence[Figures],
    optimum: Optimum,
    curve: Sequence[Optimum],
    unicode: bool = True,
    width: int = WIDTH,
) -> str:
    """Polls per job against mean notice delay, both on log scales; the optimum as a dotted line."""
    points = [(one.polls_per_job, one.mean) for one in all_figures if one.mean is not None]
    if not points:
        return ""
    across, up = axes(points, optimum)
    columns = width - MARGIN
    cells: Dict[Tuple[int, int], str] = {}
    dot, bar, dash, corner, cross = "·│─└┬" if unicode else ".|-++"
    for polls, delay in _between(curve, across.zero):
        if across.low <= delay <= across.high and up.low <= polls <= up.high:
            cells[_row(up, polls), _column(across, delay, columns)] = dot
    for i, one in enumerate(all_figures):
        if one.mean is not None:
            _put(
                cells,
                _row(up, one.polls_per_job),
                _column(across, one.mean, columns),
                letter(i),
                columns,
            )
    marks = {_row(up, tick): number_text(tick) for tick in up.ticks(5)}
    lines = ["polls per job (log); %s the optimum" % (dot * 3)]
    for row in range(ROWS):
        lines.append(
            "%7s %s%s"
            % (marks.get(row, ""), bar, "".join(cells.get((row, i), " ") for i in range(columns)))
        )
    axis, below = [dash] * columns, [" "] * (columns + 8)
    for tick in across.ticks(max(3, columns // 9)):
        at = _column(across, tick, columns)
        axis[at] = cross
        text = number_text(tick)
        first = max(0, at - len(text) // 2)
        below[first : first + len(text)] = text
    lines += [
        " " * 8 + corner + "".join(axis),
        " " * 9 + "".join(below),
        "mean notice delay, seconds (log)".rjust(41)[-width:],
    ]
    return "".join(line.rstrip() + "\n" for line in lines)


def axes(points: Sequence[Tuple[float, float]], optimum: Optimum) -> Tuple[Log, Log]:
    """An axis for the delays and one for the polls: the points have room, and so has the optimum."""
    delays, polls = [delay for _, delay in points], [number for number, _ in points]
    return Log.around(delays + [optimum.delay]), Log.around(polls + [optimum.polls])


def _between(curve: Sequence[Optimum], zero: float, steps: int = 12) -> List[Tuple[float, float]]:
    """The curve's points, and more of them on straight lines in between; no delay is less than `zero`."""
    found = []
    points = [(best.polls, max(best.delay, zero)) for best in curve if best.delay or zero]
    for (polls, delay), (next_polls, next_delay) in zip(points, points[1:]):
        for i in range(steps):
            part = i / steps
            found.append(
                (polls * (next_polls / polls) ** part, delay * (next_delay / delay) ** part)
            )
    return found


def _row(up: Log, polls: float) -> int:
    return ROWS - 1 - int(min(0.9999, up.place(polls)) * ROWS)


def _column(across: Log, delay: float, columns: int) -> int:
    return int(min(0.9999, across.place(delay)) * columns)


def _put(cells: Dict[Tuple[int, int], str], row: int, column: int, mark: str, columns: int) -> None:
    """A letter, beside one that stands there already."""
    while cells.get((row, column), " ") in LETTERS and column < columns - 1:
        column += 1
    cells[row, column] = mark
