"""The cheapest polling schedule for jobs whose distribution of durations is known.

Every pace is compared with this optimum.

House rules: a schedule is a rising list of ages, the last of them at or past the longest
duration. Its cost is price x polls + notice delay, in seconds, for the average job. If the server
holds polls for `hold_s`, the ages are those at which they begin.

core/learning/cheapest_schedule.py has the theory.
"""

import functools
from bisect import bisect_left, bisect_right
from math import ceil
from typing import Callable, Iterable, List, NamedTuple, Sequence, Tuple, Union

from ...core.learning.cheapest_schedule import Grid, cheapest_polls
from ...core.learning.curve import Curve
from ...core.learning.durations import GOLDEN
from .distributions import (
    JUST_BEFORE,
    TAIL,
    Distribution,
    Either,
    Lognormal,
    Measured,
    Uniform,
    ages_at_jumps,
)

# Grid sizes as (ages that are denser early, quantiles).
FINE = (4000, 1000)  # for figures
ROUGH = (900, 200)  # for charts
FEWEST_DURATIONS = 20  # a shorter list can't be split in two halves that mean something
MOST_DURATIONS = 2000  # of a longer list we use so many quantiles
SAMPLE_GRID = 1500  # ages of the grid for a sample
BEYOND_LONGEST = 1.25  # a sample's grid extends so far past its longest duration


class Optimum(NamedTuple):
    """A schedule and its cost for the average job."""

    cost: float
    polls: float
    delay: float
    poll_ages: Tuple[float, ...]


def optimum(grid: Grid, price: float, hold_s: float = 0.0) -> Optimum:
    """The cheapest schedule that polls at ages of the grid.

    >>> grid = Grid.from_survival(lambda age: 1.0 if age < 60 else 0.0, [59.999999, 60.0])
    >>> best = optimum(grid, price=1.0)
    >>> best.poll_ages, round(best.cost, 3)
    ((60.0,), 1.0)
    """
    cost, next_poll = cheapest_polls(grid, price, hold_s)
    poll_ages = []
    polls = 0.0
    i = 0
    while grid.survival[i] > 0.0:
        polls += grid.survival[i]
        begin = next_poll[i]
        poll_ages.append(grid.ages[begin])
        end = bisect_right(grid.ages, grid.ages[begin] + hold_s) - 1
        i = max(end, i + 1)
    return Optimum(cost, polls, max(0.0, cost - price * polls), tuple(poll_ages))


def schedule_cost(
    poll_ages: Sequence[float], durations: Sequence[float], price: float, hold_s: float = 0.0
) -> Optimum:
    """The cost of a schedule for jobs with these durations.

    Past its last age, the schedule continues in steps as long as its last one.
    """
    last = poll_ages[-1]
    step = max(price, last - poll_ages[-2] if len(poll_ages) > 1 else last)
    polls = 0
    delay = 0.0
    for duration in durations:
        seen_from = duration - hold_s  # a poll that begins then, or later, sees the end
        if seen_from <= last:
            i = bisect_left(poll_ages, seen_from)
            polls += i + 1
            delay += max(0.0, poll_ages[i] - duration)
        else:
            steps = ceil((seen_from - last) / step)
            polls += len(poll_ages) + steps
            delay += max(0.0, last + steps * step - duration)
    mean_polls = polls / len(durations)
    mean_delay = delay / len(durations)
    return Optimum(price * mean_polls + mean_delay, mean_polls, mean_delay, tuple(poll_ages))


def grid_ages(
    quantile: Callable[[float], float],
    last: float,
    key_ages: Iterable[float],
    by_age: int,
    by_share: int,
) -> List[float]:
    """Ages for a grid: `by_age` of them denser early, `by_share` quantiles, and the key ages."""
    ages = {last * ((i + 1) / by_age) ** 2 for i in range(by_age)}
    ages.update(quantile((i + 0.5) / by_share) for i in range(by_share))
    ages.update(key_ages)
    return sorted(age for age in ages if 0.0 < age <= last)


def optimal_schedules(
    distribution: Distribution,
    prices: Sequence[float],
    is_rough: bool = False,
    jobs: int = 0,
    hold_s: float = 0.0,
) -> List[Optimum]:
    """The cheapest schedule for jobs of this distribution, at each price of a poll.

    A list of durations is a sample, so its optimum is an estimate. A schedule fitted to the whole
    sample is too good, because it is fitted to just this sample; a schedule fitted to one half
    is too bad for the other half. This returns the mean of the two, which was within 5 % of the
    truth for samples of 400 from distributions of every kind. If the list has few durations or
    repeats them, or so many `jobs` use it more than once, it counts as known exactly.
    """
    if not isinstance(distribution, Measured):
        return list(_known_optima(distribution, tuple(prices), is_rough, hold_s))
    distinct = len(set(distribution.ordered))
    is_repeated = 2 * distinct <= max(jobs, len(distribution.ordered))
    if distinct < FEWEST_DURATIONS or is_repeated:
        grid = Grid.from_survival(distribution.survival, distribution.key_ages)
        return _optima(grid, prices, hold_s)
    most = ROUGH[1] if is_rough else MOST_DURATIONS
    sample = distribution.durations
    if len(sample) > most:
        sample = tuple(distribution.quantile((i + 0.5) / most) for i in range(most))
    return _cross_validated_optima(sample, prices, hold_s)


@functools.lru_cache(maxsize=32)  # 5 to 90 ms for each Simulation of the same durations
def _known_optima(
    distribution: Union[Uniform, Lognormal, Either],
    prices: Tuple[float, ...],
    is_rough: bool,
    hold_s: float,
) -> Tuple[Optimum, ...]:
    last = max(distribution.key_ages + (distribution.quantile(1.0 - TAIL),))
    sizes = ROUGH if is_rough else FINE
    ages = grid_ages(distribution.quantile, last, distribution.key_ages, *sizes)
    return tuple(_optima(Grid.from_survival(distribution.survival, ages), prices, hold_s))


def _optima(grid: Grid, prices: Sequence[float], hold_s: float) -> List[Optimum]:
    return [optimum(grid, price, hold_s) for price in prices]


def _cross_validated_optima(
    sample: Sequence[float], prices: Sequence[float], hold_s: float
) -> List[Optimum]:
    # The golden ratio splits the sample evenly, without following a pattern of the file.
    halves: Tuple[List[float], List[float]] = ([], [])
    for i, duration in enumerate(sample):
        halves[int(i * GOLDEN % 1 * 2)].append(duration)
    first, second = halves
    whole_grid = _sample_grid(sample)
    first_grid = _sample_grid(first)
    second_grid = _sample_grid(second)
    found = []
    for price in prices:
        fitted = optimum(whole_grid, price, hold_s)
        by_first = optimum(first_grid, price, hold_s).poll_ages
        by_second = optimum(second_grid, price, hold_s).poll_ages
        crossed = [
            schedule_cost(by_first, second, price, hold_s),
            schedule_cost(by_second, first, price, hold_s),
        ]
        polls = fitted.polls / 2 + sum(one.polls for one in crossed) / 4
        delay = fitted.delay / 2 + sum(one.delay for one in crossed) / 4
        found.append(Optimum(price * polls + delay, polls, delay, fitted.poll_ages))
    return found


def _sample_grid(durations: Sequence[float]) -> Grid:
    """A grid with the survival function that `adaptive` estimates from a sample."""
    longest = max(durations) + JUST_BEFORE
    key_ages = ages_at_jumps(sorted(set(durations)))
    last = BEYOND_LONGEST * longest
    ages = grid_ages(lambda share: longest, last, key_ages, SAMPLE_GRID, 1)
    return Grid.from_survival(Curve(durations).survival, ages)
