"""Failures in the API's own words, faults by kind, and outages."""

from collections import Counter
from typing import Dict, List, Tuple

from ....core.model import State, one_line
from ....core.units import rounded_duration
from ..markup import NOTHING, Content, Html, join, shape, table, tag
from ..plot import moment_text, percent
from ..records import ReportData, ReportJob
from .headline import state_text

MOST_FAILURES = 50  # different ones
MOST_OUTAGES = 50


def problems(data: ReportData) -> Html:
    """The section with all that went wrong."""
    parts = [_failures(data), _faults(data), _outages(data)]
    if not any(parts):
        parts = [tag("p", "Every finished job is done, and no poll met a fault.")]
    return tag("section", tag("h2", "Problems"), *parts)


def _failures(data: ReportData) -> Html:
    """The jobs that are not done, by state and error."""
    groups: Dict[Tuple[str, str, str], List[ReportJob]] = {}
    for job in data.jobs:
        if job.ended_at is not None and job.state != State.DONE.value:
            key = (job.state, job.error_code, job.error_message)
            groups.setdefault(key, []).append(job)
    if not groups:
        return NOTHING
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    rows: List[Tuple[Content, ...]] = []
    for (state, code, message), jobs in ordered[:MOST_FAILURES]:
        label = Counter(job.label for job in jobs).most_common(1)[0][0]
        what = join([tag("b", code), " ", message]) if code else message or "no reason given"
        mark = join([tag("i", class_=state), state_text(state)])
        rows.append((len(jobs), mark, what, label, jobs[0].id))
    more = len(groups) - len(rows)
    note = tag("p", "%d more kinds of failures are not shown." % more) if more else NOTHING
    headings = ("Jobs", "State", "Error", "Label", "For example")
    return join([tag("h3", "Failures"), _scroll(table(headings, rows)), note])


def _faults(data: ReportData) -> Html:
    """The polls that met a fault, by kind; only their number if the kinds are not known."""
    total = sum(job.faults for job in data.jobs)
    if not data.fault_kinds:
        if not total:
            return NOTHING
        text = "{:,} polls met a fault; which ones, only a ledger records.".format(total)
        return join([tag("h3", "Faults"), tag("p", text)])
    most = max(data.fault_kinds.values())
    rows: List[Tuple[Content, ...]] = []
    for kind, count in sorted(data.fault_kinds.items(), key=lambda item: -item[1]):
        bar = shape("rect", width=percent(count / most), height="100%", class_="fault")
        picture = tag("svg", bar, class_="share", aria_hidden="true")
        rows.append(("{:,}".format(count), kind, picture))
    return join([tag("h3", "Faults by kind"), _scroll(table(("Polls", "Kind", ""), rows))])


def _outages(data: ReportData) -> Html:
    if not data.outages:
        return NOTHING
    rows = []
    for outage in data.outages[-MOST_OUTAGES:]:
        end = data.now if outage.ended_at is None else outage.ended_at
        length = rounded_duration(end - outage.began_at)
        if outage.ended_at is None:
            length += " so far"
        rows.append(
            (
                length,
                moment_text(outage.began_at),
                one_line(outage.origin, 100),
                one_line(outage.last_fault, 200),
            )
        )
    headings = ("Length", "From (UTC)", "Server", "Last fault")
    return join([tag("h3", "Outages"), _scroll(table(headings, rows))])


def _scroll(content: Html) -> Html:
    return tag("div", content, class_="scroll")
