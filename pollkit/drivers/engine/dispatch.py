"""Which jobs to poll now: the agenda proposes one, its bucket grants or refuses a token.

The bucket is called outside of core and without the lock: it may be a file that processes share.
"""

from typing import Any, ContextManager, List, NamedTuple, Optional, Sequence

from ...core.reading.verdict import Reading, Verdict
from ...core.scheduling.agenda import Agenda
from ...core.scheduling.lane import Entry, Lane
from ...core.scheduling.schedule import Step
from ...core.units import NEVER
from ...core.waiting.wait_state import WaitState

SHORTEST_PAUSE_S = 1.0  # after a 429 without Retry-After


class Work(NamedTuple):
    """Jobs to poll with one request; if there are none, the instant to try again.

    `state` is that of the first job when it was chosen: another thread may have cancelled it since.
    """

    entries: List[Entry]
    next_at: float
    state: Optional[WaitState] = None


def next_work(agenda: Agenda, now: float, lock: ContextManager[object]) -> Work:
    """The next jobs to poll, with a token reserved for them."""
    # In a busy batch this is the case after almost every poll; it saves the lock and a search.
    if not agenda.has_free_slot:
        return Work([], NEVER)
    unused: Any = None  # a bucket that has granted a token for a job that was cancelled meanwhile
    while True:
        with lock:
            entry = agenda.candidate(now)
            if entry is None:
                return Work([], agenda.next_at())
            is_final_poll = now >= entry.state.deadline
        bucket = entry.bucket_lane.bucket
        ready_at = now
        if bucket is not unused:
            ready_at = bucket.reserve(now, now, is_final_poll)
        with lock:
            if ready_at > now:
                agenda.refuse(entry.lane, ready_at, bucket.interval, now)
                continue
            entries = agenda.dispatch(entry, now)
            bucket.shadow_price = entry.bucket_lane.shadow_price
            if entries:
                return Work(entries, now, entry.state)
            unused = bucket


def apply_feedback(lane: Lane, reading: Reading, steps: Sequence[Step], now: float) -> None:
    """Pass the rate-limit information of a reply to the bucket, if the reply has any.

    After a 429 without Retry-After the whole lane pauses until the refused jobs are due again.
    """
    if reading.verdict is Verdict.LIMITED:
        next_at = max([step.after.next_at for step in steps], default=now)
        lane.bucket.apply_feedback(reading, now, max(now + SHORTEST_PAUSE_S, next_at))
    elif reading.quota is not None:
        lane.bucket.apply_feedback(reading, now, now)
