"""The state of one wait, and the actions that it asks a driver for.

House rules: these are immutable values; only machine.py decides how one follows from another.
core/snapshot.py stores every field of WaitState by name, and the tuples in it by position, so a
new field goes to the end of its class and has a default.
"""

from enum import Enum
from typing import Any, FrozenSet, NamedTuple, Optional, Union

from ..learning.progress import Forecast
from ..model import Error, Job, Outcome, Slept, State, display_id
from ..profiles.profile import Profile
from ..units import NEVER
from ..urls import redact_url

PACE, LIMIT, RETRY_AFTER, FAULT = Slept._fields  # the reasons for a sleep
_SLEPT_INDEX = {why: i for i, why in enumerate(Slept._fields)}


class RetryState(NamedTuple):
    """Faults and retries since the last good reply. They don't affect the pace.

    Also the end that the last good replies reported, if it must be confirmed by another one.
    """

    faults_in_row: int = 0
    steps: int = 0  # of the retry backoff, including those after a 404 or 429
    delay_s: float = 0.0  # the last step's
    hops: int = 0  # redirects (303) followed in a row
    has_renewed_credential: bool = False  # a 401 asked for a fresh credential
    has_polled_since: bool = False  # the job was polled with the fresh credential
    missing_age: Optional[float] = None  # the age of the wait from which 404s count
    unconfirmed_end: Optional[str] = None  # done or failed
    times_seen: int = 0  # that end, in a row
    is_unheld: bool = False  # a held poll was refused or cut

    @property
    def needs_fresh_credential(self) -> bool:
        """Whether the next poll must read the credential again."""
        return self.has_renewed_credential and not self.has_polled_since


class Ending(NamedTuple):
    """How a wait ended."""

    state: State
    at: float
    result: Any = None
    error: Optional[Error] = None
    notice_delay_s: Optional[float] = None
    duration_s: Optional[float] = None
    saved_to: Optional[str] = None


class DoneJob(NamedTuple):
    """A job that is done and whose result is being fetched: see result_stage.py."""

    age: float  # of the wait, when the job was seen done
    link: Optional[str] = None  # the URL of the result; None: poll the job again to get one
    notice_delay_s: Optional[float] = None
    duration_s: Optional[float] = None
    has_disk_fault: bool = False  # the last attempt failed because of its file


class Cancel(str, Enum):
    """The request to cancel a job: see cancelling.py."""

    DUE = "due"  # it is the next request
    DUE_AT_TIMEOUT = "due-at-timeout"  # so it is, because the job has timed out
    SENT = "sent"  # the API has accepted it; the next polls show whether the job ends
    FAILED = "failed"  # the API has refused it; the job is polled as before


NO_RETRIES = RetryState()
NOTHING_SLEPT = Slept()
NO_WARNINGS: FrozenSet[str] = frozenset()


class WaitState(NamedTuple):
    """The state of one wait between two polls."""

    job: Job
    url: str
    started_at: float
    deadline: float
    next_at: float  # of the next poll
    wait_from: float  # the start of the sleep until next_at
    why: str = PACE  # the reason for that sleep
    polls: int = 0
    pending_polls: int = 0  # polls that found the job pending: the pace counts only these
    pace_wait: float = 0.0  # the last delay that the pace chose
    faults: int = 0
    status: Optional[str] = None
    fraction: Optional[float] = None
    etag: Optional[str] = None
    is_moved: bool = False  # `url` comes from a 303, so it is read with GET
    is_accepted: bool = False  # only bare 202s so far: a reply without a status is the result
    slept: Slept = NOTHING_SLEPT
    retry: RetryState = NO_RETRIES
    warnings: FrozenSet[str] = NO_WARNINGS  # those given so far; each is given once
    seen_at: Optional[float] = None  # when the job was last seen pending
    forecast: Optional[Forecast] = None  # from the job's reported progress
    total: Optional[float] = None  # the number that `fraction` is a fraction of, if known
    last_fault: Optional[str] = None  # kept after good replies, for status displays
    ending: Optional[Ending] = None
    done: Optional[DoneJob] = None  # the job is done, and its result is being fetched
    cancel: Optional[str] = None  # a value of Cancel

    @property
    def is_cancel_due(self) -> bool:
        """Whether the next request asks the API to cancel the job."""
        if self.cancel is None:  # nearly always; comparing None with an Enum takes longer
            return False
        return self.cancel in (Cancel.DUE, Cancel.DUE_AT_TIMEOUT)

    @property
    def next_url(self) -> str:
        """The URL of the next request, unless that is a request to cancel the job."""
        if self.done is not None and self.done.link is not None:
            return self.done.link
        return self.url

    @property
    def pending_age(self) -> float:
        """The age of the wait when the job was last seen pending; 0 before that."""
        return 0.0 if self.seen_at is None else self.seen_at - self.started_at

    def with_sleep(
        self, next_at: float, wait_from: float, why: str, pace_wait: float
    ) -> "WaitState":
        """The state with another sleep before its next poll; _replace takes twice as long."""
        sleep = (next_at, wait_from, why)
        counts = (self.polls, self.pending_polls)
        return WaitState._make(
            self[:_NEXT_AT] + sleep + counts + (pace_wait,) + self[_PACE_WAIT + 1 :]
        )

    def slept_by(self, now: float) -> Slept:
        """The seconds slept so far, including the current sleep, which may be cut short."""
        slept_until = now if now < self.next_at else self.next_at
        slept_s = slept_until - self.wait_from
        if slept_s <= 0:
            return self.slept
        slept = list(self.slept)
        slept[_SLEPT_INDEX[self.why]] += slept_s
        return Slept._make(slept)

    def outcome(self, profile: Profile, wall_offset: float) -> Outcome:
        """The Outcome of a wait that has ended.

        `wall_offset` is the wall-clock time minus the time on the wait's clock.
        """
        job = self.job
        ending = self.ending
        if ending is None:
            raise ValueError("the wait for %s has not ended" % job.id)
        return Outcome(
            display_id(job),
            redact_url(self.url) or None,
            job.profile or profile.name,
            job.label,
            job.metadata,
            ending.state,
            self.status,
            ending.result,
            ending.error,
            self.fraction,
            self.polls,
            self.faults,
            ending.at - self.started_at,
            self.slept,
            ending.notice_delay_s,
            self.started_at + wall_offset,
            ending.at + wall_offset,
            ending.saved_to,
        )


# Between these two: the start of the sleep and its reason, and the numbers of polls.
_NEXT_AT = WaitState._fields.index("next_at")
_PACE_WAIT = WaitState._fields.index("pace_wait")


class Sleep(NamedTuple):
    """Nothing to do before `until`."""

    until: float
    why: str


class Poll(NamedTuple):
    """Poll the job now, or fetch its result, or ask the API to cancel it."""

    url: str
    etag: Optional[str]
    needs_fresh_credential: bool
    is_moved: bool
    is_accepted: bool = False
    is_result: bool = False  # `url` is that of the result
    is_cancel: bool = False  # the profile has the URL of the request
    hold_s: float = 0.0  # how long the server may hold it; 0: an ordinary poll
    hold_index: Optional[str] = None  # of the last reply, for a held poll
    left_s: float = NEVER  # until the deadline, for a held poll


Action = Union[Sleep, Poll, Ending]
