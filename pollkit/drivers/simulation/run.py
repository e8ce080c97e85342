"""One pace polls all jobs of a simulation, on the agenda and bucket that `BatchPoller` uses.

Time is virtual: after each event the run jumps to the next one, which is a reply, the arrival of a
job, or a job that falls due.
"""

import threading
from heapq import heappop, heappush
from random import Random
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from ...core.learning.completions import observed_duration
from ...core.learning.durations import Durations
from ...core.model import Job, State
from ...core.profiles.profile import Profile
from ...core.reading.verdict import Reading, Verdict
from ...core.scheduling.agenda import Agenda
from ...core.scheduling.lane import Entry, Lane
from ...core.units import NEVER, Limit
from ...core.waiting.holding import Holding, granted_hold
from ...core.waiting.pace import Adaptive, Pace
from ...core.waiting.wait_settings import WaitSettings
from ...core.waiting.wait_state import WaitState
from ...edges.clock import VirtualClock
from ...edges.limits.token_bucket import TokenBucket
from ...errors import ConfigError
from ..engine.dispatch import apply_feedback, next_work
from .server import SimJob, SimulatedApi

OnPoll = Callable[[float, str], object]  # called with the instant and the job id of each request


class PollerSettings(NamedTuple):
    """How a simulated poller behaves, whatever its pace."""

    limit: Optional[Limit]  # the limit that it keeps to; None if there is none or it isn't known
    timeout: float  # NEVER if it waits without end
    workers: int
    latency: float
    warm_up: int
    seed: int
    most_polls: int
    hold_s: float = 0.0  # how long the server may hold a poll


class Run:
    """The simulation of one pace; `run` fills in the counts."""

    def __init__(
        self,
        pace: Pace,
        jobs: List[SimJob],
        api: SimulatedApi,
        settings: PollerSettings,
        on_poll: Optional[OnPoll],
    ) -> None:
        # The counts leave out the jobs of the warm-up, apart from `requests` and `per_minute`.
        self.polls = 0
        self.rate_limited = 0
        self.requests = 0
        self.delays: List[float] = []
        self.per_minute: Dict[int, int] = {}
        self._pace = pace
        self._jobs = jobs
        self._api = api
        self._settings = settings
        self._on_poll = on_poll
        self._rng = Random(settings.seed).random
        bucket = TokenBucket(settings.limit, clock=VirtualClock())
        self._lane = Lane(bucket)
        # Like BatchPoller, an adaptive pace learns from the finished jobs of each label.
        labels = {job.label for job in jobs}
        learns = isinstance(pace, Adaptive)
        self._durations = {label: Durations() for label in labels} if learns else {}
        timeout = None if settings.timeout == NEVER else settings.timeout
        profile = Profile(pace=pace, timeout=timeout)
        # Waits begin when jobs are submitted, so each job is fresh.
        self._wait_settings = {
            label: WaitSettings.from_profile(
                profile, bucket.spacing, self._durations.get(label), is_fresh=True
            )._replace(holding=Holding(settings.hold_s) if settings.hold_s else None)
            for label in labels
        }
        self._agenda = Agenda(settings.workers, self.record_completion)
        self._replies: List[Tuple[float, int, List[Entry], Reading]] = []  # a heap, by instant
        self._arrived = 0

    def run(self) -> None:
        """Poll until every job is finished or given up."""
        lock = threading.Lock()  # required by next_work, though there is only one thread
        now = 0.0
        while now < NEVER:
            self._receive_replies(now)
            self._add_arrivals(now)
            work = next_work(self._agenda, now, lock)
            for step in self._agenda.take_expired():
                self._count(step.entry, step.after)
            if work.entries:
                self._send(work.entries, now)
            else:
                now = min(work.next_at, self._next_reply_at(), self._next_arrival_at())

    def _next_reply_at(self) -> float:
        return self._replies[0][0] if self._replies else NEVER

    def _next_arrival_at(self) -> float:
        return self._jobs[self._arrived].starts_at if self._arrived < len(self._jobs) else NEVER

    def _add_arrivals(self, now: float) -> None:
        while self._next_arrival_at() <= now:
            index = self._arrived
            label = self._jobs[index].label
            job = Job(self._jobs[index].id, label=label)
            entry = self._agenda.add(
                job, "", self._wait_settings[label], self._lane, now, owner=index
            )
            if self._durations:
                entry.start = self._durations[label].begin(now)
            self._arrived += 1

    def _send(self, entries: List[Entry], now: float) -> None:
        """Send a request; the server answers it after half of the latency."""
        self.requests += 1
        if self.requests > self._settings.most_polls:
            raise too_many_polls_error(self._pace, self._settings.most_polls)
        minute = int(now // 60)
        self.per_minute[minute] = self.per_minute.get(minute, 0) + 1
        job_id = entries[0].state.job.id
        if self._on_poll is not None:
            self._on_poll(now, job_id)
        half_latency = self._settings.latency / 2
        hold_s = 0.0
        if entries[0].is_held:
            hold_s = granted_hold(entries[0].state, entries[0].settings, now)
        reading, sent_at = self._api.hold(job_id, now + half_latency, hold_s, half_latency)
        back_at = sent_at + half_latency
        if hold_s:
            reading = reading.with_duration(back_at - now, hold_s)
        heappush(self._replies, (back_at, self.requests, entries, reading))

    def _receive_replies(self, now: float) -> None:
        while self._next_reply_at() <= now:
            _, _, entries, reading = heappop(self._replies)
            entry = entries[0]
            if reading.verdict is Verdict.LIMITED and self._is_counted(entry):
                self.rate_limited += 1
            (step,) = self._agenda.apply_readings(entries, [reading], now, self._rng())
            self._agenda.release_slot()
            apply_feedback(entry.bucket_lane, reading, [step], now)
            if step.after.ending is not None:
                self._count(entry, step.after)

    def record_completion(self, entry: Entry) -> None:
        """Learn from a wait that is over, as BatchPoller does."""
        if entry.start is not None:
            durations = self._durations[entry.state.job.label]
            durations.end(entry.start, observed_duration(entry.state))

    def _count(self, entry: Entry, progress: WaitState) -> None:
        """Add a wait that is over to the counts."""
        if not self._is_counted(entry):
            return
        self.polls += progress.polls
        if progress.ending is not None and progress.ending.state is State.DONE:
            self.delays.append(max(0.0, progress.ending.at - self._jobs[entry.owner].ends_at))

    def _is_counted(self, entry: Entry) -> bool:
        return bool(entry.owner >= self._settings.warm_up)


def too_many_polls_error(pace: Pace, most_polls: int) -> ConfigError:
    """The error for a pace that would take too long to simulate."""
    return ConfigError(
        "pace '%s' makes more than %d polls of this: simulate fewer jobs, or a slower pace"
        % (pace, most_polls)
    )
