"""The figures of a report in a few lines, for `pollkit status`."""

from typing import List, Optional, Sequence

from ...core.learning.durations import point_between
from ...core.units import rounded_duration
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import Minute
from ..report.figures import Loop, Quantiles, outage_seconds, saved_share, saved_text, simulate_loop
from .streams import count_text

SPARKS = "▁▂▃▄▅▆▇█"
RECENT_S = 3600.0
BIN_S = 120.0  # of a sparkline
MOST_SIMULATED_JOBS = 60  # a sample, because status should be quick


class StatusFigures:
    """Computes the figures of a ledger; the costly part once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._loop: Optional[Loop] = None
        self._has_simulated = False

    def lines(self, now: float, is_unicode: bool) -> List[str]:
        """The figures of the finished jobs, and of the last hour; none if nothing was polled."""
        return [line for line in (self._job_line(), self._hour_line(now, is_unicode)) if line]

    def _job_line(self) -> str:
        statistics = self._ledger.statistics
        polls = statistics.polls_per_job()
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
        delays = Quantiles.of_values(statistics.notice_delays())
        if delays is not None:
            text += "; notice delay %s, 95%% within %s" % (
                rounded_duration(delays.median),
                rounded_duration(delays.p95),
            )
        return text

    def _simulate_loop(self) -> Optional[Loop]:
        if not self._has_simulated:
            kinds = self._ledger.statistics.durations_by_kind().values()
            durations = [
                point_between(least_s, most_s, i)
                for bounds in kinds
                for i, (least_s, most_s) in enumerate(bounds)
            ]
            self._loop = simulate_loop(durations, MOST_SIMULATED_JOBS)
            self._has_simulated = True
        return self._loop

    def _hour_line(self, now: float, is_unicode: bool) -> str:
        minutes = self._ledger.statistics.minutes(now - RECENT_S)
        polls = sum(minute.counts.polls for minute in minutes)
        if not polls:
            return ""
        text = "last hour: %s" % count_text(polls, "request")
        if is_unicode:
            text += " " + sparkline(_rates(minutes, now))
        limited = sum(minute.counts.rate_limited for minute in minutes)
        if limited:
            text += ", %d x 429" % limited
        outages = self._ledger.outages(now - RECENT_S)
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
