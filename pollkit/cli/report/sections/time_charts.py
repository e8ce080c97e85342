"""Charts over time: the requests per minute against the limit, and the notice delay."""

from typing import Dict, List, NamedTuple, Sequence, Tuple

from ....core.model import NOTHING_COUNTED, Counts, one_line
from ....core.units import rounded_duration
from ....edges.ledger.records import Minute
from ...charts.scales import LogAxis
from ...output.streams import count_text
from ..figures import Quantiles
from ..markup import NOTHING, Html, figure, legend, shape, table, tag
from ..plot import MINUTE_STEPS, EvenAxis, Plot, TimeAxis, moment_text, percent
from ..records import ReportData

MOST_BINS = 96
MOST_CHARTS = 6  # of requests: one for each limit


class Bins(NamedTuple):
    """Periods of equal length from the start of an axis on."""

    axis: TimeAxis
    seconds: float
    first: float  # the start of the first one

    @classmethod
    def along(cls, axis: TimeAxis) -> "Bins":
        """Bins of a round number of minutes."""
        fitting = [step for step in MINUTE_STEPS if axis.span / step <= MOST_BINS]
        seconds = float(min(fitting, default=MINUTE_STEPS[-1]))
        return cls(axis, seconds, axis.start // seconds * seconds)

    def start_of(self, at: float) -> float:
        """The start of the bin of an instant."""
        return self.first + (at - self.first) // self.seconds * self.seconds

    def x_and_width(self, start: float) -> Tuple[str, str]:
        """The position of a bin, with a small gap after it."""
        left = max(0.0, self.axis.share(start))
        right = min(1.0, self.axis.share(start + self.seconds))
        return percent(left), percent(0.86 * (right - left))

    def text(self) -> str:
        """The length of a bin."""
        return rounded_duration(self.seconds)


def request_rate(data: ReportData, axis: TimeAxis) -> Html:
    """The requests per minute of each limit."""
    if data.minutes is None:
        text = "A file of outcomes does not say when each request was sent; a ledger does."
        return tag("section", tag("h2", "Requests per minute"), tag("p", text))
    groups: Dict[str, List[Minute]] = {}
    for minute in data.minutes:
        groups.setdefault(minute.profile or minute.origin or "", []).append(minute)
    names = sorted(groups, key=lambda name: -sum(each.counts.polls for each in groups[name]))
    bins = Bins.along(axis)
    charts = [_request_chart(name, groups[name], data, bins) for name in names[:MOST_CHARTS]]
    note = "" if bins.seconds == 60 else "Each bar is the mean of %s. " % bins.text()
    if data.filters:
        note += "Requests of all labels are counted."
    return tag(
        "section",
        tag("h2", "Requests per minute"),
        tag("p", note) if note else NOTHING,
        legend(
            ("polls", "requests"), ("failed", "429"), ("pause", "other pause"), ("band", "outage")
        ),
        *charts,
    )


def _request_chart(name: str, minutes: Sequence[Minute], data: ReportData, bins: Bins) -> Html:
    limit = data.limits.get(name)
    counts: Dict[float, Counts] = {}
    for minute in minutes:
        start = bins.start_of(minute.at)
        counts[start] = counts.get(start, NOTHING_COUNTED).plus(minute.counts)
    per_bin = bins.seconds / 60
    highest = max((each.polls / per_bin for each in counts.values()), default=0.0)
    plot = Plot(EvenAxis(max(highest, 1.1 * limit.per_minute if limit else 0.0)))
    plot.add(*_outage_bands(plot, data, bins.axis))
    for start, each in counts.items():
        plot.add(_request_bar(plot, bins, start, each))
    if limit is not None:
        plot.add(plot.rule(limit.per_minute, limit.text))
    total = sum(minute.counts.polls for minute in minutes)
    busiest = max((minute.counts.polls for minute in minutes), default=0)
    name_text = one_line(name or "all", 60)
    title = "%s: %s requests, at most %d in a minute" % (name_text, "{:,}".format(total), busiest)
    rows = [
        (moment_text(start), each.polls, "%.1f" % (each.polls / per_bin), *each[1:])
        for start, each in sorted(counts.items())
    ]
    headings = ("From (UTC)", "Requests", "Per minute", "Faults", "429", "Pauses")
    picture = plot.draw(title, bins.axis.labels(), "per minute")
    return figure(title, picture, table(headings, rows, "numbers"))


def _request_bar(plot: Plot, bins: Bins, start: float, counts: Counts) -> Html:
    per_bin = bins.seconds / 60
    x, width = bins.x_and_width(start)
    text = "%s: %d requests, %d x 429, %d pauses" % (
        moment_text(start),
        counts.polls,
        counts.rate_limited,
        counts.pauses,
    )
    marks = [tag("title", text), plot.bar(x, width, counts.polls / per_bin, class_="polls")]
    if counts.rate_limited:
        marks.append(plot.mark(x, width, "failed"))
    elif counts.pauses:
        marks.append(plot.mark(x, width, "pause"))
    return tag("g", *marks)


def _outage_bands(plot: Plot, data: ReportData, axis: TimeAxis) -> List[Html]:
    bands = []
    for outage in data.outages:
        end = data.now if outage.ended_at is None else outage.ended_at
        title = "%s was down for %s: %s" % (
            one_line(outage.origin, 100),
            rounded_duration(end - outage.began_at),
            one_line(outage.last_fault, 200),
        )
        x = axis.x(outage.began_at)
        bands.append(plot.band(x, axis.width(outage.began_at, end), title))
    return bands


def notice_delay(data: ReportData, axis: TimeAxis) -> Html:
    """The notice delays of the jobs that finished in each period."""
    bins = Bins.along(axis)
    delays: Dict[float, List[float]] = {}
    for job in data.jobs:
        if job.ended_at is not None and job.notice_delay_s is not None:
            delays.setdefault(bins.start_of(job.ended_at), []).append(job.notice_delay_s)
    if not delays:
        return NOTHING
    found = {start: Quantiles.of_values(values) for start, values in delays.items()}
    values = [value for each in found.values() if each is not None for value in each[:2]]
    plot = Plot(LogAxis.around(values))
    plot.add(*_outage_bands(plot, data, axis))
    rows = []
    for start, each in sorted(found.items()):
        if each is not None:
            count = len(delays[start])
            plot.add(_delay_mark(plot, bins, start, each, count))
            texts = (rounded_duration(each.median), rounded_duration(each.p95))
            rows.append((moment_text(start), count, *texts))
    title = "Seconds from the end of a job to the poll that noticed it"
    headings = ("From (UTC)", "Jobs", "Median", "95 % within")
    picture = plot.draw(title, axis.labels(), "seconds")
    return tag(
        "section",
        tag("h2", "Notice delay"),
        tag(
            "p",
            "%s, for the jobs that finished in each %s; on a logarithmic scale."
            % (title, bins.text()),
        ),
        legend(("median", "median"), ("p95", "up to the 95th percentile"), ("band", "outage")),
        figure("", picture, table(headings, rows, "numbers")),
    )


def _delay_mark(plot: Plot, bins: Bins, start: float, found: Quantiles, jobs: int) -> Html:
    middle = percent(bins.axis.share(start + bins.seconds / 2))
    low = "%g" % plot.y(found.median)
    text = "%s: %s, median %s, 95 %% within %s" % (
        moment_text(start),
        count_text(jobs, "job"),
        rounded_duration(found.median),
        rounded_duration(found.p95),
    )
    line = shape("line", x1=middle, x2=middle, y1=low, y2="%g" % plot.y(found.p95), class_="p95")
    dot = shape("circle", cx=middle, cy=low, r="3", class_="median")
    return tag("g", tag("title", text), line, dot)
