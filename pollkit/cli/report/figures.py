"""The headline figures of a report; `pollkit status` shows the same ones."""

from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Sequence

from ...core.model import State
from ...core.scheduling.outages import Outage
from ...drivers.simulation.figures import percentile

LOOP = "fixed 30s"  # the loop that people write themselves
LOOP_S = 30.0
MOST_SIMULATED_JOBS = 100  # status should be quick
MOST_SIMULATED_POLLS = 20000.0  # they take about half a second


class Loop(NamedTuple):
    """How a loop that polls every 30 s would do with the same jobs."""

    polls_per_job: float
    mean_delay_s: float


class Quantiles(NamedTuple):
    """The median, the 95th percentile and the mean of values."""

    median: float
    p95: float
    mean: float

    @classmethod
    def of_values(cls, values: Sequence[float]) -> "Optional[Quantiles]":
        """The quantiles of values; None if there are none."""
        ordered = sorted(values)
        median = percentile(ordered, 0.5)
        p95 = percentile(ordered, 0.95)
        if median is None or p95 is None:
            return None
        return cls(median, p95, sum(ordered) / len(ordered))


def simulate_loop(durations: Sequence[float]) -> Optional[Loop]:
    """Simulate the loop with a sample of these durations; None if there are none."""
    from ...drivers.simulation.simulation import Simulation  # late: status may not need it

    sample = _sample([duration for duration in durations if duration > 0])
    if not sample:
        return None
    found = Simulation(durations=sample, jobs=len(sample), arrive="every 1m").run(LOOP)
    return None if found.mean is None else Loop(found.polls_per_job, found.mean)


def _sample(durations: List[float]) -> List[float]:
    """Every n-th duration by length, so that a simulation makes few polls."""
    polls = sum(durations) / LOOP_S + len(durations)
    step = max(-(-len(durations) // MOST_SIMULATED_JOBS), int(polls / MOST_SIMULATED_POLLS), 1)
    return sorted(durations)[step // 2 :: step]


def saved_share(loop: Loop, polls_per_job: float) -> float:
    """The share of the loop's polls that were saved; negative if more were made."""
    return 1.0 - polls_per_job / loop.polls_per_job


def saved_text(share: float) -> str:
    """The share of polls that were saved, for people.

    >>> saved_text(0.25), saved_text(-0.25)
    ('25% saved', '25% more')
    """
    percentage = round(100 * share)
    return "%d%% %s" % (abs(percentage), "more" if percentage < 0 else "saved")


def outage_seconds(outages: Sequence[Outage], now: float) -> float:
    """The length of all outages together."""
    ends = [now if outage.ended_at is None else outage.ended_at for outage in outages]
    return sum(end - outage.began_at for end, outage in zip(ends, outages))


def state_counts(states: Sequence[str]) -> Dict[str, int]:
    """The number of jobs in each state that occurs, finished states first."""
    counts = Counter(states)
    finished = [state.value for state in State if state.value in counts]
    others = sorted(set(counts).difference(finished))
    return {state: counts[state] for state in finished + others}
