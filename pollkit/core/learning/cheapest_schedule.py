"""The cheapest polling schedule for a known survival function.

House rules: ages are seconds since the wait began. The cost of a job is price x polls + notice
delay, in seconds.

Theory (Barlow, Hunter and Proschan, 1963). Let S be the survival function, I its integral, and
V(x) the expected remaining cost, summed over the jobs that still run after the poll at age x.
The next poll, at age y, costs each of these jobs the price, and those that finish before y also
the delay until y:

    V(x) = price S(x) + min over y > x of { (y - x) S(x) - (I(y) - I(x)) + V(y) },   V(last) = 0

We solve this on a grid of ages, from the last age backwards. Inside the braces, the terms that
depend on y form a line in S(x), with slope y and intercept V(y) - I(y). The minimum is therefore
the lower envelope of these lines. They arrive with falling slopes, and we evaluate the envelope at
rising S, so each line is added and removed at most once: a grid of thousands of ages takes
milliseconds.

If the server holds each poll for up to h seconds, the jobs that finish between y and y + h have no
delay, and the state after the poll is y + h: V(y + h) replaces V(y), and y may be x itself.
"""

from bisect import bisect_right
from typing import Callable, List, NamedTuple, Sequence, Tuple


class Grid(NamedTuple):
    """Ages from 0 on; the share of jobs that still run at each; the integral of that share."""

    ages: List[float]
    survival: List[float]
    integral: List[float]

    @classmethod
    def from_survival(cls, survival: Callable[[float], float], ages: Sequence[float]) -> "Grid":
        """From rising ages; jobs that outlast the last age count as finished there."""
        ages = [0.0] + [age for age in ages if age > 0.0]
        values = [survival(age) for age in ages]
        values[0] = 1.0  # even a job that takes no time has to be polled once
        values[-1] = 0.0
        integral = [0.0]
        for i in range(1, len(ages)):
            mean = (values[i] + values[i - 1]) / 2
            integral.append(integral[-1] + (ages[i] - ages[i - 1]) * mean)
        return cls(ages, values, integral)


def cheapest_polls(grid: Grid, price: float, hold_s: float = 0.0) -> Tuple[float, List[int]]:
    """The lowest cost, V(0), and for each index of the grid the index of the poll that follows.

    Polls are held for `hold_s`.
    """
    ages, survival, integral = grid
    # The lower envelope, apart from the lines that rising S has passed.
    slopes: List[float] = []
    intercepts: List[float] = []
    indices: List[int] = []
    lowest = 0
    values = [0.0] * len(ages)
    next_poll = [0] * len(ages)
    for i in range(len(ages) - 2, -1, -1):
        new = i if hold_s else i + 1
        slope = ages[new]
        value = values[new]
        if hold_s:
            value = _value_at(ages, values, max(ages[i + 1], ages[i] + hold_s))
        intercept = value - integral[new]
        # Remove lines that the new one and their other neighbour undercut everywhere.
        while len(slopes) > 1 and (
            (intercept - intercepts[-1]) * (slopes[-2] - slopes[-1])
            <= (intercepts[-1] - intercepts[-2]) * (slopes[-1] - slope)
        ):
            del slopes[-1], intercepts[-1], indices[-1]
        slopes.append(slope)
        intercepts.append(intercept)
        indices.append(new)
        lowest = min(lowest, len(slopes) - 1)
        here = survival[i]
        while (
            lowest < len(slopes) - 1
            and (slopes[lowest + 1] - slopes[lowest]) * here + intercepts[lowest + 1]
            <= intercepts[lowest]
        ):
            lowest += 1
        next_poll[i] = indices[lowest]
        rest = slopes[lowest] * here + intercepts[lowest]
        values[i] = (price - ages[i]) * here + integral[i] + rest
    return values[0], next_poll


def _value_at(ages: Sequence[float], values: Sequence[float], age: float) -> float:
    """V at any age, between two ages of the grid in a straight line."""
    i = bisect_right(ages, age) - 1
    if i >= len(ages) - 1:
        return 0.0
    share = (age - ages[i]) / (ages[i + 1] - ages[i])
    return values[i] + share * (values[i + 1] - values[i])
