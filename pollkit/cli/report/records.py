"""The data of a report, whatever its source."""

from typing import Dict, List, NamedTuple, Optional

from ...core.learning.curve import Curve
from ...core.model import Slept
from ...core.scheduling.outages import Outage
from ...edges.ledger.records import Minute


class ReportJob(NamedTuple):
    """A job; its instants are wall-clock time, its texts are short and on one line."""

    id: str
    profile: str
    label: str
    state: str
    began_at: float
    ended_at: Optional[float]  # None while it waits
    polls: int
    faults: int
    slept: Slept
    notice_delay_s: Optional[float] = None
    error_code: str = ""
    error_message: str = ""

    @property
    def kind(self) -> str:
        """The profile and the label."""
        return ":".join(filter(None, (self.profile, self.label))) or "no label"

    @property
    def duration_s(self) -> float:
        """How long a finished job took, as far as it is known."""
        return (self.ended_at or 0.0) - self.began_at - (self.notice_delay_s or 0.0)


class Kind(NamedTuple):
    """The durations of one kind of job, and the curve that the pace has learned from them."""

    name: str
    durations: List[float]
    curve: Curve
    pace: str
    poll_ages: List[float]  # when this pace would poll a new job


class RequestLimit(NamedTuple):
    """A rate limit in requests per minute, and its text."""

    per_minute: float
    text: str


class ReportData(NamedTuple):
    """All that a report shows."""

    title: str
    now: float
    jobs: List[ReportJob]
    kinds: List[Kind]
    filters: str = ""  # the --since and --label in words
    minutes: Optional[List[Minute]] = None  # None if the source does not have them
    limits: Dict[str, RequestLimit] = {}  # by profile, or by origin if there is no profile
    outages: List[Outage] = []
    fault_kinds: Dict[str, int] = {}
    skipped_lines: int = 0  # of a file, that are no outcomes

    @property
    def began_at(self) -> float:
        """When the first job was added."""
        return min((job.began_at for job in self.jobs), default=self.now)

    @property
    def ended_at(self) -> float:
        """When the last job finished; now, if a job still waits."""
        ends = [self.now if job.ended_at is None else job.ended_at for job in self.jobs]
        return max(ends, default=self.now)
