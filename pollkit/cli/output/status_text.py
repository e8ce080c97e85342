"""The text of `pollkit status`: outages, counts, figures, and a table of jobs."""

import textwrap
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ...core.model import NOTHING_COUNTED, Counts, State, one_line
from ...core.scheduling.outages import Outage
from ...core.snapshot import is_last_poll_fault
from ...core.submitting.intent import Stage
from ...core.units import NEVER, duration_text, percent, rounded_duration
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import JobRow, Minute, Summary
from ..arguments.job_deadlines import Deadlines, time_text
from ..progress.terminal import clip_id
from ..report.figures import Loop, Quantiles, outage_seconds, saved_share, saved_text, simulate_loop
from .streams import count_text
from .tables import EMPTY, Column, fit_table

WIDEST_CELL = 60
WIDEST_PROBLEM = 200
MOST_LIMITS = 5  # that are shown with a line each
MOST_OUTAGES = 5  # that are shown with a line each
SPARKS = "▁▂▃▄▅▆▇█"
RECENT_S = 3600.0
BIN_S = 120.0  # of a sparkline
MOST_JOBS = 20000  # the latest ones: more would make status slow
COLUMNS = (
    Column("ID", 0, 12, clip_id),
    Column("STATE", 0),
    Column("STATUS", 4, 8),
    Column("PROGRESS", 7),
    Column("POLLS", 9),
    Column("FAULTS", 8),
    Column("NEXT POLL", 2),
    Column("DEADLINE", 5),
    Column("ENDED", 6),
    Column("NOTIFIED", 3),
    Column("PROBLEM", 1, 16),
)


def headline(
    summary: Summary,
    outages: Sequence[Outage],
    now: float,
    width: Optional[int] = None,
    shadow_prices: Mapping[str, float] = {},
) -> List[str]:
    """The lines before the table: one for each outage and each limit that delays polls; counts."""
    lines = [_outage_text(outage, now) for outage in outages[:MOST_OUTAGES]]
    if len(outages) > MOST_OUTAGES:
        lines.append("%d more are down" % (len(outages) - MOST_OUTAGES))
    has_unfinished_jobs = summary.oldest_s is not None
    if has_unfinished_jobs:  # otherwise the limits delayed polls, but do no more
        dearest_first = sorted(shadow_prices, key=lambda name: -shadow_prices[name])
        lines += [_limit_text(name, shadow_prices[name]) for name in dearest_first[:MOST_LIMITS]]
    lines.append(_summary_text(summary))
    return wrap_lines(lines, width)


def wrap_lines(lines: List[str], width: Optional[int]) -> List[str]:
    """Lines that fit into this width, if there is one."""
    if width is None:
        return lines
    return [part for line in lines for part in textwrap.wrap(line, max(20, width))]


def _outage_text(outage: Outage, now: float) -> str:
    text = "%s has been down for %s" % (
        one_line(outage.origin, 200),
        age_text(now - outage.began_at),
    )
    text += ", since %s: %s" % (time_text(outage.began_at), one_line(outage.last_fault, 200))
    if outage.next_probe_at > now:
        text += "; next try in " + age_text(outage.next_probe_at - now)
    return text


def _limit_text(name: str, shadow_price: float) -> str:
    return (
        "the rate limit of %s delays polls: one more request per minute would save about %s of "
        "notice delay per minute" % (one_line(name, 200), rounded_duration(shadow_price))
    )


def _summary_text(summary: Summary) -> str:
    counts = ["%d %s" % (number, state) for state, number in summary.states.items() if number]
    parts = [", ".join(counts) or "no jobs"]
    if summary.oldest_s is not None:
        parts.append("the oldest has waited for %s" % age_text(summary.oldest_s))
    if summary.faulty:
        parts.append("%s with a fault" % count_text(summary.faulty, "job"))
    notifications = {
        "pending": summary.pending_notifications,
        "given up": summary.gave_up_notifying,
    }
    for state, number in notifications.items():
        if number:
            parts.append("%s %s" % (count_text(number, "notification"), state))
    return "; ".join(parts)


def job_table(cells: Sequence[Tuple[str, ...]], width: Optional[int] = None) -> List[str]:
    """The lines of the table, from the cells of each job."""
    return fit_table(COLUMNS, cells, width)


def job_cells(
    row: JobRow, outages: Sequence[Outage], deadlines: Deadlines, now: float
) -> Tuple[str, ...]:
    """One text for each of COLUMNS."""
    progress = job_progress(row)
    fraction = progress["progress"]
    return (
        clip_id(one_line(row.job.id), WIDEST_CELL),
        row.state,
        _truncate(progress["status"]) or EMPTY,
        EMPTY if fraction is None else "%d%%" % percent(fraction),
        str(progress["polls"]),
        str(progress["faults"] or EMPTY),
        _time_left(next_poll_at(row, outages), now),
        _time_left(job_deadline(row, deadlines), now),
        EMPTY if row.ended_at is None else age_text(now - row.ended_at) + " ago",
        _notified_text(row),
        _truncate(_problem_text(row, progress), WIDEST_PROBLEM) or EMPTY,
    )


def job_progress(row: JobRow) -> Dict[str, Any]:
    """Status, progress, polls, faults and error of a job, whether it has finished or not."""
    if row.outcome is not None:
        fields = ("status", "progress", "polls", "faults", "error")
        return {field: row.outcome.get(field) for field in fields}
    return {
        "status": row.progress.get("status") or _submission_text(row),
        "progress": row.progress.get("fraction"),
        "polls": row.progress.get("polls", 0),
        "faults": row.faults,
        "error": None,
    }


def _submission_text(row: JobRow) -> Optional[str]:
    """The status of a job that is still to be submitted; None for any other job."""
    if row.submission is None:
        return None
    is_unsent = row.submission.stage is Stage.WRITTEN
    return "not submitted" if is_unsent else "perhaps submitted"


def next_poll_at(row: JobRow, outages: Sequence[Outage]) -> Optional[float]:
    """When the job is polled next; None if it has finished.

    If its origin is down, that is not before the next probe; and after a fault not later, because
    the outage sets the pace.
    """
    if row.ended_at is not None or row.due_at is None:
        return None
    probes_at = [outage.next_probe_at for outage in outages if outage.origin == row.origin]
    if probes_at and last_poll_failed(row):
        return max(probes_at)
    return max([row.due_at, *probes_at])


def job_deadline(row: JobRow, deadlines: Deadlines) -> Optional[float]:
    """When the job times out; None if it has finished, or never times out."""
    if row.ended_at is not None or row.deadline is not None:
        return row.deadline
    was_polled = bool(row.progress)
    if was_polled:
        return None
    deadline = deadlines.deadline(row.job, row.added_at)
    return None if deadline == NEVER else deadline


def last_poll_failed(row: JobRow) -> bool:
    """Whether the job has not finished, and its last request was a fault."""
    if row.submission is not None and row.ended_at is None:
        return row.submission.faults > 0
    return is_last_poll_fault(row.progress)


def _problem_text(row: JobRow, progress: Dict[str, Any]) -> str:
    """The fault of the last poll, the error of the job, or that of its notification."""
    problems = []
    error = progress["error"]
    if error and row.state != State.DONE.value:
        problems.append(str(error.get("message") or error.get("code") or ""))
    if last_poll_failed(row) and row.last_fault is not None:
        problems.append(row.last_fault)
    if row.notify_error and row.notified_at is None:
        text = "notification failed (attempt %d): %s" % (row.notify_attempts, row.notify_error)
        problems.append(text)
    return "; ".join(filter(None, problems))


def _notified_text(row: JobRow) -> str:
    if row.ended_at is None:
        return EMPTY
    if row.notified_at is not None:
        return "yes"
    return "gave up" if row.gave_up_notifying else "pending"


def _time_left(at: Optional[float], now: float) -> str:
    if at is None:
        return EMPTY
    return "now" if at <= now else "in " + age_text(at - now)


def age_text(age_s: float) -> str:
    """A rounded duration: days, or the two largest units."""
    age_s = max(0.0, age_s)
    if age_s >= 2 * 86400:
        return "%dd" % (age_s // 86400)
    unit_s = 60 if age_s >= 3600 else 1
    return duration_text(float(round(age_s / unit_s) * unit_s))


def _truncate(text: Optional[str], widest: int = WIDEST_CELL) -> str:
    return one_line(text or "", widest)


class StatusFigures:
    """Computes the figures of a ledger; the costly part once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._loop: Optional[Loop] = None
        self._has_simulated = False

    def lines(self, now: float, is_unicode: bool) -> List[str]:
        """The figures of the finished jobs, of all requests, and of the last hour, if any."""
        since = now - RECENT_S
        minutes = self._ledger.statistics.minutes(since)
        recent = self._requests_text((minute.counts for minute in minutes), now, since)
        in_all = self._requests_text(self._ledger.statistics.totals().values(), now, 0.0)
        lines = [self._job_line()]
        if in_all and in_all != recent:
            lines.append("in all: " + in_all)
        if recent:
            sparks = " " + sparkline(_rates(minutes, now)) if is_unicode else ""
            lines.append("last hour: %s%s" % (recent, sparks))
        return [line for line in lines if line]

    def _job_line(self) -> str:
        statistics = self._ledger.statistics
        polls = statistics.polls_per_job(MOST_JOBS)
        if not polls:
            return ""
        mean_polls = sum(polls) / len(polls)
        text = "%.1f polls per job" % mean_polls
        loop = self._simulate_loop()
        if loop is not None:
            text += " (%.1f in a fixed 30s loop: %s)" % (
                loop.polls_per_job,
                saved_text(saved_share(loop, mean_polls)),
            )
        delays = Quantiles.of_values(statistics.notice_delays(MOST_JOBS))
        if delays is not None:
            text += "; notice delay %s, 95%% within %s" % (
                rounded_duration(delays.median),
                rounded_duration(delays.p95),
            )
        return text

    def _simulate_loop(self) -> Optional[Loop]:
        if not self._has_simulated:
            durations = self._ledger.statistics.durations_of_done_jobs(MOST_JOBS)
            self._loop = simulate_loop(durations)
            self._has_simulated = True
        return self._loop

    def _requests_text(self, counts: Iterable[Counts], now: float, since: float) -> str:
        found = NOTHING_COUNTED
        for each in counts:
            found = found.plus(each)
        if not found.polls:
            return ""
        text = count_text(found.polls, "request")
        if found.rate_limited:
            text += ", %d x 429" % found.rate_limited
        outages = self._ledger.outages(since)
        if outages:
            length = rounded_duration(outage_seconds(outages, now))
            text += "; %s of %s" % (count_text(len(outages), "outage"), length)
        return text


def _rates(minutes: Sequence[Minute], now: float) -> List[int]:
    """The requests in each bin of the last hour."""
    rates = [0] * int(RECENT_S / BIN_S)
    first = now - RECENT_S
    for minute in minutes:
        index = int((minute.at - first) / BIN_S)
        rates[min(max(0, index), len(rates) - 1)] += minute.counts.polls
    return rates


def sparkline(values: Sequence[float]) -> str:
    """One character per value: its height compared with the highest.

    >>> sparkline([0, 1, 4, 8])
    '▁▂▅█'
    """
    highest = max(values) or 1.0
    return "".join(SPARKS[int(value / highest * (len(SPARKS) - 1) + 0.5)] for value in values)
