"""The cheapest way to look at jobs whose durations are known beforehand: what every pace is held against.

House rules: a schedule is a list of ages, the last of them at or past the longest duration. Its
cost is price x polls + notice delay, in seconds, for the average job.

Theory (Barlow, Hunter and Proschan, 1963). Let V(x) be what is still to be paid by those who were
not done at a look at age x. With S the survival function and I its integral, the next look y
costs each of them one poll, and those who end before y the delay until then:

    V(x) = price S(x) + min over y > x of { (y - x) S(x) - (I(y) - I(x)) + V(y) },   V(last) = 0

Worked out on a grid from the last age backwards. Inside the braces, what depends on y is a line
in S(x), with slope y and intercept V(y) - I(y); so the minimum is the lower envelope of lines that
come with falling slopes and are asked at rising S. Each line is then put in and taken out once at
most: a grid of thousands of ages takes milliseconds.
"""

from bisect import bisect_left
from math import ceil
from typing import Callable, Iterable, List, NamedTuple, Sequence, Tuple


class Optimum(NamedTuple):
    """The best schedule, and what it costs the average job."""

    cost: float
    polls: float
    delay: float
    looks: Tuple[float, ...]


class Grid(NamedTuple):
    """Ages from 0 on, the share of jobs left at each, and the integral of that."""

    ages: List[float]
    left: List[float]
    areas: List[float]

    @classmethod
    def from_survival(cls, survival: Callable[[float], float], ages: Sequence[float]) -> "Grid":
        """From rising ages; whoever outlasts the last ends there."""
        ages = [0.0] + [age for age in ages if age > 0.0]
        left = [survival(age) for age in ages]
        left[0], left[-1] = (
            1.0,
            0.0,
        )  # at first nobody has been looked at, not even a job that took no time
        areas = [0.0]
        for i in range(1, len(ages)):
            areas.append(areas[-1] + (ages[i] - ages[i - 1]) * (left[i] + left[i - 1]) / 2)
        return cls(ages, left, areas)


def optimum(grid: Grid, price: float) -> Optimum:
    """The best schedule among looks at the ages of the grid.

    >>> best = optimum(Grid.from_survival(lambda age: 1.0 if age < 60 else 0.0, [59.999999, 60.0]), price=1.0)
    >>> best.looks, round(best.cost, 3)
    ((60.0,), 1.0)
    """
    cost, following = _solved(grid.ages, grid.left, grid.areas, price)
    looks, polls, i = [], 0.0, 0
    while grid.left[i] > 0.0:
        polls += grid.left[i]
        i = following[i]
        looks.append(grid.ages[i])
    return Optimum(cost, polls, max(0.0, cost - price * polls), tuple(looks))


def _solved(
    ages: List[float], left: List[float], areas: List[float], price: float
) -> Tuple[float, List[int]]:
    """V(0), and for each age of the grid the index of the look that follows."""
    slopes: List[float] = []  # the lower envelope, as far as it has not been passed
    heights: List[float] = []
    owners: List[int] = []
    best, value = 0, 0.0
    following = [0] * len(ages)
    for i in range(len(ages) - 2, -1, -1):
        slope, height = ages[i + 1], value - areas[i + 1]
        # A line that is above its neighbours wherever it could be lowest is of no use.
        while len(slopes) > 1 and (
            (height - heights[-1]) * (slopes[-2] - slopes[-1])
            <= (heights[-1] - heights[-2]) * (slopes[-1] - slope)
        ):
            del slopes[-1], heights[-1], owners[-1]
        slopes.append(slope)
        heights.append(height)
        owners.append(i + 1)
        best = min(best, len(slopes) - 1)
        here = left[i]
        while (
            best < len(slopes) - 1
            and (slopes[best + 1] - slopes[best]) * here + heights[best + 1] <= heights[best]
        ):
            best += 1
        following[i] = owners[best]
        value = (price - ages[i]) * here + areas[i] + slopes[best] * here + heights[best]
    return value, following


def schedule_cost(looks: Sequence[float], durations: Sequence[float], price: float) -> Optimum:
    """What looks at these ages cost jobs that last so long; past the last one they go on as at the end."""
    step = max(price, looks[-1] - looks[-2] if len(looks) > 1 else looks[-1])
    polls, delay = 0, 0.0
    for duration in durations:
        i = bisect_left(looks, duration)
        more = 0 if i < len(looks) else ceil((duration - looks[-1]) / step)
        polls += i + 1 if not more else i + more
        delay += (looks[-1] + more * step if more else looks[i]) - duration
    count = len(durations)
    return Optimum(
        price * polls / count + delay / count, polls / count, delay / count, tuple(looks)
    )


def grid_ages(
    quantile: Callable[[float], float], last: float, marks: Iterable[float], young: int, shares: int
) -> List[float]:
    """Ages for a grid: `young` of them finer early on, `shares` that divide the jobs evenly, and the marks."""
    ages = {last * ((i + 1) / young) ** 2 for i in range(young)}
    ages.update(quantile((i + 0.5) / shares) for i in range(shares))
    ages.update(marks)
    return sorted(age for age in ages if 0.0 < age <= last)
