"""Calls of the agenda as drivers make them, with the token from the bucket in between."""

import threading

from pollkit import Fixed
from pollkit.core.limits import bucket as gcra
from pollkit.core.limits.bucket import Bucket
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.scheduling.lane import Lane
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.drivers.engine.dispatch import apply_feedback, next_work

LOCK = threading.Lock()
PENDING = Reading(Verdict.PENDING, "pending")
DONE = Reading(Verdict.DONE, "done")
ENDLESS = WaitSettings(pace=Fixed(5), timeout=None)


def take(agenda, now):
    """The entries to poll now; or, if there are none, the instant to ask again."""
    work = next_work(agenda, now, LOCK)
    return work.entries or work.next_at


def apply_readings(agenda, entries, readings, reply, now, rand):
    """Apply the readings to the jobs, and that of the whole reply to their bucket."""
    steps = agenda.apply_readings(entries, readings, now, rand)
    agenda.release_slot()
    apply_feedback(entries[0].lane, reply, steps, now)
    return steps


class Tokens:
    """A bucket without a lock."""

    def __init__(self, bucket):
        self.bucket = bucket
        self.granted = []

    @property
    def interval(self):
        return gcra.grant_interval(self.bucket)

    def reserve(self, now, latest, is_final_poll=False):
        self.bucket, ready_at = gcra.reserve(self.bucket, now, latest, is_final_poll)
        if ready_at <= latest:
            self.granted.append(ready_at)
        return ready_at

    def apply_feedback(self, reading, now, until):
        self.bucket = gcra.apply_feedback(self.bucket, reading, now, until)


def make_lane(rate=1e6, burst=1e6, **more):
    return Lane(Tokens(Bucket(rate, burst)), **more)


def ids(entries):
    return [entry.state.job.id for entry in entries]


def reply(agenda, entries, reading, now, rand=0.5):
    return apply_readings(agenda, entries, [reading] * len(entries), reading, now, rand)
