"""The timeline: a table with one bar per job, or one per group of jobs if there are many.

The colours of a bar show how long the wait for the job slept for each reason, not when: the totals
are known, the order is not.
"""

from collections import Counter
from typing import Dict, Iterable, List, NamedTuple, Set, Tuple

from ....core.units import rounded_duration
from ....core.urls import is_url
from ...progress.terminal import clip_id
from ..markup import Html, join, legend, shape, tag
from ..plot import TimeAxis, axis_labels, moment_text
from ..records import ReportData, ReportJob
from .headline import state_text

MOST_JOBS = 500  # that have a bar each
GROUPS = 240  # about so many bars if there are more jobs
MOST_LABELS = 20  # that can be chosen; the others count as one
OTHER_LABELS = "other labels"
LONGEST_NAME = 18  # characters of a URL that the column has room for
REASONS = (
    ("pace", "waiting for the next poll"),
    ("limit", "held back by the limit"),
    ("pause", "paused (Retry-After)"),
    ("fault", "after a fault"),
)
HEADINGS = ("Job", "Label", "State", "Polls", "Faults", "Waited")


class Bar(NamedTuple):
    """A row of the table: a job, or several; then numbers are means."""

    name: str
    label: str
    state: str
    began_at: float
    ended_at: float
    slept: Tuple[float, ...]  # for each of REASONS
    polls: float
    faults: float
    span: Tuple[float, float]  # from the first start to the last end


def timeline(data: ReportData, axis: TimeAxis) -> Html:
    """The section with the filters, the legend and the table."""
    bars = [_job_bar(job, data.now) for job in data.jobs]
    labels = _labels_to_choose(bars)
    bars = [bar if bar.label in labels else bar._replace(label=OTHER_LABELS) for bar in bars]
    note = "Colours show how long each wait slept for each reason, not in which order."
    is_grouped = len(bars) > MOST_JOBS
    if is_grouped:
        jobs = len(bars)
        bars = _group(bars)
        note = "{:,} jobs in {:,} groups of jobs with the same label and state. ".format(
            jobs, len(bars)
        )
        note += "Bars and numbers are means; the thin line is the span of the group."
    return tag(
        "section",
        tag("h2", "Jobs"),
        tag("p", note),
        legend(*REASONS),
        _filters(bars, can_find=not is_grouped),
        tag(
            "div",
            _table(bars, data, axis),
            class_="scroll jobs",
            tabindex="0",
            role="region",
            aria_label="Jobs",
        ),
        id="jobs",
    )


def _job_bar(job: ReportJob, now: float) -> Bar:
    end = now if job.ended_at is None else job.ended_at
    waited_s = max(0.0, end - job.began_at)
    others = tuple(job.slept[1:])
    slept = (max(0.0, waited_s - sum(others)), *others)
    return Bar(
        job.id,
        job.label,
        job.state,
        job.began_at,
        end,
        slept,
        job.polls,
        job.faults,
        (job.began_at, end),
    )


def _labels_to_choose(bars: Iterable[Bar]) -> Set[str]:
    counts = Counter(bar.label for bar in bars)
    if len(counts) <= MOST_LABELS:
        return set(counts)
    return {label for label, _ in counts.most_common(MOST_LABELS - 1)}


def _group(bars: List[Bar]) -> List[Bar]:
    """Groups of jobs that started one after another and have the same label and state."""
    kinds: Dict[Tuple[str, str], List[Bar]] = {}
    for bar in sorted(bars, key=lambda bar: bar.began_at):
        kinds.setdefault((bar.label, bar.state), []).append(bar)
    size = -(-len(bars) // GROUPS)
    groups = []
    for kind in kinds.values():
        groups += [_mean_bar(kind[i : i + size]) for i in range(0, len(kind), size)]
    return sorted(groups, key=lambda bar: bar.began_at)


def _mean_bar(bars: List[Bar]) -> Bar:
    count = len(bars)
    first = bars[0]
    slept = tuple(sum(values) / count for values in zip(*(bar.slept for bar in bars)))
    began_at = sum(bar.began_at for bar in bars) / count
    name = first.name if count == 1 else "%d jobs" % count
    return Bar(
        name,
        first.label,
        first.state,
        began_at,
        began_at + sum(slept),
        slept,
        sum(bar.polls for bar in bars) / count,
        sum(bar.faults for bar in bars) / count,
        (first.began_at, max(bar.ended_at for bar in bars)),
    )


def _filters(bars: List[Bar], can_find: bool) -> Html:
    """The controls, which the script shows: without it they would do nothing."""
    find = tag("input", type="search", name_="find", placeholder="part of an id")
    labels = sorted({bar.label for bar in bars})
    states = sorted({bar.state for bar in bars})
    return tag(
        "form",
        tag("label", "Find ", find, hidden=not can_find),
        tag("label", "Label ", _select("label", [(label, label or "none") for label in labels])),
        tag("label", "State ", _select("state", [(each, state_text(each)) for each in states])),
        tag("label", "Zoom ", _zoom(), class_="zoom"),
        tag("output", "", name_="count"),
        id="filter",
        hidden=True,
    )


def _select(name: str, options: List[Tuple[str, str]]) -> Html:
    choices = [tag("option", text, value="=" + value) for value, text in options]
    return tag("select", tag("option", "all", value=""), *choices, name_=name)


def _zoom() -> Html:
    """How many times as wide as the page the bars are; the style knows these values."""
    choices = [tag("option", "%d x" % times, value=times) for times in (1, 2, 4, 8)]
    return tag("select", *choices, name_="zoom")


def _table(bars: List[Bar], data: ReportData, axis: TimeAxis) -> Html:
    head = [tag("th", tag("button", text), scope="col") for text in HEADINGS]
    labels = tag("svg", axis_labels(axis.labels(), 12), class_="axis-labels", aria_hidden="true")
    head.append(tag("th", tag("button", "Start"), labels, scope="col", class_="bar"))
    rows = [_row(bar, axis) for bar in bars]
    return join(
        [_background(data, axis), tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows))]
    )


def _background(data: ReportData, axis: TimeAxis) -> Html:
    """What all bars have behind them: grid lines, and the outages."""
    shapes = []
    for outage in data.outages:
        end = data.now if outage.ended_at is None else outage.ended_at
        shapes.append(
            shape(
                "rect",
                x=axis.x(outage.began_at),
                width=axis.width(outage.began_at, end),
                height="100%",
                class_="band",
            )
        )
    for at in axis.ticks():
        x = axis.x(at)
        shapes.append(shape("line", x1=x, x2=x, y1="0", y2="100%", class_="grid"))
    symbol = tag("defs", tag("g", *shapes, id="behind"))
    return tag("svg", symbol, class_="hidden", aria_hidden="true")


def _row(bar: Bar, axis: TimeAxis) -> Html:
    waited_s = bar.ended_at - bar.began_at
    state = join([tag("i", class_=bar.state), state_text(bar.state)])
    return tag(
        "tr",
        _name_cell(bar.name),
        tag("td", bar.label),
        tag("td", state),
        tag("td", _mean_text(bar.polls)),
        tag("td", _mean_text(bar.faults)),
        tag("td", rounded_duration(waited_s), data_v="%.1f" % waited_s),
        tag("td", _draw(bar, axis), data_v="%.1f" % (bar.began_at - axis.start)),
    )


def _name_cell(name: str) -> Html:
    """The id of a job; a URL keeps its end, where URLs differ."""
    if len(name) <= LONGEST_NAME:
        return tag("th", name)
    shown = clip_id(name, LONGEST_NAME) if is_url(name) else name
    return tag("th", shown, title=name)


def _mean_text(value: float) -> str:
    return "%d" % value if value == int(value) else "%.1f" % value


def _draw(bar: Bar, axis: TimeAxis) -> Html:
    """The parts of the wait one after another, and the end."""
    shapes = [shape("use", href="#behind")]
    if bar.span != (bar.began_at, bar.ended_at):
        start, end = bar.span
        shapes.append(
            shape("line", x1=axis.x(start), x2=axis.x(end), y1="50%", y2="50%", class_="span")
        )
    at = bar.began_at
    words = []
    for (reason, _), seconds in zip(REASONS, bar.slept):
        if seconds >= 0.05:
            words.append("%s %s" % (rounded_duration(seconds), reason))
            x = axis.x(at)
            width = axis.width(at, at + seconds)
            shapes.append(shape("rect", x=x, width=width, class_=reason))
        at += seconds
    title = "%s: %s" % (moment_text(bar.began_at), ", ".join(words))
    end_mark = shape("circle", cx=axis.x(bar.ended_at), class_=bar.state)
    return tag("svg", tag("title", title), *shapes, end_mark)
