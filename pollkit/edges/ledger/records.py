"""The values that a storage takes and returns."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...core.deadlines import outage_seconds
from ...core.limits.bucket import Bucket
from ...core.machine import start
from ...core.model import Counts, Job
from ...core.origins import origin_text
from ...core.outages import Outage
from ...core.snapshot import state_from_row, with_current_deadline, with_final_poll
from ...core.urls import parse_url
from ...core.wait_settings import WaitSettings
from ...core.wait_state import WaitState

WAITING = "waiting"
LEASED = "leased"

Kind = Tuple[str, str]  # a profile and a label, '' for none
Duration = Tuple[float, float]  # the job finished between these ages; equal if known exactly


class Added(NamedTuple):
    """How many of the added jobs are new, and the ids that were in the ledger already."""

    new: int
    known: List[str]


class JobRow(NamedTuple):
    """A job and its state; instants are wall-clock time."""

    job: Job
    state: str
    added_at: float
    due_at: Optional[float]  # the next poll
    progress: Dict[str, Any]  # of a wait that has started: polls, status, fraction and others
    ended_at: Optional[float]
    outcome: Optional[Dict[str, Any]]  # as in JSON; None if the caller left outcomes out
    notify_attempts: int
    notified_at: Optional[float]
    notify_error: Optional[str]
    gave_up_notifying: bool
    origin: Optional[str] = None  # None until the job was polled
    # Extended by outages. None if there is none, if the job has finished, or if it is unknown: if
    # a job was never polled and was added without a timeout, the run chooses one.
    deadline: Optional[float] = None

    @property
    def faults(self) -> int:
        """The faults so far; 0 for a finished job, whose outcome has the number."""
        return int(self.progress.get("faults", 0))

    @property
    def last_fault(self) -> Optional[str]:
        """The last fault so far, if any; None for a finished job."""
        return self.progress.get("last_fault")


class Summary(NamedTuple):
    """The jobs of a ledger, counted."""

    states: Dict[str, int]  # waiting, leased, and the states of outcomes
    oldest_s: Optional[float]  # the age of the oldest job that has not finished
    pending_notifications: int
    gave_up_notifying: int
    faulty: int  # jobs that have not finished and whose last poll was a fault


def new_token() -> str:
    """A token for a claim, unlike any other."""
    return os.urandom(8).hex()


class Claim(NamedTuple):
    """A job that is leased to this process."""

    key: int
    token: str
    job: Job
    added_at: float  # on the ledger's clock, like every instant here
    saved: Optional[Dict[str, Any]]  # the progress that was last saved, if any
    offset: float  # an instant in `saved` - offset = the instant on the ledger's clock
    origin: Optional[str] = None  # as last saved
    outages: Tuple[Outage, ...] = ()  # since the earliest job of this claim was added

    def resume(self, url: str, settings: WaitSettings, now: float) -> WaitState:
        """Continue the wait for the job, or start it; `url` is the one that its profile gives.

        A wait starts when its job is added, and outages of its origin extend its deadline. If the
        deadline has passed, it becomes now, which leaves a final poll.
        """
        state = start(self.job, url, settings, min(now, self.added_at))
        if self.saved is not None:
            try:
                state = state_from_row(self.saved, self.job, url, self.offset)
            except (KeyError, TypeError, ValueError):
                pass  # the row was edited by hand: start over
        return with_final_poll(
            with_current_deadline(state, settings, self._extended_s(url, now)), now
        )

    def _extended_s(self, url: str, now: float) -> float:
        if not self.outages:
            return 0.0
        origin = self.origin or origin_text(parse_url(url))
        return outage_seconds(self.outages, origin, self.added_at, now)


class Notification(NamedTuple):
    """A finished job to report, claimed by this process."""

    key: int
    id: str
    ended_at: float  # in the storage's own time
    attempt: int  # 1 for the first
    metadata: Optional[Dict[str, Any]]
    outcome: Dict[str, Any]  # as in JSON
    is_in_outbox: bool = False  # the line was written by an earlier attempt
    last_error: Optional[str] = None  # why the last attempt failed

    def to_line(self) -> bytes:
        """The outcome as a line of JSON."""
        return (json.dumps(self.outcome) + "\n").encode("ascii")


class NotificationFailed(Exception):
    """A notification could not be delivered; the text says why."""


class OutageReport(NamedTuple):
    """An outage to report to a person; its instants are wall-clock time."""

    outage: Outage
    waiting_jobs: int  # those known to be of this origin


class Minute(NamedTuple):
    """The polls of one minute; `at` is its start in wall-clock time."""

    at: float
    profile: Optional[str]
    origin: Optional[str]
    counts: Counts


class StoredBucket(NamedTuple):
    """A rate limit as it is stored; its instants are on the ledger's clock."""

    rule: str  # the limit as text, '' if it is not known
    bucket: Bucket
    read_at: float
