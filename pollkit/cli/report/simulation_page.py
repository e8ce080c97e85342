"""The page of a simulation: polls against delay, the requests per minute, and the figures."""

from typing import List, Optional, Sequence, Tuple

from ...core.model import one_line
from ...drivers.simulation.figures import Figures
from ...drivers.simulation.optimum import Optimum
from ...drivers.simulation.simulation import Simulation
from ..charts.frontier import axes
from ..charts.picture import caption, rates_title, request_rates, time_unit
from ..charts.scales import LogAxis, even_ticks, number_text
from ..charts.table import letter, short_number
from .markup import NOTHING, Content, Html, figure, join, legend, shape, table, tag
from .page import page
from .plot import EvenAxis, Plot, percent

COLOURS = 8  # that the style has for paces
HEADINGS = (
    "Pace",
    "Polls per job",
    "Mean delay",
    "95 % within",
    "Longest",
    "429s",
    "Timed out",
    "Cost",
    "Against the optimum",
)


def simulation_page(
    simulation: Simulation, all_figures: Sequence[Figures], matched: Sequence[Figures], advice: str
) -> bytes:
    """The whole page; the `matched` paces are not among the requests per minute."""
    shown = [*all_figures, *matched]
    sections = [_frontier(simulation, shown, advice), _request_rate(simulation, all_figures)]
    title = "Paces compared: " + one_line(simulation.name, 100)
    return page("pollkit simulation", title, caption(simulation), join(sections))


def _names(all_figures: Sequence[Figures]) -> List[Tuple[str, str]]:
    """The class and the text of each pace, for a legend."""
    return [
        (_colour(i), "%s %s" % (letter(i), figures.pace)) for i, figures in enumerate(all_figures)
    ]


def _colour(index: int) -> str:
    return "pace%d" % (index % COLOURS)


def _frontier(simulation: Simulation, shown: Sequence[Figures], advice: str) -> Html:
    points = [(one.polls_per_job, one.mean) for one in shown if one.mean is not None]
    picture = NOTHING
    if points:
        optima = [simulation.optimum, simulation.unheld_optimum]
        picture = _draw_frontier(simulation, shown, *axes(points, optima))
    optima_names = [("optimum", "the optimum")]
    if simulation.hold_s:
        optima_names.append(("unheld", "the optimum without holding"))
    return tag(
        "section",
        tag("p", " ".join(advice.split()), class_="total"),
        tag("h2", "Polls per job against notice delay"),
        tag("p", "Further left, jobs are noticed sooner; further down, with fewer polls."),
        legend(*_names(shown), *optima_names),
        tag("figure", picture, tag("figcaption", "mean notice delay", class_="right")),
        tag("div", _figures_table(simulation, shown), class_="scroll"),
    )


def _draw_frontier(
    simulation: Simulation, shown: Sequence[Figures], x_axis: LogAxis, y_axis: LogAxis
) -> Html:
    plot = Plot(y_axis, height=320)
    if simulation.hold_s:
        unheld = _curve_points(simulation.unheld_frontier, x_axis, y_axis)
        plot.add(plot.curve(unheld, "unheld"))
    plot.add(plot.curve(_curve_points(simulation.frontier, x_axis, y_axis), "optimum"))
    for i, figures in enumerate(shown):
        if figures.mean is not None:
            x = percent(x_axis.position(figures.mean))
            y = plot.y(figures.polls_per_job)
            dot = shape("circle", cx=x, cy="%g" % y, r="10", class_=_colour(i))
            name = tag("text", letter(i), x=x, y="%g" % (y + 4), class_="on-dot")
            plot.add(tag("g", tag("title", str(figures.pace)), dot, name))
    ticks = [(x_axis.position(tick), number_text(tick) + " s") for tick in x_axis.ticks(8)]
    return plot.draw("Polls per job against mean notice delay", ticks, "polls per job")


def _curve_points(
    frontier: Sequence[Tuple[float, Optimum]], x_axis: LogAxis, y_axis: LogAxis
) -> List[Tuple[float, float]]:
    curve = []
    for _, best in frontier:
        share = x_axis.position(max(best.delay, x_axis.zero or x_axis.low))
        if 0.0 <= share <= 1.0 and y_axis.low <= best.polls <= y_axis.high:
            curve.append((share, best.polls))
    return curve


def _figures_table(simulation: Simulation, shown: Sequence[Figures]) -> Html:
    rows: List[Tuple[Content, ...]] = []
    for i, one in enumerate(shown):
        mark = join([tag("i", class_=_colour(i)), tag("b", letter(i)), " ", str(one.pace)])
        delays = [_seconds(value) for value in (one.mean, one.p95, one.max)]
        ratio = "–" if one.cost_ratio is None else "%.2f" % one.cost_ratio
        cost = short_number(one.cost)
        polls = short_number(one.polls_per_job)
        rows.append((mark, polls, *delays, one.rate_limited, one.timed_out, cost, ratio))
    best = simulation.optimum
    mark = join([tag("i", class_="optimum"), "the optimum"])
    polls = short_number(best.polls)
    rows.append(
        (mark, polls, _seconds(best.delay), "", "", "", "", short_number(best.cost), "1.00")
    )
    return table(HEADINGS, rows, "numbers")


def _seconds(value: Optional[float]) -> str:
    return "–" if value is None else short_number(value) + " s"


def _request_rate(simulation: Simulation, all_figures: Sequence[Figures]) -> Html:
    minutes, bin_width, rates = request_rates(all_figures)
    highest = max(max(rate) for rate in rates)
    limit = simulation.limit
    per_minute = 0.0 if limit is None else 60 * limit.polls / limit.per
    plot = Plot(EvenAxis(max(highest, 1.1 * per_minute)))
    rows: List[List[Content]] = []
    for i, rate in enumerate(rates):
        points = [
            (min(1.0, (place + 0.5) * bin_width / minutes), value)
            for place, value in enumerate(rate)
        ]
        plot.add(plot.curve(points, _colour(i)))
    for place, values in enumerate(zip(*rates)):
        rows.append(["%d min" % (place * bin_width), *("%.1f" % value for value in values)])
    if limit is not None:
        plot.add(plot.rule(per_minute, "limit %s" % (limit,)))
    unit_minutes, unit = time_unit(minutes)
    ticks = [
        (tick * unit_minutes / minutes, "%s %s" % (number_text(tick), unit))
        for tick in even_ticks(minutes / unit_minutes, 6)
        if tick * unit_minutes <= minutes
    ]
    headings = ["From", *(letter(i) for i in range(len(all_figures)))]
    title = rates_title("Requests", bin_width)
    picture = plot.draw(title, ticks, "per minute")
    return tag(
        "section",
        tag("h2", title),
        legend(*_names(all_figures)),
        figure("", picture, table(headings, rows, "numbers")),
    )
