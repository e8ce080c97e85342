"""Whether durations have changed, judged by the jobs that started last.

House rules: jobs are compared in the order of their starts. The order in which they finish says
nothing: of jobs that start together, the short ones finish first.

Theory. u = F(T), with the F of earlier jobs, is evenly distributed on [0, 1] while nothing changes.
A finished job shows its u. A pending job shows that its u is above p = F(age); then (1 + p) / 2 is
expected of it. Such an expectation changes with every poll, but on average neither up nor down (it
is a martingale). So the sum of u - 1/2 over any jobs chosen by their starts is zero on average,
however many of them are still pending. Its variance is 1/12 for a finished job, and the share
1 - (1 - p)^3 of that for a pending one; this share is the weight of the job's evidence.

Durations have changed if the mean u - 1/2 of the last jobs is too far from zero: almost 1/2 for a
weight of 4, or 0.29 for a weight of 12. They have also changed if u jumps from edge to edge,
because there are now two kinds of job, one on either side of the earlier durations: then the mean
of (2u - 1)^2, which is 1/3 while nothing changes, is almost 1.
"""

from typing import Iterable, NamedTuple

from .curve import Curve

# By chance, each of the bounds of a row is exceeded by one row in 100,000.
ROW = 4.0  # the weight of a short row of jobs
ROW_OFF_CENTRE = 0.4725
ROW_OFF_THIRD = 0.945 - 1 / 3
WINDOW = 12.0
OFF_CENTRE = 0.29
_ROUNDING = 1e-9


class Observation(NamedTuple):
    """One job: how long it took, or at which age it was last seen pending."""

    age: float
    is_finished: bool


def count_changed(newest_first: Iterable[Observation], earlier: Curve) -> int:
    """The number of finished jobs, from the newest on, that show a change; 0 if none do."""
    finished = 0
    weight = 0.0
    off_centre = 0.0
    off_third = 0.0
    is_row_full = False
    for age, is_finished in newest_first:
        if is_finished:
            finished += 1
            weight += 1.0
            quantile = earlier.quantile(age)
            off_centre += quantile - 0.5
            off_third += (2 * quantile - 1) ** 2 - 1 / 3
        else:
            left = earlier.survival(age)
            weight += 1.0 - left**3
            off_centre += (1.0 - left) / 2
            off_third += (1.0 - (1.0 - 2 * left) ** 3) / (6 * left) - 1 / 3
        if not is_row_full and weight >= ROW - _ROUNDING:
            is_row_full = True
            is_at_one_edge = abs(off_centre) > ROW_OFF_CENTRE * weight
            is_at_edges = off_third > ROW_OFF_THIRD * weight
            if is_at_one_edge or is_at_edges:
                return finished
        if weight >= WINDOW - _ROUNDING:
            return finished if abs(off_centre) > OFF_CENTRE * weight else 0
    return 0
