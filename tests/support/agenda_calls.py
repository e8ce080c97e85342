"""Calls of the agenda as drivers make them, with the token from the bucket in between."""

import threading

from pollkit.drivers.dispatch import apply_feedback, next_work

LOCK = threading.Lock()


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
