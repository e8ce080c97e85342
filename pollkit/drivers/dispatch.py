"""Which jobs to poll now: the agenda proposes, a bucket grants or refuses, the agenda dispatches.

The bucket is asked outside of core and without the lock: it may be a file that processes share.
"""

from typing import ContextManager, List, NamedTuple, Sequence

from ..core.agenda import Agenda, Step
from ..core.lane import Entry, Lane
from ..core.reading.reader import Reading, Verdict

SHORTEST_PAUSE_S = 1.0  # after a 429 that names no time


class Work(NamedTuple):
    """Jobs to poll in one exchange; if there are none, the instant to ask again."""

    entries: List[Entry]
    next_at: float


def next_work(agenda: Agenda, now: float, lock: ContextManager[object]) -> Work:
    """The next jobs to poll, with a token reserved for them."""
    while True:
        with lock:
            entry = agenda.candidate(now)
            if entry is None:
                return Work([], agenda.next_at())
            is_last_look = now >= entry.state.deadline
        bucket = entry.lane.bucket
        ready_at = bucket.reserve(now, now, is_last_look)
        with lock:
            if ready_at > now:
                agenda.refuse(entry.lane, ready_at, bucket.interval, now)
                continue
            entries = agenda.dispatch(entry, now)
            if entries:  # none if the job was cancelled in between
                return Work(entries, now)


def apply_feedback(lane: Lane, heard: Reading, steps: Sequence[Step], now: float) -> None:
    """Tell the bucket what a reply says about the limit, if it says anything.

    After a 429 without Retry-After everyone pauses until its own jobs are polled again.
    """
    if heard.verdict is Verdict.LIMITED:
        next_at = max([step.after.next_at for step in steps], default=now)
        lane.bucket.apply_feedback(heard, now, max(now + SHORTEST_PAUSE_S, next_at))
    elif heard.quota is not None:
        lane.bucket.apply_feedback(heard, now, now)
