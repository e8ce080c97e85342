"""`Figures`: the measurements of one pace in a simulation."""

import math
from typing import Any, Dict, List, NamedTuple, Optional

from ...core.waiting.pace import Pace


class Figures(NamedTuple):
    """The measurements of one pace, in seconds.

    Polls are those of all `jobs`; delays are those of the jobs that were seen to finish. If there
    are none, the delays and the cost are None.
    """

    pace: Pace
    polls_per_job: float
    mean: Optional[float]
    p50: Optional[float]
    p95: Optional[float]
    max: Optional[float]
    rate_limited: int
    timed_out: int
    cost: Optional[float]
    optimum_cost: float
    per_minute: Dict[int, int]  # requests by minute, those of the warm-up included
    jobs: int

    @property
    def cost_ratio(self) -> Optional[float]:
        """The cost divided by that of the optimum.

        None if the pace gave up any job: the optimum never does, so the two don't compare.
        """
        if self.cost is None or self.timed_out:
            return None
        return self.cost / self.optimum_cost

    def as_dict(self) -> Dict[str, Any]:
        """The figures for JSON."""
        return {
            "pace": str(self.pace),
            "polls_per_job": _rounded(self.polls_per_job),
            "notice_delay_s": {
                "mean": _rounded(self.mean),
                "p50": _rounded(self.p50),
                "p95": _rounded(self.p95),
                "max": _rounded(self.max),
            },
            "rate_limited": self.rate_limited,
            "timed_out": self.timed_out,
            "cost": _rounded(self.cost),
            "optimum_cost": _rounded(self.optimum_cost),
            "cost_ratio": _rounded(self.cost_ratio),
        }


def percentile(ordered: List[float], share: float) -> Optional[float]:
    """The value that this share of the ordered values does not exceed; None if there are none."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _rounded(value: Optional[float]) -> Optional[float]:
    return None if value is None else round(value, 3)
