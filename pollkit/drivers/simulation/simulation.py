"""`Simulation`: the same machine, agenda, bucket and paces as `BatchPoller`, on a clock that waits for nobody."""

import math
import threading
from heapq import heappop, heappush
from random import Random
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from ...core.agenda import Agenda
from ...core.lane import Entry, Lane
from ...core.learning.completions import StartOrder, observed_duration
from ...core.learning.durations import Durations
from ...core.machine import SHORTEST_S
from ...core.model import Job, State
from ...core.pace import Adaptive, Backoff, Fixed, Pace
from ...core.profile import Profile, to_pace, validate_count
from ...core.reading.reader import Reading, Verdict
from ...core.units import NEVER, Limit, parse_limit, to_seconds
from ...core.wait_settings import WaitSettings
from ...core.wait_state import WaitState
from ...edges.clock import VirtualClock
from ...edges.limits.token_bucket import TokenBucket
from ...errors import ConfigError
from ..dispatch import apply_feedback, next_work
from .distributions import (
    Lognormal,
    Measured,
    Spread,
    Uniform,
    optimal_schedules,
    parse_distribution,
)
from .optimum import Optimum
from .scenarios import MOST_JOBS, SCENARIOS, described, jobs_of, spreads_of
from .server import WINDOWS, SimJob, SimulatedApi

USUAL_JOBS = 200
TRIES, MANY = 5, 2000  # one try where each takes seconds
MOST_POLLS = 3000000  # of a pace: three to seven minutes of this program's time
POLLS_A_JOB = (
    20  # and where jobs are many, so many on average: a million jobs may take half an hour
)

OnPoll = Callable[[float, str], object]
Lasting = Union[str, Spread, Sequence[float]]


class Figures(NamedTuple):
    """What one pace came to; seconds. Delays and what is made of them are None where no job's end was seen.

    Polls are those of all `jobs`, delays those of the ones that were seen through.
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
    per_minute: Dict[int, int]  # requests in each minute that had any, all jobs counted
    jobs: int

    @property
    def cost_ratio(self) -> Optional[float]:
        """The cost against the best there is; None where jobs were given up, which the best there is never does."""
        return None if self.cost is None or self.timed_out else self.cost / self.optimum_cost

    def as_dict(self) -> Dict[str, Any]:
        """The figures as JSON has them."""
        return {
            "pace": str(self.pace),
            "polls_per_job": _rounded(self.polls_per_job),
            "notice_delay_s": {
                name: _rounded(getattr(self, name)) for name in ("mean", "p50", "p95", "max")
            },
            "rate_limited": self.rate_limited,
            "timed_out": self.timed_out,
            "cost": _rounded(self.cost),
            "optimum_cost": _rounded(self.optimum_cost),
            "cost_ratio": _rounded(self.cost_ratio),
        }


class Simulation:
    """What a pace would cost, found out in virtual time.

    `scenario` is the name of one; or `durations` says how long jobs take: text ('uniform
    2m..15m', 'lognormal 5m x1.6'), a list of seconds, or one of these for each label. What else is
    given goes before what the scenario says. `limit` ('60/m', or 'none') is the server's, counted in
    windows or as a bucket; the poller keeps it, unless `knows_limit` is false: then it has to find
    out. The first `warm_up` jobs are left out of the figures.

    >>> simulation = Simulation(durations="uniform 10s..30s", jobs=100, arrive="every 1m")
    >>> figures = simulation.run("fixed 5s")
    >>> round(figures.polls_per_job), round(figures.mean, 1), figures.rate_limited
    (5, 2.4, 0)
    """

    def __init__(
        self,
        scenario: Optional[str] = None,
        durations: Union[Lasting, Mapping[str, Lasting], None] = None,
        jobs: Optional[int] = None,
        arrive: Optional[str] = None,
        limit: Union[str, Limit, None] = None,
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
    ) -> None:
        self._set_scenario(scenario, durations, jobs, arrive, limit)
        self.window, self.warm_up, self.timestamps = _one_of(WINDOWS, window), warm_up, timestamps
        self.price, self.seed = to_seconds(price, "price"), seed
        self._timeout = None if timeout in (None, "never") else to_seconds(timeout, "timeout")
        self._workers = validate_count("workers", workers)
        self._latency, self._fault_rate, self._knows_limit = (
            to_seconds(latency, "latency"),
            fault_rate,
            knows_limit,
        )
        self._check()
        self._most_polls = max(MOST_POLLS, POLLS_A_JOB * self.count)
        self.jobs: List[SimJob] = jobs_of(
            self.spreads, self.count, self.arrive, Random("jobs %r" % seed).random
        )
        (self.optimum,) = self._optima([self.price])
        self._frontier: List[Tuple[float, Optimum]] = []  # worked out when asked for

    def _set_scenario(
        self,
        name: Optional[str],
        durations: Any,
        jobs: Optional[int],
        arrive: Optional[str],
        limit: Union[str, Limit, None],
    ) -> None:
        if (name is None) == (durations is None):
            raise ConfigError("a simulation needs a scenario, or durations; and not both")
        if name is not None:
            known = SCENARIOS.get(name) if isinstance(name, str) else None
            if known is None:
                raise ConfigError(
                    "there is no scenario %r: there is %s" % (name, ", ".join(SCENARIOS))
                )
            self.spreads: Dict[Optional[str], Spread] = spreads_of(known)
            jobs, arrive = (
                known.jobs if jobs is None else jobs,
                known.arrive if arrive is None else arrive,
            )
            limit = known.limit if limit is None else limit
        else:
            labelled = (
                durations if isinstance(durations, Mapping) and durations else {None: durations}
            )
            if not all(label is None or isinstance(label, str) for label in labelled):
                raise ConfigError("labels are text, not %r" % (list(labelled),))
            self.spreads = {label: _spread(each) for label, each in labelled.items()}
            listed = sum(
                len(spread.durations)
                for spread in self.spreads.values()
                if isinstance(spread, Measured)
            )
            jobs = listed or USUAL_JOBS if jobs is None else jobs
        self.name = name or described(self.spreads)
        self.count, self.arrive = jobs, "burst" if arrive is None else arrive
        self.limit = (
            (None if limit == "none" else parse_limit(limit)) if isinstance(limit, str) else limit
        )

    def _check(self) -> None:
        _check_whole("jobs", self.count, 1, MOST_JOBS)
        _check_whole("warm-up", self.warm_up, 0, self.count - 1)
        if self.price <= 0.0:
            raise ConfigError("a poll's price must be above zero")
        if not isinstance(self._fault_rate, (int, float)) or not 0.0 <= self._fault_rate < 1.0:
            raise ConfigError(
                "a fault rate is a number from 0 to below 1, not %r" % (self._fault_rate,)
            )
        if not isinstance(self.limit, (Limit, type(None))):
            raise ConfigError("a limit is text such as '60/m', or 'none', not %r" % (self.limit,))
        if not isinstance(self.arrive, str):
            raise ConfigError("arrivals are text such as 'over 1h', not %r" % (self.arrive,))
        if not isinstance(self.seed, int):
            raise ConfigError("a seed is a whole number, not %r" % (self.seed,))

    def run(self, pace: Union[Pace, str], on_poll: Optional[OnPoll] = None) -> Figures:
        """Let all jobs be polled at this pace; `on_poll(at, job id)` hears of each request.

        A pace given as text, `adaptive` without a price of its own, gets the simulation's.
        """
        priced = self._priced(pace)
        if self._fewest_polls(priced) > self._most_polls:
            raise self._too_many_polls(priced)
        return self._figures(_Run(self, priced, on_poll))

    def _fewest_polls(self, pace: Pace) -> float:
        """So many polls a pace makes at least: known before minutes are spent on them."""
        if self._fault_rate:
            return 0.0  # waits after a fault are longer
        wait = (
            pace.every
            if isinstance(pace, Fixed)
            else pace.cap
            if isinstance(pace, Backoff)
            else pace.max
        )
        apart = max(wait, SHORTEST_S) + self._latency
        most = pace.attempts if isinstance(pace, Fixed) and pace.attempts else NEVER
        timeout = NEVER if self._timeout is None else self._timeout
        rate = NEVER if self.limit is None else self.limit.polls / self.limit.per
        if self._latency:
            rate = min(rate, self._workers / self._latency)
        polls = sum(min(most, job.duration / apart, timeout / apart) for job in self.jobs)
        return min(polls, rate * max(job.ends_at for job in self.jobs))

    def _too_many_polls(self, pace: Pace) -> ConfigError:
        return ConfigError(
            "pace '%s' makes more than %d polls of this: take fewer jobs, or a slower pace"
            % (pace, self._most_polls)
        )

    def matched(self, rival: Figures, on_poll: Optional[OnPoll] = None) -> Optional[Figures]:
        """Adaptive at a price at which it makes no more polls than another pace did; None if there is no such price.

        Where the two notice a job's end then tells which is better, whatever a poll is worth.
        """
        tries, wanted = (TRIES, 0.985) if self.count <= MANY else (1, 0.94)
        wanted *= rival.polls_per_job
        known = [(best.polls, price) for price, best in self.frontier]
        between = [
            (one, other) for one, other in zip(known, known[1:]) if one[0] >= wanted > other[0]
        ]
        if not between or rival.timed_out:
            return None
        (more, low), (fewer, high) = between[0]
        price = low * (high / low) ** (math.log(more / wanted) / math.log(more / fewer))
        best = None
        for _ in range(tries):
            found = self.run(Adaptive(price=float("%.2g" % price)), on_poll)
            ratio = found.polls_per_job / rival.polls_per_job
            if (
                ratio <= 1.0
                and not found.timed_out
                and (best is None or found.polls_per_job > best.polls_per_job)
            ):
                best = found
            if 0.97 <= ratio <= 1.0:
                break
            price *= (ratio / 0.985) ** 2  # polls go as 1 / sqrt(price)
        return best

    def api(self) -> SimulatedApi:
        """The server that the jobs run on, as it is at the beginning."""
        return SimulatedApi(
            self.jobs,
            self.limit,
            self.window,
            self._fault_rate,
            self.timestamps,
            Random("faults %r" % self.seed).random,
        )

    @property
    def frontier(self) -> List[Tuple[float, Optimum]]:
        """Prices, from a thousandth of the simulation's to a thousand times it, and the best there is at each."""
        if not self._frontier:
            prices = [self.price * 10.0 ** (i / 4) for i in range(-12, 13)]
            self._frontier = list(zip(prices, self._optima(prices, is_rough=True)))
        return self._frontier

    def _optima(self, prices: Sequence[float], is_rough: bool = False) -> List[Optimum]:
        """The best there is at each price, for the jobs that count, each label by its own best schedule."""
        every = [job.label for job in self.jobs]
        counted = every[self.warm_up :]
        polls, delays = [0.0] * len(prices), [0.0] * len(prices)
        for label, spread in self.spreads.items():
            share = counted.count(label) / len(counted)
            for i, best in enumerate(
                optimal_schedules(spread, prices, is_rough, every.count(label))
            ):
                polls[i] += share * best.polls
                delays[i] += share * best.delay
        return [
            Optimum(price * one + other, one, other, ())
            for price, one, other in zip(prices, polls, delays)
        ]

    def _priced(self, pace: Union[Pace, str]) -> Pace:
        read = to_pace(pace)
        has_price = not isinstance(pace, str) or "price=" in pace.lower()
        return (
            read._replace(price=self.price)
            if isinstance(read, Adaptive) and not has_price
            else read
        )

    def _figures(self, run: "_Run") -> Figures:
        count, delays = self.count - self.warm_up, sorted(run.delays)
        polls, mean = run.polls / count, math.fsum(delays) / len(delays) if delays else None
        return Figures(
            run.pace,
            polls,
            mean,
            _percentile(delays, 0.5),
            _percentile(delays, 0.95),
            _percentile(delays, 1.0),
            run.rate_limited,
            count - len(delays),
            None if mean is None else self.price * polls + mean,
            self.optimum.cost,
            run.per_minute,
            count,
        )


class _Run:
    """One pace, from the first job to the last."""

    def __init__(self, simulation: Simulation, pace: Pace, on_poll: Optional[OnPoll]) -> None:
        self.pace = pace
        self.polls = self.rate_limited = self.requests = 0
        self.delays: List[float] = []
        self.per_minute: Dict[int, int] = {}
        self._on_poll, self._latency = on_poll, simulation._latency
        self._jobs, self._most_polls = simulation.jobs, simulation._most_polls
        self._too_many_polls = simulation._too_many_polls
        self._warm_up = simulation.warm_up
        self._rng = Random(simulation.seed).random
        self._api = simulation.api()
        bucket = TokenBucket(
            simulation.limit if simulation._knows_limit else None, clock=VirtualClock()
        )
        self._lane = Lane(bucket)
        profile = Profile(pace=pace, timeout=simulation._timeout)
        # Jobs are waited for from the moment they are submitted; and each teaches those of its label.
        self._durations = {
            label: Durations() for label in simulation.spreads if isinstance(pace, Adaptive)
        }
        self._rules = {
            label: WaitSettings.from_profile(
                profile, bucket.spacing, self._durations.get(label), is_fresh=True
            )
            for label in simulation.spreads
        }
        self._orders = {label: StartOrder() for label in self._durations}
        self._agenda = Agenda(simulation._workers, self._learn)
        self._lock = threading.Lock()  # for next_work; nobody else ever holds it
        self._replies: List[Tuple[float, int, List[Entry], Reading]] = []
        self._go()

    def _go(self) -> None:
        agenda, replies, jobs = self._agenda, self._replies, self._jobs
        now, arrived = 0.0, 0
        while True:
            while replies and replies[0][0] <= now:
                _, _, entries, reading = heappop(replies)
                self._finish(entries, reading, now)
            while arrived < len(jobs) and jobs[arrived].starts_at <= now:
                job = jobs[arrived]
                entry = agenda.add(
                    Job(job.id, label=job.label),
                    "",
                    self._rules[job.label],
                    self._lane,
                    now,
                    owner=arrived,
                )
                if self._orders:
                    entry.turn = self._orders[job.label].begin()
                arrived += 1
            work = next_work(agenda, now, self._lock)
            for step in agenda.take_expired():
                self._count(step.entry, step.after)
            if work.entries:
                self._ask(work.entries, now)
                continue
            now = min(
                work.next_at,
                replies[0][0] if replies else NEVER,
                jobs[arrived].starts_at if arrived < len(jobs) else NEVER,
            )
            if now == NEVER:
                return

    def _ask(self, entries: List[Entry], now: float) -> None:
        """Send a request; the server answers it half-way."""
        job_id, back_at = entries[0].state.job.id, now + self._latency
        self.requests += 1
        if self.requests > self._most_polls:
            raise self._too_many_polls(self.pace)
        minute = int(now // 60)
        self.per_minute[minute] = self.per_minute.get(minute, 0) + 1
        if self._on_poll is not None:
            self._on_poll(now, job_id)
        reading = self._api.answer(job_id, now + self._latency / 2, back_at)
        heappush(self._replies, (back_at, self.requests, entries, reading))

    def _finish(self, entries: List[Entry], reading: Reading, now: float) -> None:
        entry = entries[0]
        if reading.verdict is Verdict.LIMITED and entry.owner >= self._warm_up:
            self.rate_limited += 1
        (step,) = self._agenda.apply_readings(entries, [reading], now, self._rng())
        self._agenda.release_slot()
        apply_feedback(entry.lane, reading, [step], now)
        if step.after.ending is not None:
            self._count(entry, step.after)

    def _learn(self, entry: Entry) -> None:
        """From a wait that is over, as BatchPoller does."""
        if entry.turn is not None:
            label, began = entry.state.job.label, entry.state.started_at
            for lesson in self._orders[label].end(
                entry.turn, began, observed_duration(entry.state)
            ):
                self._durations[label].record_between(*lesson)

    def _count(self, entry: Entry, ended: WaitState) -> None:
        """A wait is over."""
        if entry.owner < self._warm_up:
            return
        self.polls += ended.polls
        if ended.ending is not None and ended.ending.state is State.DONE:
            self.delays.append(max(0.0, ended.ending.at - self._jobs[entry.owner].ends_at))


def _spread(durations: Optional[Lasting]) -> Spread:
    if isinstance(durations, (Uniform, Lognormal, Measured)):
        return durations
    if isinstance(durations, str):
        return parse_distribution(durations)
    if not isinstance(durations, Iterable) or isinstance(durations, bytes):
        raise ConfigError(
            "durations are text such as 'uniform 2m..15m', or a list of seconds, not %r"
            % (durations,)
        )
    return Measured.from_durations(tuple(durations))


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(
            "%s must be a whole number from %d to %d, not %r" % (name, least, most, value)
        )


def _one_of(words: Sequence[str], word: str) -> str:
    if word not in words:
        raise ConfigError("a window is %s, not %r" % (" or ".join(words), word))
    return word


def _percentile(ordered: List[float], share: float) -> Optional[float]:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def _rounded(value: Optional[float]) -> Optional[float]:
    return None if value is None else round(value, 3)
