"""`Simulation`: compares paces in virtual time, with the code that `BatchPoller` runs."""

import math
from random import Random
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ...core.profiles.hold_templates import validate_hold
from ...core.profiles.profile import to_pace, validate_count
from ...core.units import NEVER, Limit, parse_limit, to_seconds
from ...core.waiting.machine import SHORTEST_S
from ...core.waiting.pace import Adaptive, Backoff, Fixed, Pace
from ...errors import ConfigError
from .distributions import Distribution
from .figures import Figures, percentile
from .optimum import Optimum, optimal_schedules
from .run import OnPoll, PollerSettings, Run, too_many_polls_error
from .scenarios import MOST_JOBS, describe, find_scenario, make_jobs, scenario_from_durations
from .server import WINDOWS, SimJob, SimulatedApi

MOST_POLLS = 3000000  # per pace: they take three to seven minutes
MOST_POLLS_PER_JOB = 20  # allowed even if that is more; a million jobs may take half an hour

Durations = Union[str, Distribution, Sequence[float]]


class Simulation:
    """Measures in virtual time how much a pace would cost.

    `scenario` is the name of a scenario. Instead of it, `durations` describes how long jobs take:
    text ('uniform 2m..15m', 'lognormal 5m x1.6'), a list of seconds, or one of these per label.
    `jobs`, `arrive` and `limit` override the scenario's own values. `limit` ('60/m', or 'none') is
    the server's, which counts in fixed windows or with a token bucket; the poller keeps to it,
    unless `knows_limit` is false: then it has to learn it. The first `warm_up` jobs are left out
    of the figures. With `hold` ('25s'), the server holds polls for up to that long, and `optimum`
    is that with holding; `unheld_optimum` is that without.

    >>> simulation = Simulation(durations="uniform 10s..30s", jobs=100, arrive="every 1m")
    >>> figures = simulation.run("fixed 5s")
    >>> round(figures.polls_per_job), round(figures.mean, 1), figures.rate_limited
    (5, 2.4, 0)
    """

    def __init__(
        self,
        scenario: Optional[str] = None,
        durations: Union[Durations, Mapping[str, Durations], None] = None,
        jobs: Optional[int] = None,
        arrive: Optional[str] = None,
        limit: Union[str, Limit, None] = None,
        *,
        window: str = "fixed",
        warm_up: int = 0,
        timestamps: bool = False,
        price: Union[str, float] = 1.0,
        seed: int = 1,
        timeout: Union[str, float, None] = None,
        workers: int = 8,
        latency: Union[str, float] = 0.0,
        fault_rate: float = 0.0,
        knows_limit: bool = True,
        hold: Union[str, float, None] = None,
    ) -> None:
        if (scenario is None) == (durations is None):
            raise ConfigError("a simulation needs either a scenario or durations, not both")
        if scenario is not None:
            chosen = find_scenario(scenario)
        else:
            chosen = scenario_from_durations(durations)
        self.distributions = chosen.distributions
        self.name = scenario or describe(chosen.distributions)
        self.count = chosen.jobs if jobs is None else jobs
        self.arrive = chosen.arrive if arrive is None else arrive
        self.limit = _to_limit(chosen.limit if limit is None else limit)
        self.window = window
        self.warm_up = warm_up
        self.timestamps = timestamps
        self.price = to_seconds(price, "price")
        self.seed = seed
        self.hold_s = 0.0 if hold is None else validate_hold("hold", to_seconds(hold, "hold"))
        self._fault_rate = fault_rate
        self._check()
        self._poller = PollerSettings(
            limit=self.limit if knows_limit else None,
            timeout=NEVER if timeout in (None, "never") else to_seconds(timeout, "timeout"),
            workers=validate_count("workers", workers),
            latency=to_seconds(latency, "latency"),
            warm_up=warm_up,
            seed=seed,
            most_polls=max(MOST_POLLS, MOST_POLLS_PER_JOB * self.count),
            hold_s=self.hold_s,
        )
        self.jobs: List[SimJob] = make_jobs(
            chosen, self.count, self.arrive, Random("jobs %r" % seed).random
        )
        (self.optimum,) = self._optima([self.price], self.hold_s)
        self.unheld_optimum = self.optimum
        if self.hold_s:
            (self.unheld_optimum,) = self._optima([self.price], 0.0)
        self._frontiers: Dict[float, List[Tuple[float, Optimum]]] = {}  # by the hold

    def _check(self) -> None:
        _check_whole_number("jobs", self.count, 1, MOST_JOBS)
        _check_whole_number("warm-up", self.warm_up, 0, self.count - 1)
        if self.window not in WINDOWS:
            raise ConfigError("a window is %s, not %r" % (" or ".join(WINDOWS), self.window))
        if self.price <= 0.0:
            raise ConfigError("the price of a poll must be above zero")
        if not isinstance(self._fault_rate, (int, float)) or not 0.0 <= self._fault_rate < 1.0:
            raise ConfigError(
                "a fault rate is a number from 0 to below 1, not %r" % (self._fault_rate,)
            )
        if not isinstance(self.arrive, str):
            raise ConfigError("arrivals are text such as 'over 1h', not %r" % (self.arrive,))
        if not isinstance(self.seed, int):
            raise ConfigError("a seed is a whole number, not %r" % (self.seed,))

    def run(self, pace: Union[Pace, str], on_poll: Optional[OnPoll] = None) -> Figures:
        """Poll all jobs at this pace; call `on_poll(at, job id)` for each request.

        `adaptive` without a price, given as text, gets the price of the simulation.
        """
        parsed = to_pace(pace)
        has_price = not isinstance(pace, str) or "price=" in pace.lower()
        if isinstance(parsed, Adaptive) and not has_price:
            parsed = parsed._replace(price=self.price)
        if self._fewest_polls(parsed) > self._poller.most_polls:
            raise too_many_polls_error(parsed, self._poller.most_polls)
        run = Run(parsed, self.jobs, self.api(), self._poller, on_poll)
        run.run()
        return self._figures(parsed, run)

    def _fewest_polls(self, pace: Pace) -> float:
        """A lower bound on the polls of a pace, to refuse in advance one that takes minutes."""
        if self._fault_rate:
            return 0.0  # waits after a fault are longer than the pace's
        attempts = NEVER
        if isinstance(pace, Fixed):
            longest_wait = pace.every
            attempts = pace.attempts or NEVER
        elif isinstance(pace, Backoff):
            longest_wait = pace.cap
        else:
            longest_wait = pace.max
        poller = self._poller
        interval = max(longest_wait, SHORTEST_S) + poller.latency + poller.hold_s
        waits = [min(job.duration, poller.timeout) for job in self.jobs]
        polls = sum(min(attempts, wait / interval) for wait in waits)
        rate = NEVER if self.limit is None else self.limit.polls / self.limit.per
        if poller.latency:
            rate = min(rate, poller.workers / poller.latency)
        return min(polls, rate * max(job.ends_at for job in self.jobs))

    def api(self) -> SimulatedApi:
        """The server of the jobs, in its initial state."""
        return SimulatedApi(
            self.jobs,
            self.limit,
            window=self.window,
            fault_rate=self._fault_rate,
            timestamps=self.timestamps,
            rng=Random("faults %r" % self.seed).random,
        )

    @property
    def frontier(self) -> List[Tuple[float, Optimum]]:
        """Prices from a thousandth to a thousand times the simulation's, each with its optimum."""
        return self._frontier_with(self.hold_s)

    @property
    def unheld_frontier(self) -> List[Tuple[float, Optimum]]:
        """The same for a server that holds no polls."""
        return self._frontier_with(0.0)

    def _frontier_with(self, hold_s: float) -> List[Tuple[float, Optimum]]:
        if hold_s not in self._frontiers:
            prices = [self.price * 10.0 ** (i / 4) for i in range(-12, 13)]
            optima = self._optima(prices, hold_s, is_rough=True)
            self._frontiers[hold_s] = list(zip(prices, optima))
        return self._frontiers[hold_s]

    def _optima(
        self, prices: Sequence[float], hold_s: float, is_rough: bool = False
    ) -> List[Optimum]:
        """The optimum at each price: the mean over the labels, weighted by their counted jobs."""
        labels = [job.label for job in self.jobs]
        counted = labels[self.warm_up :]
        polls = [0.0] * len(prices)
        delays = [0.0] * len(prices)
        for label, distribution in self.distributions.items():
            share = counted.count(label) / len(counted)
            count = labels.count(label)
            schedules = optimal_schedules(distribution, prices, is_rough, count, hold_s)
            for i, best in enumerate(schedules):
                polls[i] += share * best.polls
                delays[i] += share * best.delay
        return [
            Optimum(price * mean_polls + delay, mean_polls, delay, ())
            for price, mean_polls, delay in zip(prices, polls, delays)
        ]

    def _figures(self, pace: Pace, run: Run) -> Figures:
        count = self.count - self.warm_up
        delays = sorted(run.delays)
        polls_per_job = run.polls / count
        mean = cost = None
        if delays:
            mean = math.fsum(delays) / len(delays)
            cost = self.price * polls_per_job + mean
        return Figures(
            pace,
            polls_per_job,
            mean,
            percentile(delays, 0.5),
            percentile(delays, 0.95),
            percentile(delays, 1.0),
            run.rate_limited,
            count - len(delays),
            cost,
            self.optimum.cost,
            run.per_minute,
            count,
        )


def _to_limit(limit: Union[str, Limit, None]) -> Optional[Limit]:
    if limit is None or limit == "none":
        return None
    if isinstance(limit, str):
        return parse_limit(limit)
    if not isinstance(limit, Limit):
        raise ConfigError("a limit is text such as '60/m', or 'none', not %r" % (limit,))
    return limit


def _check_whole_number(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(
            "%s must be a whole number from %d to %d, not %r" % (name, least, most, value)
        )
