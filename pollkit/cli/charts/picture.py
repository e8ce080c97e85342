"""What a simulation found, as a drawing: one SVG file that needs nothing else, not even a page that is white.

Above, polls per job against mean notice delay, the optimum as a curve and each pace as a point
with its name; below, the requests per minute over time against the limit.
"""

import itertools
from html import escape
from typing import List, NamedTuple, Sequence, Tuple

from ...core.model import one_line
from ...core.pace import Adaptive
from ...core.units import duration_text
from ...drivers.simulation.optimum import Optimum
from ...drivers.simulation.simulation import Figures, Simulation
from .frontier import axes
from .scales import Log, even_ticks, number_text

WIDTH, HEIGHT = 820, 740
LEFT, RIGHT = 64, 24
TOP, FRONTIER_HEIGHT = 106, 340
BELOW = TOP + FRONTIER_HEIGHT + 96
TIMELINE_HEIGHT = 140
LETTER_WIDTH, LINE_HEIGHT = 7.2, 15.0  # of a name at 12 pixels, and a little more
MOST_BINS = 180
LONGEST_TITLE = 48
# The paper is drawn, too: on a dark page, names must not be dark on dark.
PAPER, EDGE = "#ffffff", "#d0d7de"
ADAPTIVE = "#d9480f"
COLOURS = ("#1864ab", "#2b8a3e", "#862e9c", "#0b7285", "#a61e4d", "#7c5413", "#5f3dc4")
INK = "#57606a"


class Box(NamedTuple):
    """A rectangle on the paper."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether the two overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and (self.top < other.bottom and other.top < self.bottom)
        )


FRAME = Box(LEFT, TOP, WIDTH - RIGHT, TOP + FRONTIER_HEIGHT)
TIMELINE = Box(LEFT, BELOW, WIDTH - RIGHT, BELOW + TIMELINE_HEIGHT)


def draw_svg(
    simulation: Simulation, all_figures: Sequence[Figures], matched: Sequence[Figures]
) -> str:
    """The whole drawing; what was `matched` to another pace stands in its upper half alone."""
    shapes = [
        '<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" fill="%s" stroke="%s"/>'
        % (WIDTH - 1, HEIGHT - 1, PAPER, EDGE),
        _text(
            LEFT,
            36,
            "Paces compared: " + one_line(simulation.name, LONGEST_TITLE),
            size=18,
            weight="bold",
        ),
        _text(LEFT, 58, _caption(simulation), size=13),
    ]
    shapes += _frontier(simulation, list(all_figures) + list(matched)) + _timeline(
        simulation, all_figures
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" fill="%s">\n'
        "<title>%s</title>\n%s\n</svg>\n"
        % (
            WIDTH,
            HEIGHT,
            WIDTH,
            HEIGHT,
            INK,
            escape("Paces compared: " + simulation.name),
            "\n".join(shapes),
        )
    )


def _caption(simulation: Simulation) -> str:
    arrive = "all at once" if simulation.arrive == "burst" else simulation.arrive
    limit = "no limit" if simulation.limit is None else "limit %s" % (simulation.limit,)
    spreads = list(simulation.spreads.values())
    lasting = (
        ", %s" % (spreads[0],) if len(spreads) == 1 and str(spreads[0]) != simulation.name else ""
    )
    jobs = "1 job" if simulation.count == 1 else "%s jobs" % number_text(simulation.count)
    return "%s%s, %s; %s; a poll is worth %s" % (
        jobs,
        lasting,
        arrive,
        limit,
        duration_text(simulation.price),
    )


def _frontier(simulation: Simulation, all_figures: Sequence[Figures]) -> List[str]:
    points = [(one.polls_per_job, one.mean) for one in all_figures if one.mean is not None]
    if not points:
        return [_text(LEFT, TOP + 40, "no pace saw any job end", size=13)]
    across, up = axes(points, simulation.optimum)
    shapes = [
        _text(LEFT, TOP - 12, "polls per job", size=12),
        _text(LEFT, FRAME.bottom + 36, "the lower and the further left, the better", size=12),
        _text(FRAME.right, FRAME.bottom + 36, "mean notice delay, seconds", size=12, anchor="end"),
    ]
    for tick in across.ticks(10):
        x = _x(across, tick)
        shapes += [
            _line(x, FRAME.top, x, FRAME.bottom),
            _text(x, FRAME.bottom + 18, number_text(tick), anchor="middle"),
        ]
    for tick in up.ticks(8):
        y = _y(up, tick)
        shapes += [
            _line(FRAME.left, y, FRAME.right, y),
            _text(FRAME.left - 8, y + 4, number_text(tick), anchor="end"),
        ]
    line = _curve(across, up, [best for _, best in simulation.frontier])
    dots = [
        (_x(across, one.mean), _y(up, one.polls_per_job)) if one.mean is not None else None
        for one in all_figures
    ]
    taken = [Box(x - 7, y - 7, x + 7, y + 7) for x, y in filter(None, dots)] + _along(line)
    shapes += _curve_shapes(line)
    for one, colour, dot in zip(all_figures, _colours(all_figures), dots):
        if dot is not None:
            box = _room(dot, len(str(one.pace)) * LETTER_WIDTH, taken)
            taken.append(box)
            shapes += _labelled(dot, box, str(one.pace), colour)
    inside = [
        (x, y) for x, y in line if FRAME.left < x < FRAME.right and FRAME.top < y < FRAME.bottom
    ]
    if inside:
        box = _room(inside[len(inside) // 4], len("the optimum") * LETTER_WIDTH, taken)
        shapes.append(_text(box.left, box.bottom - 3.5, "the optimum", weight="600"))
    return shapes


def _colours(all_figures: Sequence[Figures]) -> List[str]:
    """One for adaptive, at whatever price, and one for each of the others."""
    others = itertools.cycle(COLOURS)
    return [ADAPTIVE if isinstance(one.pace, Adaptive) else next(others) for one in all_figures]


def _labelled(dot: Tuple[float, float], box: Box, name: str, colour: str) -> List[str]:
    """A point with its name beside it, and a thread to it where it could not stand next to it."""
    x, y = dot
    shapes = []
    middle = (box.top + box.bottom) / 2
    near = min(max(x, box.left), box.right)
    if abs(near - x) + abs(middle - y) > 26:
        shapes.append(
            '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="1"/>'
            % (x, y, near, box.bottom if middle < y else box.top, colour)
        )
    return shapes + [
        '<circle cx="%.1f" cy="%.1f" r="5.5" fill="%s"/>' % (x, y, colour),
        _text(box.left, box.bottom - 3.5, name, colour=colour, weight="600"),
    ]


def _room(dot: Tuple[float, float], width: float, taken: Sequence[Box]) -> Box:
    """The nearest place for a name where nothing stands yet."""
    x, y = dot
    best = None
    for distance in (0, 10, 20, 34, 48, 64, 82, 100):
        for across, down in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1)):
            left = (
                x + across * (11 + distance) - (width if across < 0 else 0 if across else width / 2)
            )
            top = y - LINE_HEIGHT / 2 + down * (16 + distance)
            box = Box(left, top, left + width, top + LINE_HEIGHT)
            if (
                box.left < FRAME.left + 2
                or box.right > FRAME.right - 2
                or not FRAME.top < top < FRAME.bottom - 18
            ):
                continue
            best = best or box
            if not any(box.meets(other) for other in taken):
                return box
    return best or Box(FRAME.left + 4, y - 24, FRAME.left + 4 + width, y - 24 + LINE_HEIGHT)


def _curve(across: Log, up: Log, curve: Sequence[Optimum]) -> List[Tuple[float, float]]:
    """The curve, as far as it lies in the frame or near it."""
    points = [(max(one.delay, across.zero), one.polls) for one in curve]
    return [
        (_x(across, delay), _y(up, polls))
        for delay, polls in points
        if across.low / 10 <= delay <= across.high * 10 and up.low / 10 <= polls <= up.high * 10
    ]


def _along(line: Sequence[Tuple[float, float]]) -> List[Box]:
    """Small boxes along a line, for names to keep clear of."""
    boxes = []
    for (x1, y1), (x2, y2) in zip(line, line[1:]):
        steps = max(8, int(max(abs(x2 - x1), abs(y2 - y1)) / 6))
        for i in range(steps):
            x, y = x1 + (x2 - x1) * i / steps, y1 + (y2 - y1) * i / steps
            boxes.append(Box(x - 3, y - 3, x + 3, y + 3))
    return boxes


def _curve_shapes(line: Sequence[Tuple[float, float]]) -> List[str]:
    frame = '<clipPath id="frame"><rect x="%d" y="%d" width="%d" height="%d"/></clipPath>' % (
        FRAME.left,
        FRAME.top,
        FRAME.right - FRAME.left,
        FRAME.bottom - FRAME.top,
    )
    points = " ".join("%.1f,%.1f" % point for point in line)
    return [
        frame,
        '<polyline points="%s" fill="none" stroke="%s" stroke-width="2.5" clip-path="url(#frame)"/>'
        % (points, INK),
    ]


def _timeline(simulation: Simulation, all_figures: Sequence[Figures]) -> List[str]:
    """Requests per minute over time, a line a pace, and the limit."""
    last = 1 + max((max(one.per_minute) for one in all_figures if one.per_minute), default=0)
    width = max(1, -(-last // MOST_BINS))
    averaged = "" if width == 1 else ", averaged over %d minutes" % width
    shapes = [_text(LEFT, TIMELINE.top - 14, "requests per minute" + averaged, size=12)]
    rates = [_rates(one, last, width) for one in all_figures]
    limit = None if simulation.limit is None else simulation.limit.polls / simulation.limit.per * 60
    ticks = even_ticks(max([max(rate) for rate in rates] + [limit or 1.0]), 4)

    def at(minute: float, rate: float) -> Tuple[float, float]:
        return (
            TIMELINE.left + minute / last * (TIMELINE.right - TIMELINE.left),
            TIMELINE.bottom - rate / ticks[-1] * TIMELINE_HEIGHT,
        )

    for tick in ticks:
        _, y = at(0, tick)
        shapes += [
            _line(TIMELINE.left, y, TIMELINE.right, y),
            _text(TIMELINE.left - 8, y + 4, number_text(tick) if tick else "0", anchor="end"),
        ]
    per, unit = _unit(last)
    for tick in even_ticks(last / per, 8):
        if tick * per <= last:
            shapes.append(
                _text(
                    at(tick * per, 0)[0],
                    TIMELINE.bottom + 18,
                    number_text(tick) if tick else "0",
                    anchor="middle",
                )
            )
    shapes.append(_text(TIMELINE.right, TIMELINE.bottom + 36, unit, size=12, anchor="end"))
    for rate, colour in reversed(list(zip(rates, _colours(all_figures)))):
        points = [at(min(last, (j + 0.5) * width), value) for j, value in enumerate(rate)]
        shapes.append(
            '<polyline points="%s" fill="none" stroke="%s" stroke-width="1.4" stroke-opacity="0.85"/>'
            % (" ".join("%.1f,%.1f" % point for point in points), colour)
        )
    if limit is not None:
        _, y = at(0, limit)
        dashes = '<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="%s" stroke-width="1.5" stroke-dasharray="6 4"/>'
        shapes += [
            dashes % (TIMELINE.left, y, TIMELINE.right, y, INK),
            _text(TIMELINE.right, y - 5, "limit", anchor="end"),
        ]
    return shapes


def _rates(one: Figures, last: int, width: int) -> List[float]:
    """Requests per minute, averaged over so many minutes each."""
    rates = [0.0] * -(-last // width)
    for minute, count in one.per_minute.items():
        rates[minute // width] += count / width
    return rates


def _unit(minutes: int) -> Tuple[int, str]:
    return (
        (1, "minutes") if minutes <= 180 else (60, "hours") if minutes <= 4320 else (1440, "days")
    )


def _x(axis: Log, value: float) -> float:
    return FRAME.left + axis.place(value) * (FRAME.right - FRAME.left)


def _y(axis: Log, value: float) -> float:
    return FRAME.bottom - axis.place(value) * (FRAME.bottom - FRAME.top)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-opacity="0.25"/>' % (
        x1,
        y1,
        x2,
        y2,
        INK,
    )


def _text(
    x: float,
    y: float,
    text: str,
    size: int = 12,
    anchor: str = "start",
    colour: str = "",
    weight: str = "",
) -> str:
    more = (
        (' text-anchor="%s"' % anchor if anchor != "start" else "")
        + (' fill="%s"' % colour if colour else "")
        + (' font-weight="%s"' % weight if weight else "")
    )
    return '<text x="%.1f" y="%.1f" font-size="%d"%s>%s</text>' % (x, y, size, more, escape(text))
