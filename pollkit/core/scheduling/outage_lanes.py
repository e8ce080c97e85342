"""The jobs of origins that are down: they wait in one lane per origin, and take turns as probes.

House rules: outages.py has the rule; this module applies it to the jobs of an agenda. While nothing
is down, a poll costs O(1) here. The begin of an outage, its end and each failed probe cost O(n).
"""

from typing import Dict, List, Optional

from ..reading.verdict import Reading
from ..units import NEVER
from ..waiting.ends.deadlines import LONGEST_EXTENSION_S
from .lane import IN_FLIGHT, IS_LATE, READY, Entry, Lane
from .outages import (
    FAILURES,
    MOST_ORIGINS,
    Failures,
    Outage,
    count_failed_probe,
    end_at_deadline,
    forgive_failed_probes,
    is_failure,
    is_reply,
    resume,
    resume_instants,
)
from .schedule import Schedule


class OutageLanes:
    """The outages that a driver knows, and the jobs that wait for their end."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._failures: Dict[str, Failures] = {}  # by origin, if it is up and has not replied since
        self._lanes: Dict[str, Lane] = {}  # by origin

    def current(self) -> List[Outage]:
        """The current outages."""
        return [lane.outage for lane in self._lanes.values() if lane.outage is not None]

    def assign_lane(self, entry: Entry, origin: str) -> None:
        """Note the origin that a job polls next; the job waits there if it is down."""
        entry.origin = origin
        entry.lane = self._lanes.get(origin, entry.bucket_lane)
        if entry.lane.outage is not None:
            _restore_deadline(entry)

    def observe(
        self, entry: Entry, origin: str, reading: Reading, now: float, rand: float
    ) -> Optional[Outage]:
        """Note whether an origin has replied to the poll of a job.

        Returns the outage that this began, prolonged (by a failed probe) or ended, if any.
        """
        if reading.code is None and not self._failures and not self._lanes:
            return None  # the usual case
        lane = self._lanes.get(origin)
        if is_reply(reading):
            self._failures.pop(origin, None)
            return self.end(origin, now, rand)
        if lane is not None:
            is_probe = lane.probe is entry
            return self._fail_probe(lane, reading, now, rand) if is_probe else None
        if not is_failure(reading):
            return None
        return self._count_failure(entry, origin, reading, now, rand)

    def begin(self, outage: Outage, now: float) -> None:
        """Keep the jobs of an origin in a lane of their own; or update an outage that is known."""
        self._failures.pop(outage.origin, None)
        lane = self._lanes.get(outage.origin)
        if lane is not None:
            self._update(lane, outage)
            return
        self._forget_origins_without_jobs()
        lane = self._lanes[outage.origin] = Lane(None, outage=outage)
        for entry in self._schedule.entries.values():
            if entry.origin == outage.origin:
                entry.lane = lane
                _restore_deadline(entry)
                if entry.phase is READY:
                    self._schedule.queue(entry, now)

    def end(self, origin: str, now: float, rand: float) -> Optional[Outage]:
        """Let the jobs of an origin resume, if it was down; the outage that has ended.

        The jobs that are due are spread over a few seconds.
        """
        lane = self._lanes.pop(origin, None)
        if lane is None or lane.outage is None:
            return None
        outage = lane.outage
        due = lane.in_order()
        for entry, poll_at in zip(due, resume_instants(len(due), now, rand)):
            entry.state = resume(entry.state, poll_at)
            self._schedule.reschedule(entry)
        for entry in self._schedule.entries.values():
            if entry.lane is lane:
                entry.lane = entry.bucket_lane
                entry.state = forgive_failed_probes(entry.state, outage)
        if lane in self._schedule.lanes:
            self._schedule.lanes.remove(lane)
        return outage._replace(ended_at=now)

    def may_probe(self, lane: Lane, now: float) -> bool:
        """Whether a job of a lane may be polled now: one at a time, at the pace of the probes.

        On the way, jobs whose deadline has passed end.
        """
        outage = lane.outage
        assert outage is not None
        entry = lane.first_overdue(now)
        while entry is not None:
            self._reach_deadline(entry, outage, now)
            entry = lane.first_overdue(now)
        probe_at = outage.next_probe_at if lane.probe is None else NEVER
        lane.block(probe_at)
        return probe_at <= now

    def outlast_failure(self, entry: Entry, reading: Reading, now: float) -> None:
        """Keep a wait of a ledger whose final poll has failed: its origin may be down.

        A poll is final, too, if Retry-After forbids the next one until after the deadline. If the
        origin is not down, the final poll is repeated at most FAILURES times.
        """
        is_final = now + (reading.retry_after or 0.0) >= entry.state.deadline
        is_down = entry.lane.outage is not None
        if is_final and (is_down or entry.state.retry.faults_in_row < FAILURES):
            _remove_deadline(entry)

    def _count_failure(
        self, entry: Entry, origin: str, reading: Reading, now: float, rand: float
    ) -> Optional[Outage]:
        """Count a failed poll; the outage that it begins, if any."""
        failures = self._failures.get(origin)
        if failures is None:
            if len(self._failures) >= MOST_ORIGINS:
                del self._failures[next(iter(self._failures))]  # the oldest
            failures = self._failures[origin] = Failures(now)
        failures.add(entry.state.job.id)
        if failures.count < FAILURES:
            return None
        is_of_one_job = len(failures.job_ids) == 1
        if is_of_one_job and self._has_other_jobs(origin, entry):
            return None
        outage = Outage.from_failures(origin, failures, reading, now, rand)
        self.begin(outage, now)
        return outage

    def _has_other_jobs(self, origin: str, entry: Entry) -> bool:
        entries = self._schedule.entries.values()
        return any(other.origin == origin and other is not entry for other in entries)

    def _fail_probe(self, lane: Lane, reading: Reading, now: float, rand: float) -> Outage:
        """Count a failed probe as a fault of every job of the lane, and plan the next probe."""
        assert lane.outage is not None
        outage = lane.outage.after_failed_probe(reading, now, rand)
        probe = lane.probe
        lane.probe = None
        self._update(lane, outage)
        for entry in list(self._schedule.entries.values()):
            # A poll that is in flight since before the outage counts its own fault.
            is_held = entry.lane is lane and entry is not probe and entry.phase is not IN_FLIGHT
            if is_held and not entry.settings.outlasts_outages:
                after = count_failed_probe(entry.state, entry.settings, outage, now)
                if after.ending is not None:
                    self._schedule.expire(entry, after)
                entry.state = after
        return outage

    def _update(self, lane: Lane, outage: Outage) -> None:
        lane.outage = outage
        if lane.probe is None:
            lane.block(outage.next_probe_at)

    def _reach_deadline(self, entry: Entry, outage: Outage, now: float) -> None:
        """End a wait whose deadline has passed, unless the outage extends the deadline."""
        extends_deadline = now - outage.began_at < LONGEST_EXTENSION_S
        if entry.settings.outlasts_outages and extends_deadline:
            _remove_deadline(entry)
            self._schedule.queue(entry, now)
        else:
            self._schedule.expire(entry, end_at_deadline(entry.state, outage, now))

    def _forget_origins_without_jobs(self) -> None:
        origins = {entry.origin for entry in self._schedule.entries.values()}
        for origin in [origin for origin in self._lanes if origin not in origins]:
            del self._lanes[origin]


def _remove_deadline(entry: Entry) -> None:
    """Let a wait have its final poll after the outage."""
    entry.marks |= IS_LATE
    entry.state = entry.state._replace(deadline=NEVER)


def _restore_deadline(entry: Entry) -> None:
    """A single poll (timeout=0) that the rate limit has delayed does not wait for an outage."""
    if entry.is_late and not entry.settings.outlasts_outages:
        entry.state = entry.state._replace(deadline=entry.state.started_at)
