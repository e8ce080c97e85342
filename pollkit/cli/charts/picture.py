"""The SVG picture of a simulation: one file that needs no other, on light and dark pages.

The upper half shows polls per job against mean notice delay, with the optimum as a curve and each
pace as a point with its name. The lower half shows the requests per minute against the limit.
"""

import itertools
from html import escape
from typing import List, NamedTuple, Sequence, Tuple

from ...core.model import one_line
from ...core.units import duration_text
from ...core.waiting.pace import Adaptive
from ...drivers.simulation.figures import Figures
from ...drivers.simulation.optimum import Optimum
from ...drivers.simulation.simulation import Simulation
from .frontier import axes
from .scales import LogAxis, even_ticks, number_text
from .svg import INK, Box, Point, grid_line, line_element, polyline_element, text_element

WIDTH = 820
HEIGHT = 740
LEFT = 64
RIGHT = WIDTH - 24
FRAME = Box(LEFT, 106, RIGHT, 446)  # of the upper half
TIMELINE = Box(LEFT, 542, RIGHT, 682)  # of the lower half
LETTER_WIDTH = 7.2  # a little more than the average at 12 pixels
LINE_HEIGHT = 15.0
MOST_BINS = 180
LONGEST_TITLE = 48
# The background is drawn, too: on a dark page, dark text would be illegible.
PAPER = "#ffffff"
EDGE = "#d0d7de"
ADAPTIVE = "#d9480f"
COLOURS = ("#1864ab", "#2b8a3e", "#862e9c", "#0b7285", "#a61e4d", "#7c5413", "#5f3dc4")
FONTS = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"
# Where to try a label: distances from its point, and directions (across, down).
DISTANCES = (0, 10, 20, 34, 48, 64, 82, 100)
DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))


def draw_svg(
    simulation: Simulation, all_figures: Sequence[Figures], matched: Sequence[Figures]
) -> str:
    """The whole picture; the `matched` paces appear in the upper half only."""
    title = "Paces compared: " + one_line(simulation.name, LONGEST_TITLE)
    shapes = [
        '<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" fill="%s" stroke="%s"/>'
        % (WIDTH - 1, HEIGHT - 1, PAPER, EDGE),
        text_element(LEFT, 36, title, size=18, weight="bold"),
        text_element(LEFT, 58, caption(simulation), size=13),
    ]
    shapes += _draw_frontier(simulation, list(all_figures) + list(matched))
    shapes += _draw_timeline(simulation, all_figures)
    size = 'viewBox="0 0 %d %d" width="%d" height="%d"' % (WIDTH, HEIGHT, WIDTH, HEIGHT)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" %s role="img" font-family="%s" fill="%s">\n'
        "<title>%s</title>\n%s\n</svg>\n"
        % (size, FONTS, INK, escape("Paces compared: " + simulation.name), "\n".join(shapes))
    )


def caption(simulation: Simulation) -> str:
    """The jobs, the limit and the price in a line."""
    parts = ["1 job" if simulation.count == 1 else "%s jobs" % number_text(simulation.count)]
    distributions = [str(distribution) for distribution in simulation.distributions.values()]
    if len(distributions) == 1 and distributions[0] != simulation.name:
        parts += distributions
    parts.append("all at once" if simulation.arrive == "burst" else simulation.arrive)
    limit = "no limit" if simulation.limit is None else "limit %s" % (simulation.limit,)
    price = duration_text(simulation.price)
    return "%s; %s; a poll is worth %s" % (", ".join(parts), limit, price)


def _draw_frontier(simulation: Simulation, all_figures: Sequence[Figures]) -> List[str]:
    """Polls against delay: axes, the optimum, and the paces with their names."""
    points = [(one.polls_per_job, one.mean) for one in all_figures if one.mean is not None]
    if not points:
        return [text_element(LEFT, FRAME.top + 40, "no pace saw any job finish", size=13)]
    x_axis, y_axis = axes(points, [simulation.optimum, simulation.unheld_optimum])
    curves = {"the optimum": _curve_points(x_axis, y_axis, simulation.frontier)}
    if simulation.hold_s:
        unheld = _curve_points(x_axis, y_axis, simulation.unheld_frontier)
        curves["the optimum without holding"] = unheld
    dots = [(_x(x_axis, delay), _y(y_axis, polls)) for polls, delay in points]
    taken = [Box(x - 7, y - 7, x + 7, y + 7) for x, y in dots]
    shapes = _draw_frontier_axes(x_axis, y_axis)
    for name, curve in curves.items():
        taken += _boxes_along(curve)
        shapes += _draw_curve(curve, is_dashed=name != "the optimum")
    coloured = zip(all_figures, _colours(all_figures))
    shown = [(str(one.pace), colour) for one, colour in coloured if one.mean is not None]
    for dot, (name, colour) in zip(dots, shown):
        box = _free_box(dot, name, taken)
        taken.append(box)
        shapes += _draw_labelled_dot(dot, box, name, colour)
    for name, curve in curves.items():
        inside = [point for point in curve if _is_inside_frame(point)]
        if inside:
            box = _free_box(inside[len(inside) // 4], name, taken)
            taken.append(box)
            shapes.append(text_element(box.left, box.bottom - 3.5, name, weight="600"))
    return shapes


def _draw_frontier_axes(x_axis: LogAxis, y_axis: LogAxis) -> List[str]:
    below = FRAME.bottom + 36
    shapes = [
        text_element(LEFT, FRAME.top - 12, "polls per job"),
        text_element(LEFT, below, "lower and further left is better"),
        text_element(RIGHT, below, "mean notice delay, seconds", anchor="end"),
    ]
    for tick in x_axis.ticks(10):
        x = _x(x_axis, tick)
        shapes += [
            grid_line((x, FRAME.top), (x, FRAME.bottom)),
            text_element(x, FRAME.bottom + 18, number_text(tick), anchor="middle"),
        ]
    for tick in y_axis.ticks(8):
        y = _y(y_axis, tick)
        shapes += [
            grid_line((LEFT, y), (RIGHT, y)),
            text_element(LEFT - 8, y + 4, number_text(tick), anchor="end"),
        ]
    return shapes


def _colours(all_figures: Sequence[Figures]) -> List[str]:
    """One colour for adaptive at any price, and one for each of the others."""
    others = itertools.cycle(COLOURS)
    return [ADAPTIVE if isinstance(one.pace, Adaptive) else next(others) for one in all_figures]


def _draw_labelled_dot(dot: Point, box: Box, name: str, colour: str) -> List[str]:
    """A point with its name, and a line between the two if they are far apart."""
    x, y = dot
    shapes = []
    middle = (box.top + box.bottom) / 2
    near_x = min(max(x, box.left), box.right)
    if abs(near_x - x) + abs(middle - y) > 26:
        near_y = box.bottom if middle < y else box.top
        shapes.append(line_element(dot, (near_x, near_y), 'stroke="%s" stroke-width="1"' % colour))
    return shapes + [
        '<circle cx="%.1f" cy="%.1f" r="5.5" fill="%s"/>' % (x, y, colour),
        text_element(box.left, box.bottom - 3.5, name, colour=colour, weight="600"),
    ]


def _free_box(dot: Point, label: str, taken: Sequence[Box]) -> Box:
    """The nearest place for a label that overlaps nothing; otherwise the nearest in the frame."""
    x, y = dot
    width = len(label) * LETTER_WIDTH
    nearest = None
    for distance in DISTANCES:
        for across, down in DIRECTIONS:
            # Left of the point the label ends there; above and below it is centred.
            alignment = {1: 0.0, 0: width / 2, -1: width}[across]
            left = x + across * (11 + distance) - alignment
            top = y - LINE_HEIGHT / 2 + down * (16 + distance)
            box = Box(left, top, left + width, top + LINE_HEIGHT)
            fits_across = FRAME.left + 2 <= box.left and box.right <= FRAME.right - 2
            if not fits_across or not FRAME.top < top < FRAME.bottom - 18:
                continue
            nearest = nearest or box
            if not any(box.overlaps(other) for other in taken):
                return box
    return nearest or Box(FRAME.left + 4, y - 24, FRAME.left + 4 + width, y - 24 + LINE_HEIGHT)


def _curve_points(
    x_axis: LogAxis, y_axis: LogAxis, frontier: Sequence[Tuple[float, Optimum]]
) -> List[Point]:
    """The points of the curve that are in the frame or near it."""
    points = []
    for _, best in frontier:
        delay = max(best.delay, x_axis.zero)
        is_near_across = x_axis.low / 10 <= delay <= x_axis.high * 10
        is_near_down = y_axis.low / 10 <= best.polls <= y_axis.high * 10
        if is_near_across and is_near_down:
            points.append((_x(x_axis, delay), _y(y_axis, best.polls)))
    return points


def _boxes_along(curve: Sequence[Point]) -> List[Box]:
    """Small boxes along the curve, which labels must not overlap."""
    boxes = []
    for (x1, y1), (x2, y2) in zip(curve, curve[1:]):
        steps = max(8, int(max(abs(x2 - x1), abs(y2 - y1)) / 6))
        for i in range(steps):
            x = x1 + (x2 - x1) * i / steps
            y = y1 + (y2 - y1) * i / steps
            boxes.append(Box(x - 3, y - 3, x + 3, y + 3))
    return boxes


def _draw_curve(curve: Sequence[Point], is_dashed: bool) -> List[str]:
    frame = '<clipPath id="frame"><rect x="%d" y="%d" width="%d" height="%d"/></clipPath>' % (
        FRAME.left,
        FRAME.top,
        FRAME.width,
        FRAME.height,
    )
    attributes = 'stroke="%s" stroke-width="2.5" clip-path="url(#frame)"' % INK
    if is_dashed:
        return [polyline_element(curve, attributes + ' stroke-dasharray="3 4"')]
    return [frame, polyline_element(curve, attributes)]


def _draw_timeline(simulation: Simulation, all_figures: Sequence[Figures]) -> List[str]:
    """Requests per minute over time, with one line per pace, and the limit."""
    minutes, bin_width, rates = request_rates(all_figures)
    limit = None
    if simulation.limit is not None:
        limit = simulation.limit.polls / simulation.limit.per * 60
    ticks = even_ticks(max([max(rate) for rate in rates] + [limit or 1.0]), 4)
    shapes = [text_element(LEFT, TIMELINE.top - 14, rates_title("requests", bin_width))]
    for tick in ticks:
        y = _rate_y(tick, ticks)
        shapes += [
            grid_line((LEFT, y), (RIGHT, y)),
            text_element(LEFT - 8, y + 4, number_text(tick), anchor="end"),
        ]
    shapes += _draw_time_axis(minutes)
    for rate, colour in reversed(list(zip(rates, _colours(all_figures)))):
        points = [
            (_minute_x(min(minutes, (i + 0.5) * bin_width), minutes), _rate_y(value, ticks))
            for i, value in enumerate(rate)
        ]
        attributes = 'stroke="%s" stroke-width="1.4" stroke-opacity="0.85"' % colour
        shapes.append(polyline_element(points, attributes))
    if limit is not None:
        y = _rate_y(limit, ticks)
        attributes = 'stroke="%s" stroke-width="1.5" stroke-dasharray="6 4"' % INK
        shapes += [
            line_element((LEFT, y), (RIGHT, y), attributes),
            text_element(RIGHT, y - 5, "limit", anchor="end"),
        ]
    return shapes


def _draw_time_axis(minutes: int) -> List[str]:
    unit_minutes, unit = time_unit(minutes)
    shapes = []
    for tick in even_ticks(minutes / unit_minutes, 8):
        if tick * unit_minutes <= minutes:
            x = _minute_x(tick * unit_minutes, minutes)
            shapes.append(text_element(x, TIMELINE.bottom + 18, number_text(tick), anchor="middle"))
    return shapes + [text_element(RIGHT, TIMELINE.bottom + 36, unit, anchor="end")]


def _minute_x(minute: float, minutes: int) -> float:
    return TIMELINE.left + minute / minutes * TIMELINE.width


def _rate_y(rate: float, ticks: Sequence[float]) -> float:
    return TIMELINE.bottom - rate / ticks[-1] * TIMELINE.height


class RequestRates(NamedTuple):
    """Requests per minute over so many minutes, averaged over bins: a list for each pace."""

    minutes: int
    bin_width: int  # minutes
    rates: List[List[float]]


def request_rates(all_figures: Sequence[Figures]) -> RequestRates:
    """The request rates of all paces."""
    minutes = 1 + max((max(one.per_minute) for one in all_figures if one.per_minute), default=0)
    bin_width = max(1, -(-minutes // MOST_BINS))
    rates = []
    for one in all_figures:
        bins = [0.0] * -(-minutes // bin_width)
        for minute, count in one.per_minute.items():
            bins[minute // bin_width] += count / bin_width
        rates.append(bins)
    return RequestRates(minutes, bin_width, rates)


def rates_title(requests: str, bin_width: int) -> str:
    """The title of a chart of request rates."""
    title = requests + " per minute"
    return title if bin_width == 1 else "%s, averaged over %d minutes" % (title, bin_width)


def time_unit(minutes: int) -> Tuple[int, str]:
    """The minutes of the unit for a time axis of this length, and its name."""
    if minutes <= 180:
        return 1, "minutes"
    if minutes <= 4320:
        return 60, "hours"
    return 1440, "days"


def _is_inside_frame(point: Point) -> bool:
    x, y = point
    return FRAME.left < x < FRAME.right and FRAME.top < y < FRAME.bottom


def _x(axis: LogAxis, value: float) -> float:
    return FRAME.left + axis.position(value) * FRAME.width


def _y(axis: LogAxis, value: float) -> float:
    return FRAME.bottom - axis.position(value) * FRAME.height
