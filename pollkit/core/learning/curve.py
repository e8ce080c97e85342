"""When jobs of one kind finish: the survival function of their durations.

House rules: ages are seconds since the wait began. A Curve is immutable and made from ages alone;
durations.py decides which ones.

Theory. A job that was pending at age x has, by age y, probably been finished for a while. Its
accrued delay is E[(y - T)+ | T > x] = (y - x) - (I(y) - I(x)) / S(x), where S is the survival
function of durations and I its integral. A pace polls when the accrued delay is worth one poll; a
batch that is short of tokens gives the next one to the job with the most accrued delay. Such a
schedule costs at most twice as much as the best one for S, whatever S is.

While nothing is known about a kind of job, S is a heavy-tailed prior: S(t) = (1 + t/s)^-1/2 with
s = 8 s. Then the accrued delay is simply (sqrt(y + s) - sqrt(x + s))^2. With n completions, S is
the mixture (n S_km + a S_prior) / (n + a) with a = 1/4: one completion weighs four times as much
as the prior. kaplan_meier.py estimates S_km, from pending jobs as well.

If durations vary little compared with the price of a poll, one or two polls per job are enough, and
it matters when exactly they are made. Then cheapest_schedule.py is better than the accrued delay.
Measured with a price of 1 s: 1.03 instead of 1.15 times the optimum for durations with a standard
deviation of 0.2 s, and no difference from 5 s on.
"""

from bisect import bisect_left, bisect_right
from math import sqrt
from typing import Dict, List, Optional, Sequence, Tuple

from ..units import NEVER
from .estimate import Estimate
from .kaplan_meier import PRIOR_S, corners_of, corners_of_pending

PRIOR_WEIGHT = 0.25  # in completions
# When jobs compete for tokens, a short scale of the prior would starve old jobs. Measured with 500
# jobs of five models, 40 jobs and 60 polls per minute, p95 of the notice delay as the mean of three
# seeds: 183 s with a scale of 8 s, 124 s with 300 s, and 119 s if the job that was polled least
# recently comes first. If all jobs are of one kind, all orders are equally good.
RIVAL_PRIOR_S = 300.0
SURE = 0.7  # the trust in an estimate from which on its latest age bounds a delay
# The cheapest schedule is used if the middle nine tenths of at least MANY durations are within
# NARROW times the price. Its grid ends TAIL_SCALES past the longest duration.
MANY = 20
NARROW = 8.0
GRID = 150
TAIL_SCALES = 3.0
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


class Curve:
    """The survival function of durations and its integral.

    `durations` are those of finished jobs; `pending` the ages, sorted, at which other jobs were
    last seen pending.
    """

    __slots__ = (
        "count",
        "_share",
        "_ages",
        "_heights",
        "_slopes",
        "_areas",
        "_tail_s",
        "_width",
        "_plans",
    )

    def __init__(self, durations: Sequence[float] = (), pending: Sequence[float] = ()) -> None:
        self.count = len(durations)
        if durations:
            knots, self._tail_s = corners_of(sorted(durations), pending)
            self._share = self.count / (self.count + PRIOR_WEIGHT)  # the prior has the rest
        else:
            knots, self._tail_s = corners_of_pending(pending)
            self._share = 1.0
        self._ages = [age for age, _ in knots]
        self._heights = [height for _, height in knots]
        self._slopes: List[float] = []  # of the line after each knot
        self._areas = [self._ages[0]]  # the integral up to each knot
        for (age, height), (next_age, next_height) in zip(knots, knots[1:]):
            width = next_age - age
            self._slopes.append((next_height - height) / width if width else 0.0)
            self._areas.append(self._areas[-1] + width * (height + next_height) / 2)
        self._slopes.append(0.0)
        self._width = NEVER  # of the ages between which nine tenths of many jobs finish
        if self.count >= MANY:
            self._width = self.age_by(0.95) - self.age_by(0.05)
        self._plans: Dict[float, Tuple[List[float], List[int]]] = {}  # by price

    def survival(self, age: float) -> float:
        """S: the share of jobs that are still running at an age."""
        return self.at(age)[0]

    def at(self, age: float) -> Tuple[float, float]:
        """S and its integral I at an age; S is above zero everywhere."""
        height, area = self._without_prior(age)
        share = self._share
        if share == 1.0:
            return height, area
        root = sqrt(1.0 + age / PRIOR_S)
        survival = share * height + (1.0 - share) / root
        integral = share * area + (1.0 - share) * 2 * PRIOR_S * (root - 1.0)
        return survival, integral

    def _without_prior(self, age: float) -> Tuple[float, float]:
        i = bisect_right(self._ages, age) - 1
        if i < 0:
            return 1.0, age
        since = age - self._ages[i]
        knot_height = self._heights[i]
        if i < len(self._ages) - 1:
            height = knot_height + since * self._slopes[i]
            return height, self._areas[i] + since * (knot_height + height) / 2
        root = sqrt(1.0 + since / self._tail_s)
        return knot_height / root, self._areas[i] + knot_height * 2 * self._tail_s * (root - 1.0)

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
        return 1.0 - self.survival(age) - jump / 2 * self._share

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
        estimate: Optional[Estimate] = None,
    ) -> float:
        """The delay from a poll that saw the job pending to the next, from `least` to `most`."""
        last_age = max(0.0, last_age)
        if estimate is None:
            planned = self._planned_delay(last_age, price)
            if planned is not None:
                return min(most, max(least, planned))
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
        estimate: Optional[Estimate] = None,
    ) -> float:
        """The delay after which the accrued delay is worth `price`.

        Accrued delay is convex, so Newton's method from above never overshoots.
        """
        if estimate is not None:
            estimate = estimate.after(last_age)
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
        if estimate is not None and estimate.trust >= SURE:
            # By the estimate, a later poll finds no more jobs finished.
            delay = max(least, min(delay, estimate.latest - last_age))
        return delay

    def _planned_delay(self, last_age: float, price: float) -> Optional[float]:
        """The delay to the next poll of the cheapest schedule; None if durations vary too much."""
        is_narrow = self._width < NARROW * price
        if not is_narrow or last_age >= self._ages[-1] + TAIL_SCALES * self._tail_s:
            return None
        ages, next_poll = self._plan(price)
        i = bisect_right(ages, last_age) - 1
        return ages[next_poll[i]] - last_age if i < len(ages) - 1 else None

    def _plan(self, price: float) -> Tuple[List[float], List[int]]:
        """The ages of a grid, and for each the index of the poll that follows."""
        plan = self._plans.get(price)
        if plan is None:
            from .cheapest_schedule import Grid, cheapest_polls  # late: few kinds of job need it

            first = self._ages[0]
            width = self._ages[-1] + TAIL_SCALES * self._tail_s - first
            ages = {first + width * i / GRID for i in range(GRID + 1)}
            ages.update(self._ages)
            grid = Grid.from_survival(self.survival, sorted(ages))
            plan = self._plans[price] = (grid.ages, cheapest_polls(grid, price)[1])
        return plan

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
        """The age by which a share of the past jobs had finished: the longest at most."""
        height = 1.0 - share
        heights = self._heights
        i = 0
        while i < len(heights) - 1 and heights[i] > height:
            i += 1
        slope = self._slopes[i - 1] if i else 0.0
        if not slope or heights[i] > height:
            return self._ages[i]
        return self._ages[i] - (heights[i] - height) / slope


NOTHING_KNOWN = Curve()
