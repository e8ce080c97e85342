"""Compare `adaptive` with another pace on equal terms: at a price that gives as many polls."""

import math
from typing import Optional

from ...core.waiting.pace import Adaptive
from .figures import Figures
from .run import OnPoll
from .simulation import Simulation

MANY_JOBS = 2000  # one attempt takes seconds from here on
ATTEMPTS = 5
LEAST_SHARE = 0.97  # stop if adaptive makes at least this share of the rival's polls
TARGET_SHARE = 0.985
TARGET_SHARE_AT_ONCE = 0.94  # with a single attempt, to be on the safe side


def match_adaptive(
    simulation: Simulation, rival: Figures, on_poll: Optional[OnPoll] = None
) -> Optional[Figures]:
    """`adaptive` at a price that gives nearly as many polls as the rival makes, but no more.

    None if there is no such price. With equal polls, the pace with the shorter notice delay is
    better, whatever a poll is worth.
    """
    if rival.timed_out:
        return None
    has_many_jobs = simulation.count > MANY_JOBS
    target_share = TARGET_SHARE_AT_ONCE if has_many_jobs else TARGET_SHARE
    price = _price_for(simulation, target_share * rival.polls_per_job)
    if price is None:
        return None
    best = None
    for _ in range(1 if has_many_jobs else ATTEMPTS):
        found = simulation.run(Adaptive(price=float("%.2g" % price)), on_poll)
        ratio = found.polls_per_job / rival.polls_per_job
        is_closer = best is None or found.polls_per_job > best.polls_per_job
        if ratio <= 1.0 and not found.timed_out and is_closer:
            best = found
        if LEAST_SHARE <= ratio <= 1.0:
            break
        price *= (ratio / TARGET_SHARE) ** 2  # the polls are proportional to 1 / sqrt(price)
    return best


def _price_for(simulation: Simulation, polls: float) -> Optional[float]:
    """The price at which the optimum makes so many polls per job, interpolated on log scales."""
    frontier = simulation.frontier
    for (low, more), (high, fewer) in zip(frontier, frontier[1:]):
        if more.polls >= polls > fewer.polls:
            share = math.log(more.polls / polls) / math.log(more.polls / fewer.polls)
            price: float = low * (high / low) ** share
            return price
    return None
