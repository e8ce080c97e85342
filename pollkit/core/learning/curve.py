"""When jobs of one kind finish: the survival function of their durations.

House rules: ages are seconds since the wait began. A Curve is immutable and made from durations
alone; durations.py decides which ones.

Theory. A job that was pending at age x has, by age y, probably been finished for a while. Its
accrued delay is E[(y - T)+ | T > x] = (y - x) - (I(y) - I(x)) / S(x), where S is the survival
function of durations and I its integral. A pace polls when the accrued delay is worth one poll; a
batch that is short of tokens gives the next one to the job with the most accrued delay. Such a
schedule costs at most twice as much as the best one for S, whatever S is.

While nothing is known about a kind of job, S is a heavy-tailed prior: S(t) = (1 + t/s)^-1/2 with
s = 8 s. Then the accrued delay is simply (sqrt(y + s) - sqrt(x + s))^2. With n completions, S is
the mixture (n S_emp + a S_prior) / (n + a) with a = 1/4: one completion weighs four times as much
as the prior.

S_emp connects the sorted durations by straight lines. Each of the n + 1 stretches between them has
the same share of the jobs; the two outermost are as wide as the sqrt(n) stretches next to them are
on average. No job is expected to finish in a gap that is six times as wide as the stretches on
either side (a cache hit takes 2 s, a miss 8 min, and no job 4 min): S_emp is flat there, and each
edge of the gap gets half of its share.
"""

from bisect import bisect_left, bisect_right
from math import sqrt
from typing import List, NamedTuple, Optional, Sequence, Tuple

PRIOR_S = 8.0
PRIOR_WEIGHT = 0.25  # in completions
# When jobs compete for tokens, a short scale of the prior would starve old jobs. Measured with 500
# jobs of five models, 40 jobs and 60 polls per minute, p95 of the notice delay as the mean of three
# seeds: 183 s with a scale of 8 s, 124 s with 300 s, and 119 s if the job that was polled least
# recently comes first. If all jobs are of one kind, all orders are equally good.
RIVAL_PRIOR_S = 300.0
GAP = 6.0  # times the width of the stretches on either side
SIDE = 2  # stretches that a gap needs on either side
_NEWTON_STEPS = 40  # four to eight are enough; the bound is for safety


def accrued_delay(last_age: float, age: float, scale: float = RIVAL_PRIOR_S) -> float:
    """The accrued delay at `age` of a job that was pending at `last_age`, by the prior alone.

    It grows with age, but never faster than age itself.
    """
    return (sqrt(age + scale) - sqrt(last_age + scale)) ** 2


def cold_interval(price: float, age: float) -> float:
    """The delay after a poll at `age` until the next is worth `price`, by the prior alone."""
    # From the closed form: sqrt(y + s) = sqrt(age + s) + sqrt(price).
    return 2 * sqrt(price * (age + PRIOR_S)) + price


class ProgressEstimate(NamedTuple):
    """When one job will finish, judged by its progress: any time between two ages.

    `trust` is the weight of this estimate, from 0 to 1; the past jobs have the rest.
    """

    earliest: float
    latest: float
    trust: float

    def accrued_delay(self, last_age: float, age: float) -> Tuple[float, float]:
        """The accrued delay at `age` of a job that was pending at `last_age`, and its slope."""
        earliest = max(self.earliest, last_age)
        width = self.latest - earliest
        inside = age - earliest
        if inside <= 0.0:
            return 0.0, 0.0
        if inside < width:
            slope = inside / width
            return slope * inside / 2, slope
        return inside - width / 2, 1.0


class Curve:
    """The survival function of durations and its integral."""

    __slots__ = ("count", "_ages", "_heights", "_slopes", "_areas")

    def __init__(self, durations: Sequence[float] = ()) -> None:
        self.count = len(durations)
        knots = _knots(sorted(durations)) if durations else [(0.0, 0.0)]
        self._ages = [age for age, _ in knots]
        self._heights = [height for _, height in knots]
        self._slopes: List[float] = []  # of the line after each knot
        self._areas = [self._ages[0]]  # the integral up to each knot
        for (age, height), (next_age, next_height) in zip(knots, knots[1:]):
            width = next_age - age
            self._slopes.append((next_height - height) / width if width else 0.0)
            self._areas.append(self._areas[-1] + width * (height + next_height) / 2)
        self._slopes.append(0.0)

    def survival(self, age: float) -> float:
        """S: the share of jobs that are still running at an age."""
        return self.at(age)[0]

    def at(self, age: float) -> Tuple[float, float]:
        """S and its integral I at an age; S is above zero everywhere."""
        i = bisect_right(self._ages, age) - 1
        if i < 0:
            height = 1.0
            area = age
        else:
            since = age - self._ages[i]
            knot_height = self._heights[i]
            height = knot_height + since * self._slopes[i]
            area = self._areas[i] + since * (knot_height + height) / 2
        root = sqrt(1.0 + age / PRIOR_S)
        count = self.count
        weight = count + PRIOR_WEIGHT
        survival = (count * height + PRIOR_WEIGHT / root) / weight
        integral = (count * area + PRIOR_WEIGHT * 2 * PRIOR_S * (root - 1.0)) / weight
        return survival, integral

    def quantile(self, age: float) -> float:
        """F: the share of jobs finished at an age, counting half of those that finish just then.

        Inside a gap it is 0 or 1, as if there were only the jobs on the nearer side, by ratio.
        """
        ages = self._ages
        i = bisect_left(ages, age)
        is_at_knot = i < len(ages) and ages[i] == age
        is_inside = 0 < i < len(ages) and not is_at_knot
        if is_inside and not self._slopes[i - 1]:
            return float(age * age < ages[i - 1] * ages[i])
        jump = 0.0
        if is_at_knot:
            jump = self._heights[i] - self._heights[bisect_right(ages, age) - 1]
        return 1.0 - self.survival(age) - jump / 2 * self.count / (self.count + PRIOR_WEIGHT)

    def accrued_delay(self, last_age: float, age: float) -> float:
        """The accrued delay in seconds at `age` of a job that was pending at `last_age`."""
        last_age = max(0.0, last_age)  # a clock may have been set back
        age = max(0.0, age)
        survival, integral = self.at(last_age)
        return (age - last_age) - (self.at(age)[1] - integral) / survival

    def next_delay(
        self,
        last_age: float,
        price: float,
        least: float,
        most: float,
        estimate: Optional[ProgressEstimate] = None,
    ) -> float:
        """The delay from a poll that saw the job pending to the next, from `least` to `most`."""
        last_age = max(0.0, last_age)
        delay = self._delay_worth(last_age, price, least, most, estimate)
        if estimate is None and least < delay < most:
            return self._avoid_gap(last_age, price, least, most, delay)
        return delay

    def _delay_worth(
        self,
        last_age: float,
        price: float,
        least: float,
        most: float,
        estimate: Optional[ProgressEstimate] = None,
    ) -> float:
        """The delay after which the accrued delay is worth `price`.

        Accrued delay is convex, so Newton's method from above never overshoots.
        """
        if estimate is not None and estimate.latest <= last_age:
            estimate = None  # it was wrong
        survival, integral = self.at(last_age)
        delay = most
        for _ in range(_NEWTON_STEPS):
            age = last_age + delay
            later_survival, later_integral = self.at(age)
            accrued = delay - (later_integral - integral) / survival
            slope = 1.0 - later_survival / survival
            if estimate is not None:
                own_accrued, own_slope = estimate.accrued_delay(last_age, age)
                accrued += estimate.trust * (own_accrued - accrued)
                slope += estimate.trust * (own_slope - slope)
            if accrued <= price * 1.0001 or slope <= 0.0:  # no slope: rounding, at ages of years
                break
            delay -= (accrued - price) / slope
            if delay <= least:
                return least
        return delay

    def _avoid_gap(
        self, last_age: float, price: float, least: float, most: float, delay: float
    ) -> float:
        """The delay to the start of a gap, if a poll would fall into the gap.

        It finds the same jobs finished there. Without this, jobs that all take 90 s would be polled
        when the delay is worth a poll, at 91 s, and cost twice as much as needed. But the past jobs
        do not show the exact edge: one job in n + 1 may finish inside the gap, and only the poll
        after that finds it finished. If that costs more than is saved, for example after a cache
        hit, the delay stays.
        """
        ages = self._ages
        i = bisect_right(ages, last_age + delay) - 1
        is_in_gap = i > 0 and not self._slopes[i] and ages[i] > last_age
        if not is_in_gap:
            return delay
        edge = ages[i]
        is_sharp = ages[i - 1] == edge  # many jobs finished just then
        if not is_sharp:
            saved = self.accrued_delay(last_age, last_age + delay)
            saved -= self.accrued_delay(last_age, edge)
            chance = 1 / (self.count + 1) / self.survival(last_age)
            if saved <= chance * self._delay_worth(edge, price, least, most):
                return delay
        return max(least, edge - last_age)

    def age_by(self, share: float) -> float:
        """The age by which a share of the past jobs had finished, without the prior."""
        height = 1.0 - share
        i = 0
        while self._heights[i] > height:  # the last is zero
            i += 1
        slope = self._slopes[i - 1] if i else 0.0
        return self._ages[i] - (self._heights[i] - height) / slope if slope else self._ages[i]


NOTHING_KNOWN = Curve()


def _knots(ages: List[float]) -> List[Tuple[float, float]]:
    """The corners of S_emp as (age, height), from sorted ages; two at one age are a jump."""
    count = len(ages)
    last = count - 1
    reach = min(max(1, int(round(sqrt(count)))), last)  # stretches to average over
    first_width = last_width = ages[0] / 2
    if last:
        first_width = (ages[reach] - ages[0]) / reach
        last_width = (ages[last] - ages[last - reach]) / reach
    share = 1.0 / (count + 1)
    knots = [(max(0.0, ages[0] - first_width), 1.0)]
    for i, age in enumerate(ages):
        height = 1.0 - (i + 1) * share
        knots.append((age, height))
        for edge in _gap_after(ages, i, reach):
            knots.append((edge, height - share / 2))
    knots.append((ages[last] + last_width, 0.0))
    return knots


def _gap_after(ages: List[float], i: int, reach: int) -> Sequence[float]:
    """The two edges of the gap after an age; empty if there is none."""
    last = len(ages) - 1
    if not SIDE <= i < last - SIDE:
        return ()
    age = ages[i]
    next_age = ages[i + 1]
    low = max(i - reach, 0)
    width_before = (age - ages[low]) / (i - low)
    if next_age - age <= GAP * width_before:
        return ()
    high = min(i + 1 + reach, last)
    width_after = (ages[high] - next_age) / (high - i - 1)
    if next_age - age <= GAP * width_after:
        return ()
    return age + width_before, next_age - width_after
