"""The values that a storage takes and returns."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...core.learning.completions import observed_duration
from ...core.learning.durations import Completion
from ...core.limits.bucket import Bucket
from ...core.model import NOTHING_COUNTED, Counts, Job, Outcome
from ...core.profiles.origins import origin_text
from ...core.scheduling.outages import Outage
from ...core.snapshot import (
    is_instant,
    state_from_row,
    state_to_row,
    with_current_deadline,
    with_final_poll,
)
from ...core.submitting.intent import Intent, Stage
from ...core.urls import parse_url
from ...core.waiting.ends.deadlines import outage_seconds
from ...core.waiting.machine import start
from ...core.waiting.wait_settings import WaitSettings
from ...core.waiting.wait_state import WaitState

WAITING = "waiting"
LEASED = "leased"

Kind = Tuple[str, str]  # a profile and a label, '' for none
Duration = Tuple[float, float]  # the job finished between these ages; equal if known exactly


class Observed(NamedTuple):
    """The latest completions of a kind of job, and the ages of the pending jobs.

    Pending jobs are named by their starts; no two jobs have the same start.
    """

    completions: List[Completion]
    pending: Dict[float, float]


class Added(NamedTuple):
    """How many of the added jobs are new, and the ids that were in the ledger already."""

    new: int
    known: List[str]


class IntentStatus(NamedTuple):
    """How far the submission of a job has come."""

    url: str  # to which it is submitted
    stage: Stage
    faults: int  # in a row
    last_fault: Optional[str]


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
    submission: Optional[IntentStatus] = None  # None once the job was submitted

    @property
    def faults(self) -> int:
        """The faults so far; 0 for a finished job, whose outcome has the number."""
        if self.submission is not None and self.ended_at is None:
            return self.submission.faults
        return int(self.progress.get("faults", 0))

    @property
    def last_fault(self) -> Optional[str]:
        """The last fault so far, if any; None for a finished job."""
        if self.submission is not None and self.ended_at is None:
            return self.submission.last_fault
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
    intent: Optional[Intent] = None  # of a job that is still to be submitted

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


class PollResult(NamedTuple):
    """The result of a poll for one job: its progress, or its outcome."""

    claim: Claim
    state: WaitState
    outcome: Optional[Outcome] = None  # None if the job has not finished
    url: str = ""  # the one that the job's profile gives: only a different one has to be saved
    origin: Optional[str] = None  # the one that was polled
    counts: Counts = NOTHING_COUNTED

    def progress_text(self, offset: float) -> str:
        """The state of the wait as JSON; its instants are moved by `offset`."""
        return _to_json(state_to_row(self.state, self.url, offset))

    def outcome_text(self) -> str:
        """The outcome as JSON; '' if there is none."""
        return "" if self.outcome is None else _to_json(self.outcome.as_dict())

    @property
    def kind(self) -> Kind:
        """The profile and the label, as the outcome names them."""
        outcome = self.outcome
        return ("", "") if outcome is None else (outcome.profile or "", outcome.label or "")

    @property
    def duration(self) -> Optional[Duration]:
        """How long a finished job took, if that is known; in milliseconds precision."""
        known = observed_duration(self.state)
        if known is None:
            return None
        least_s, most_s = known
        return round(least_s, 3), round(most_s, 3)


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


class CopiedJob(NamedTuple):
    """All that a storage has about a job, apart from leases; instants are wall-clock time."""

    key: int  # in the storage that it was read from
    id: str
    url: Optional[str]
    profile: Optional[str]
    label: Optional[str]
    size: Optional[float]
    metadata: Optional[str]
    timeout_s: Optional[float]
    state: str
    added_at: float
    origin: Optional[str]
    due_at: Optional[float]
    progress: Optional[str]
    ended_at: Optional[float]
    notice_delay_s: Optional[float]
    notify_at: Optional[float]
    notify_since: Optional[float]
    notify_attempts: int
    notify_error: Optional[str]
    notified_at: Optional[float]
    outbox_at: Optional[float]
    polls: Optional[int]  # of a finished job
    cancel_at: Optional[float]
    idempotency_key: Optional[str]  # of the intent, and so are the next seven
    submit_url: Optional[str]
    body: Optional[str]
    stage: Optional[str]
    first_sent_at: Optional[float]
    sent_at: Optional[float]
    faults: Optional[int]
    last_fault: Optional[str]
    outcome: Optional[str]

    @property
    def intent(self) -> Tuple[Any, ...]:
        """The columns of the intent; the first is None if the job has none."""
        return self[-9:-1]

    def moved(self, by: float) -> "CopiedJob":
        """The job with all instants moved by so many seconds."""
        instants = {
            name: value + by
            for name, value in self._asdict().items()
            if value is not None and (name.endswith("_at") or name == "notify_since")
        }
        return self._replace(progress=_move_progress(self.progress, by), **instants)


def _move_progress(text: Optional[str], by: float) -> Optional[str]:
    try:
        saved = json.loads(text or "")
        moved = {
            name: round(value + by, 3) if is_instant(name) else value
            for name, value in saved.items()
        }
    except (AttributeError, TypeError, ValueError):
        return text  # there is none, or it was edited by hand
    return _to_json(moved)


def _to_json(value: Dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


class CopiedDuration(NamedTuple):
    """A duration as it is stored; `began_at` is wall-clock time."""

    profile: str
    label: str
    least_s: float
    most_s: float
    began_at: float


class CopiedFault(NamedTuple):
    """The number of faults of a kind in an hour, counted from 1970."""

    hour: int
    kind: str
    faults: int


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


class CopiedStatistics(NamedTuple):
    """All statistics; instants are wall-clock time."""

    durations: Sequence[CopiedDuration]
    minutes: Sequence[Minute]
    faults: Sequence[CopiedFault]
    outages: Sequence[Outage]  # that have ended
