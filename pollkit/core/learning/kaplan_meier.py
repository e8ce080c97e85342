"""The corners of a survival function, estimated from finished and pending jobs.

House rules: the result depends on the ages alone, not on the order in which jobs started, were
polled or finished. Ages are seconds since the wait began, and sorted.

Theory (Kaplan and Meier, 1958). Of jobs that start together the short ones finish first, so the
finished jobs alone are biased. The pending ones are evidence, too: a job that was last seen pending
at age x lasts longer than x. At each finish, the survival function falls by the share
1 / (at risk + 1), where "at risk" counts the jobs that reached that age, finished or pending. If
no job is pending, n durations divide the jobs into n + 1 equal shares.

  * Between two durations the function is a straight line. The first line is as wide as the sqrt(n)
    lines after it are on average.
  * No job is expected to finish in a gap that is six times as wide as the lines on either side (a
    cache hit takes 2 s, a miss 8 min, and no job 4 min): the function is flat there, and each edge
    of the gap gets half of its share.
  * Past the last finish the rest of the jobs follow a tail (1 + t/s)^-1/2, whose hazard begins as
    it was over the last sqrt(n) finishes and then falls. So a job just longer than all others is
    polled as densely as the longest of them, and then ever less densely.

While no job has finished, the prior (curve.py) has the weight of one job: its hazard is divided by
1 + the number of jobs that were seen pending at that age or later. Past the oldest of them it is
undiminished. So a wave of jobs sends only a few of them ahead, which the others follow.
"""

from bisect import bisect_left
from math import sqrt
from typing import List, NamedTuple, Sequence, Tuple

PRIOR_S = 8.0
TAIL_WEIGHT = 0.25  # of the prior's hazard in the tail, in finishes
GAP = 6.0  # times the width of the lines on either side
SIDE = 2  # lines that a gap needs on either side
OLDEST = 30  # pending jobs that count while none has finished: more change next to nothing

Knot = Tuple[float, float]  # an age, and the share of the jobs that still run then


class Corners(NamedTuple):
    """The corners of a survival function; past the last, a tail of this scale.

    Two corners at one age are a jump.
    """

    knots: List[Knot]
    tail_s: float


def corners_of_pending(pending: Sequence[float]) -> Corners:
    """The corners while no job has finished."""
    oldest = pending[-OLDEST:]
    knots = [(0.0, 1.0)]
    for i, age in enumerate(oldest):
        last_age, height = knots[-1]
        at_risk = len(oldest) - i
        # The prior's hazard is the derivative of log sqrt(age + PRIOR_S).
        decay = ((age + PRIOR_S) / (last_age + PRIOR_S)) ** (-0.5 / (1.0 + at_risk))
        knots.append((age, height * decay))
    return Corners(knots, knots[-1][0] + PRIOR_S)


def corners_of(ages: Sequence[float], pending: Sequence[float]) -> Corners:
    """The corners for jobs that finished at these ages, and others last seen pending at those."""
    last = len(ages) - 1
    reach = min(max(1, int(round(sqrt(len(ages))))), last)  # lines to average over
    first_width = ages[0] / 2
    if last:
        first_width = (ages[reach] - ages[0]) / reach
    first = max(0.0, ages[0] - first_width)
    knots = [(first, 1.0)]
    height = 1.0
    share = height / (_at_risk(ages, pending, 0) + 1)
    for i, age in enumerate(ages):
        height -= share
        knots.append((age, height))
        if i < last:
            share = height / (_at_risk(ages, pending, i + 1) + 1)
            for edge in _gap_after(ages, i, reach):
                knots.append((edge, height - share / 2))
    since = ages[last - reach] if last else first
    return Corners(knots, _tail_scale(ages, pending, since, max(1, reach)))


def _at_risk(ages: Sequence[float], pending: Sequence[float], i: int) -> int:
    """The number of jobs that reached the i-th age."""
    return len(ages) - i + len(pending) - bisect_left(pending, ages[i])


def _tail_scale(
    ages: Sequence[float], pending: Sequence[float], since: float, finishes: int
) -> float:
    """The scale of the tail: its hazard is finishes per second of running jobs after `since`."""
    running_s = sum(age - since for age in ages[-1 - finishes :])
    running_s += sum(age - since for age in pending[bisect_left(pending, since) :])
    prior_running_s = 2 * (ages[-1] + PRIOR_S)  # until a finish, by the prior
    hazard = (finishes + TAIL_WEIGHT) / (running_s + TAIL_WEIGHT * prior_running_s)
    return 0.5 / hazard


def _gap_after(ages: Sequence[float], i: int, reach: int) -> Sequence[float]:
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
