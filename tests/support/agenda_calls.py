"""The agenda as drivers call it, for tests: it proposes, the bucket answers, it dispatches."""

import threading

from pollkit.drivers.dispatch import apply_feedback, next_work

LOCK = threading.Lock()


def take(agenda, now):
    """The entries to poll now; or, if there are none, the instant to ask again."""
    work = next_work(agenda, now, LOCK)
    return work.entries or work.next_at


def give_back(agenda, entries, readings, heard, now, rand):
    """What a reply changes, for its jobs and for their bucket."""
    steps = agenda.give_back(entries, readings, now, rand)
    agenda.release_slot()
    apply_feedback(entries[0].lane, heard, steps, now)
    return steps
