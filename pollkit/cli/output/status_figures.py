"""The figures of a report in a few lines, for `pollkit status`."""

from typing import Iterable, List, Optional, Sequence

from ...core.model import NOTHING_COUNTED, Counts
from ...core.units import rounded_duration
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import Minute
from ..report.figures import Loop, Quantiles, outage_seconds, saved_share, saved_text, simulate_loop
from .streams import count_text

SPARKS = "▁▂▃▄▅▆▇█"
RECENT_S = 3600.0
BIN_S = 120.0  # of a sparkline
MOST_JOBS = 20000  # the latest ones: more would make status slow


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
