"""Durations by kind of job: a histogram, the learned curve, and when the pace would poll."""

from typing import List, Sequence, Tuple

from ....core.units import rounded_duration
from ....drivers.simulation.figures import percentile
from ...charts.scales import even_ticks
from ..markup import NOTHING, Html, figure, join, legend, shape, table, tag
from ..plot import EvenAxis, Plot, percent
from ..records import Kind, ReportData

BINS = 24
CURVE_POINTS = 48
UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def durations(data: ReportData) -> Html:
    """One chart for each kind of job."""
    kinds = [kind for kind in data.kinds if any(kind.durations)]
    if not kinds:
        return NOTHING
    return tag(
        "section",
        tag("h2", "Durations"),
        tag(
            "p",
            "How long jobs took from the start of the wait, what the pace has learned from the "
            "latest of them, and when it would poll a new job.",
        ),
        legend(
            ("hist", "finished jobs"),
            ("learned", "still running, as learned (top: all)"),
            ("poll", "polls of a new job"),
        ),
        tag("div", *map(_chart, kinds), class_="multiples"),
    )


def _chart(kind: Kind) -> Html:
    ordered = sorted(kind.durations)
    longest = (percentile(ordered, 0.99) or 1.0) * 1.08
    counts = _histogram(ordered, longest)
    axis = EvenAxis(max(counts) / len(ordered) * 100)
    plot = Plot(axis, height=120)
    for i, count in enumerate(counts):
        x = percent(i / BINS)
        plot.add(plot.bar(x, percent(0.9 / BINS), 100 * count / len(ordered), class_="hist"))
    survival = [
        (i / CURVE_POINTS, axis.ticks()[-1] * kind.curve.survival(i / CURVE_POINTS * longest))
        for i in range(CURVE_POINTS + 1)
    ]
    plot.add(plot.curve(survival, "learned"))
    plot.add(*_poll_marks(plot, kind.poll_ages, longest))
    median = rounded_duration(percentile(ordered, 0.5) or 0.0)
    p90 = rounded_duration(percentile(ordered, 0.9) or 0.0)
    jobs = "1 job" if len(ordered) == 1 else "{:,} jobs".format(len(ordered))
    text = "%s, median %s, 90 %% within %s" % (jobs, median, p90)
    caption = join([tag("b", kind.name), " ", text])
    title = "Durations of %s: %s" % (kind.name, text)
    picture = plot.draw(title, _age_axis(longest), "% of the jobs")
    return figure(caption, picture, _data(kind, counts, longest))


def _histogram(ordered: Sequence[float], longest: float) -> List[int]:
    counts = [0] * BINS
    for duration in ordered:
        counts[min(BINS - 1, int(duration / longest * BINS))] += 1
    return counts


def _poll_marks(plot: Plot, ages: Sequence[float], longest: float) -> List[Html]:
    """A thin line for each poll."""
    marks = []
    for age in ages:
        if age <= longest:
            x = percent(age / longest)
            ends = {"y1": str(plot.bottom + 2), "y2": str(plot.bottom + 9)}
            marks.append(shape("line", x1=x, x2=x, class_="poll", **ends))
    return marks


def _age_axis(longest: float) -> List[Tuple[float, str]]:
    """Ticks at round ages, all in one unit."""
    unit_s, unit = next(pair for pair in UNITS if longest >= 1.5 * pair[0] or pair[0] == 1.0)
    ticks = [tick for tick in even_ticks(longest / unit_s, 4) if tick * unit_s <= longest]
    return [(tick * unit_s / longest, "%g %s" % (tick, unit)) for tick in ticks]


def _data(kind: Kind, counts: Sequence[int], longest: float) -> Html:
    rows = []
    for i, count in enumerate(counts):
        end = (i + 1) / BINS * longest
        polls = sum(i / BINS * longest <= age < end for age in kind.poll_ages)
        running = "%.0f %%" % (100 * kind.curve.survival(end))
        rows.append((rounded_duration(end), count, running, polls))
    headings = ("Finished by", "Jobs", "Still running", "Polls (%s)" % kind.pace)
    return table(headings, rows, "numbers")
