"""All jobs of a driver: which is polled next, under the buckets and a bound on requests in flight.

House rules
  * The agenda decides which job is polled next; the machine decides everything about one job.
  * It holds each job once. The driver asks for a `candidate`, gets a token for it from the bucket,
    and then calls `dispatch` or, if there is no token, `refuse`. After the request it calls
    `apply_readings` and `release_slot`.
  * It has no lock: the driver makes sure that one thread at a time calls it.
  * Adding, finishing, nudging and cancelling a job cost O(log n).

The phases of a job

  SCHEDULED  its next poll lies ahead; it is in the schedule, a heap ordered by instant
  READY      it is due and waits for a token or a slot; it is in the queue of its lane
  IN_FLIGHT  it is being polled
  REMOVED    its wait has ended, or the driver has withdrawn it

A lane holds the jobs that share one bucket: those of one origin, or all of them. lane.py decides
the order within a lane; lanes take turns. The jobs of an origin that is down wait in their own lane
(outage_lanes.py).
"""

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence

from ..model import Job
from ..profiles.origins import origin_text
from ..reading.verdict import Reading, Verdict
from ..units import NEVER
from ..urls import parse_url
from ..waiting.ends.cancelling import request_cancel
from ..waiting.machine import cancel, nudge, observe, start
from ..waiting.planning import postpone
from ..waiting.tokens import give_up, wait_for_token
from ..waiting.wait_settings import WaitSettings
from ..waiting.wait_state import RETRY_AFTER, WaitState
from .hold_slots import HoldSlots
from .lane import IN_FLIGHT, IS_HELD, IS_LATE, IS_NUDGED, READY, REMOVED, SCHEDULED, Entry, Lane
from .outage_lanes import OutageLanes
from .outages import is_failure, wait_for_probe
from .schedule import Schedule, Step

NEARLY_DUE = 0.25  # a request for many includes jobs with at most this share of their sleep left


class Agenda:
    """Every unfinished job of a driver; at most `slots` requests are in flight at once.

    `on_end` is called with the entry of every wait that ends.
    """

    def __init__(self, slots: int, on_end: Callable[[Entry], object] = lambda entry: None) -> None:
        self._slots = slots
        self._schedule = Schedule(on_end)
        self._entries = self._schedule.entries
        self._lanes = self._schedule.lanes
        self.in_flight = 0  # requests
        self.outages = OutageLanes(self._schedule)
        self._holds = HoldSlots(slots, self._schedule)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def has_free_slot(self) -> bool:
        """Whether one more request may be in flight."""
        return self.in_flight < self._slots

    def get(self, job_id: str) -> Optional[Entry]:
        """The entry of a job on the agenda."""
        return self._entries.get(job_id)

    def add(
        self,
        job: Job,
        url: str,
        settings: WaitSettings,
        lane: Lane,
        now: float,
        *,
        owner: Any = None,
        endpoint: Any = None,
        latest: float = NEVER,
    ) -> Entry:
        """Start a wait that ends by `latest`; its job must not be on the agenda."""
        state = start(job, url, settings, now, latest)
        return self.adopt(state, settings, lane, owner=owner, endpoint=endpoint)

    def adopt(
        self,
        state: WaitState,
        settings: WaitSettings,
        lane: Lane,
        *,
        owner: Any = None,
        endpoint: Any = None,
        origin: str = "",
        is_late: bool = False,
    ) -> Entry:
        """Continue a wait that began elsewhere; its job must not be on the agenda.

        `origin` is that of the URL that it polls next.
        `is_late` means that its deadline has passed before it could be polled. It still gets its
        final poll, however long the rate limit delays that.
        """
        entry = Entry(state, settings, lane, owner, endpoint)
        if is_late:
            entry.state = state._replace(deadline=NEVER)
            entry.marks = IS_LATE
        self.outages.assign_lane(entry, origin)
        self._entries[state.job.id] = entry
        self._schedule.reschedule(entry)
        return entry

    def withdraw(self, entry: Entry) -> None:
        """Remove a job whose wait has not ended, so that another process can continue it."""
        if entry.phase is not REMOVED:
            self._schedule.move(entry, REMOVED)
            del self._entries[entry.state.job.id]

    def candidate(self, now: float) -> Optional[Entry]:
        """The job to poll next, if its bucket grants a token; None if there is none now."""
        self._schedule.queue_due_jobs(now)
        if not self.has_free_slot:
            return None
        if not self._lanes:
            self._queue_job_for_hold(now)
        for lane in self._lanes[:]:
            if lane.blocked_until > now:
                continue
            if lane.outage is not None and not self.outages.may_probe(lane, now):
                continue
            entry = self._most_urgent(lane, now)
            if entry is not None:
                return entry
            self._lanes.remove(lane)
        return None

    def dispatch(self, entry: Entry, now: float) -> List[Entry]:
        """Start to poll a candidate, together with other jobs if one request polls many.

        The list is empty if the job is no longer due, for example because it was cancelled.
        """
        if entry.phase is not READY:
            return []
        lane = entry.lane
        if len(self._lanes) > 1:  # lanes take turns
            self._lanes.remove(lane)
            self._lanes.append(lane)
        self._start_poll(entry, now)
        if lane.outage is not None:
            lane.probe = entry
        entries = [entry]
        while len(entries) < lane.batch_size:
            companion = self._most_urgent(lane, now)
            if companion is not None:
                self._start_poll(companion, now)
            else:
                companion = self._schedule.first()
                if companion is None or not _is_nearly_due(companion, lane, now):
                    break
                self._schedule.move(companion, IN_FLIGHT)
                companion.state = nudge(companion.state, now)
                companion.marks &= ~IS_NUDGED
            entries.append(companion)
        lane.note_request(entries, now)
        self.in_flight += 1
        return entries

    def refuse(self, lane: Lane, ready_at: float, interval: float, now: float) -> None:
        """The bucket of a lane has no token before `ready_at`, then one per `interval`.

        Jobs that are at their deadline end: their final poll would come too late.
        """
        lane.refuse(now, interval)
        entry = lane.front()
        while entry is not None and entry.state.deadline <= now:
            self._schedule.expire(entry, wait_for_token(entry.state, ready_at, 0.0, now))
            entry = lane.front()
        lane.block(ready_at)

    def next_at(self) -> float:
        """The instant of the next candidate, if a slot is free and no request ends before."""
        return self._schedule.next_at()

    def limit_delays(self, job_ids: Iterable[str], now: float) -> Dict[str, float]:
        """About how many seconds the rate limit still delays these jobs; only those it delays.

        The order of the queue may change, and other processes may share the limit.
        """
        delays = {}
        for job_id in job_ids:
            entry = self._entries.get(job_id)
            if entry is None or entry.phase is not READY or entry.lane.outage is not None:
                continue
            lane = entry.lane
            if lane.refused_at >= entry.state.next_at or lane.blocked_until > now:
                requests_before = lane.count_before(entry) // lane.batch_size
                next_token_s = max(0.0, lane.blocked_until - now)
                delays[job_id] = next_token_s + requests_before * lane.interval
        return delays

    def apply_readings(
        self, entries: Sequence[Entry], readings: Sequence[Reading], now: float, rand: float
    ) -> List[Step]:
        """Apply the readings of one request, one per job.

        They share one random number, so that jobs polled together can be polled together again.
        """
        steps = []
        for entry, reading in zip(entries, readings):
            before = entry.state
            if entry.marks & IS_HELD:
                self._holds.end(entry)
            if entry.phase is IN_FLIGHT:  # otherwise it was cancelled meanwhile
                if is_failure(reading) and entry.settings.outlasts_outages:
                    self.outages.outlast_failure(entry, reading, now)
                estimate = None
                if entry.start is not None:
                    _note_if_pending(entry, reading, now)
                    estimate = entry.estimate
                deadline = entry.state.deadline
                after = observe(
                    entry.state, entry.settings, reading, now, rand, by_other_jobs=estimate
                )
                entry.state = nudge(after, now) if entry.marks & IS_NUDGED else after
                if after.deadline != deadline:
                    entry.marks &= ~IS_LATE  # it got more time, for its result or to be cancelled
                may_have_moved = after.url is not before.url or after.done is not before.done
                if may_have_moved and after.next_url is not before.next_url:
                    self.outages.assign_lane(entry, origin_text(parse_url(after.next_url)))
                self._schedule.reschedule(entry)
            steps.append(Step(entry, before, entry.state, reading))
        return steps

    def release_slot(self) -> None:
        """A request has ended, so another can start."""
        self.in_flight -= 1

    def nudge(self, job_id: str, now: float) -> bool:
        """Poll a job as soon as its server allows it; False if it isn't on the agenda.

        If the rate limit delays polls, the job gets the next token of its lane.
        """
        entry = self._entries.get(job_id)
        if entry is None:
            return False
        entry.marks |= IS_NUDGED  # in flight: the poll may have been answered before the change
        if entry.phase is SCHEDULED:
            entry.state = nudge(entry.state, now)
            self._schedule.reschedule(entry)
        elif entry.phase is READY:
            self._schedule.move(entry, READY)
            entry.lane.push(entry, now)
        return True

    def request_cancel(self, entry: Entry, now: float) -> None:
        """Ask the API to cancel a job, before anything else is asked about it."""
        entry.state = request_cancel(entry.state, now)
        if entry.phase is SCHEDULED:
            self._schedule.reschedule(entry)
        elif entry.phase is IN_FLIGHT:
            entry.marks |= IS_NUDGED

    def cancel(self, job_id: str, now: float) -> Optional[Step]:
        """End the wait for a job; None if it isn't on the agenda."""
        entry = self._entries.get(job_id)
        if entry is None:
            return None
        before = entry.state
        entry.state = cancel(before, now)
        self._schedule.reschedule(entry)
        return Step(entry, before, entry.state)

    @property
    def has_expired(self) -> bool:
        """Whether `take_expired` has something to take."""
        return bool(self._schedule.expired)

    def take_expired(self) -> List[Step]:
        """The waits that ended since the last call because no poll was possible in time."""
        expired = self._schedule.expired
        self._schedule.expired = []
        return expired

    def _most_urgent(self, lane: Lane, now: float) -> Optional[Entry]:
        """The job of a lane to poll next; it stays in the queue.

        On the way, jobs end or wait for their deadline if no useful poll is possible before.
        """
        entry = lane.most_urgent(now)
        while entry is not None:
            after = give_up(entry.state, entry.settings, now)
            if after.ending is not None:
                self._schedule.expire(entry, after)
            elif _must_save_final_poll(entry, now):
                entry.state = wait_for_token(after, now, lane.interval, after.next_at)
                self._schedule.reschedule(entry)
            elif not self._postpone(entry, now) and not self._holds.wait_for_slot(entry, now):
                break
            entry = lane.most_urgent(now)
        return entry

    def _postpone(self, entry: Entry, now: float) -> bool:
        """Whether a due job was postponed, because it is not worth a poll yet.

        If tokens are short, it is not, because a token that is not used is lost. A request for many
        jobs costs no more if it includes one that could wait.
        """
        if entry.start is None:
            return False
        lane = entry.lane
        can_wait = lane.batch_size == 1 and lane.outage is None and not lane.is_short
        is_poll = entry.state.done is None and entry.state.cancel is None
        is_urgent = entry.is_nudged or entry.is_late or not is_poll
        if is_urgent or not can_wait:
            return False
        after = postpone(entry.state, entry.settings, now, entry.estimate)
        if after is entry.state:
            return False
        entry.state = after
        self._schedule.reschedule(entry)
        return True

    def _queue_job_for_hold(self, now: float) -> None:
        """Let the most urgent job that waits for it have a hold that is free."""
        entry = self._holds.next_waiting()
        if entry is not None:
            entry.state = nudge(entry.state, now)
            self._schedule.queue(entry, now)

    def _start_poll(self, entry: Entry, now: float) -> None:
        """Move a job from the queue of its lane into flight."""
        state = entry.state
        lane = entry.lane
        if lane.outage is not None:
            state = wait_for_probe(state, now)
        elif lane.refused_at >= state.next_at:  # the time since then was spent on the rate limit
            state = wait_for_token(state, min(now, state.deadline), 0.0, state.next_at)
        if entry.marks & IS_LATE:
            state = state._replace(deadline=now)
        entry.state = state
        entry.marks &= ~IS_NUDGED
        if entry.settings.holding is not None:
            self._holds.start(entry, now)
        self._schedule.move(entry, IN_FLIGHT)
        lane.count_pop()


def _note_if_pending(entry: Entry, reading: Reading, now: float) -> None:
    """Let the other jobs of the kind learn that a job is pending."""
    durations = entry.settings.durations
    if reading.verdict is Verdict.PENDING and entry.start is not None and durations is not None:
        durations.see_pending(entry.start, now - entry.state.started_at)


def _must_save_final_poll(entry: Entry, now: float) -> bool:
    """Whether the rate limit, which has delayed a job, allows it only one more poll.

    Then the job waits for its deadline.
    """
    was_refused = entry.lane.refused_at >= entry.state.next_at
    return was_refused and now < entry.state.deadline < now + entry.lane.interval


def _is_nearly_due(entry: Entry, lane: Lane, now: float) -> bool:
    """Whether a scheduled job can be included in a request of a lane."""
    state = entry.state
    if entry.lane is not lane or state.why == RETRY_AFTER:
        return False
    return state.next_at - now <= NEARLY_DUE * (state.next_at - state.wait_from)
