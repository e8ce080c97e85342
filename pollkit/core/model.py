"""The values everything else speaks in: Job, Reply, Fault, Outcome.

House rules: values are immutable and compare by content. Seconds are floats; `_at` is an
instant, `_s` a duration. Nothing here knows how a value was come by.
"""

from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any, Dict, Mapping, NamedTuple, Optional, Union

from ..errors import ConfigError
from .units import to_seconds
from .urls import is_url, redact_url

NO_TIMEOUT = "never"  # a job's timeout: wait for it without a deadline
LONGEST_TEXT = 10000  # characters of a server's message that are shown or stored

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class State(str, Enum):
    """How a wait ended. Equal to its word: `outcome.state == "done"`."""

    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    CANCELLED = "cancelled"

    def __str__(self) -> str:
        return str(self.value)

    def __format__(
        self, specification: str
    ) -> str:  # the same text in '%s' and '{}' on every Python
        return str(self).__format__(specification)


class Job(NamedTuple):
    """Remote work to wait for.

    `timeout` is how long to wait for this job: seconds or text such as '10m', 'never', or 0 to
    poll once. It takes precedence over the timeout of the poller, the command and the profile;
    None means that theirs applies.

    >>> Job("job_1", label="small").id
    'job_1'
    """

    id: str
    url: Optional[str] = None
    profile: Optional[str] = None
    label: Optional[str] = None
    size: Optional[float] = None
    metadata: Optional[Mapping[str, Any]] = None
    timeout: Union[float, str, None] = None

    @classmethod
    def from_any(cls, job: "Union[Job, str]") -> "Job":
        """A job as it is, or made from a URL or an id."""
        if isinstance(job, cls):
            if not isinstance(job.id, str):
                raise ConfigError("a job's id is text, not %r" % (job.id,))
            if job.url is not None and not isinstance(job.url, str):
                raise ConfigError("a job's URL is text, not %r" % (job.url,))
            if job.profile is not None and not isinstance(job.profile, str):
                raise ConfigError(
                    "a job names its profile: %s itself goes to the poller"
                    % type(job.profile).__name__
                )
            if job.timeout is not None:
                job = job._replace(timeout=job_timeout(job.timeout))
            return job
        if not isinstance(job, str):
            raise ConfigError("a job is a Job, a URL or an id, not %r" % (job,))
        return cls(job, url=job if is_url(job) else None)


def job_timeout(value: Union[float, str]) -> Union[float, str]:
    """A job's own timeout in seconds, or NO_TIMEOUT; a ConfigError if it is neither.

    >>> job_timeout("10m")
    600.0
    """
    if isinstance(value, str) and value.strip().lower() == NO_TIMEOUT:
        return NO_TIMEOUT
    try:
        return to_seconds(value, "a job's timeout")
    except ConfigError as error:
        raise ConfigError("%s; 'never' means no timeout" % error) from None


class Reply(
    NamedTuple(
        "Reply",
        [
            ("status", int),
            ("headers", Mapping[str, str]),
            ("body", bytes),
            ("url", str),
            ("received_at", Optional[float]),
        ],
    )
):
    """An HTTP reply, its header names in lower case; `received_at` is wall-clock time.

    >>> Reply(200, {"Retry-After": "5"}, b"{}").headers
    {'retry-after': '5'}
    """

    __slots__ = ()

    def __new__(
        cls,
        status: int = 200,
        headers: Optional[Mapping[str, str]] = None,
        body: Union[bytes, str] = b"",
        url: str = "",
        received_at: Optional[float] = None,
    ) -> "Reply":
        lowered = {name.lower(): str(value) for name, value in (headers or {}).items()}
        raw = body.encode("utf-8") if isinstance(body, str) else body or b""
        if not isinstance(status, int):
            raise ConfigError("a reply's status is a number such as 200, not %r" % (status,))
        if not isinstance(raw, (bytes, bytearray)):
            raise ConfigError(
                "a reply's body is bytes or text, not %s: data that is decoded needs no Reply around it"
                % type(raw).__name__
            )
        return super().__new__(cls, status, lowered, raw, url, received_at)


class FaultCode(Enum):
    """What kind of fault it is. Decisions use the code, never the words of the message."""

    NAME = "name"  # the host name was not resolved
    CONNECT = "connect"  # refused, unreachable, or no answer
    PROXY = "proxy"  # the proxy refused, or opened no tunnel
    TLS = "tls"  # no TLS handshake
    HANDSHAKE = "handshake"  # the server broke it off, perhaps for want of a certificate
    CERTIFICATE = "certificate"  # we don't accept the server's certificate,
    CERTIFICATE_DATE = "certificate date"  # because of its dates,
    CERTIFICATE_NAME = "certificate name"  # because it is for another host,
    CERTIFICATE_STRICT = "certificate strict"  # or by Python 3.13's stricter rules only
    CLIENT_CERTIFICATE = "client certificate"  # the server wants a certificate of ours
    TIMEOUT = "timeout"  # no complete reply in time
    NO_REPLY = "no reply"  # the connection ended before a reply began
    BROKEN = "broken"  # the connection ended within a reply
    BAD_HTTP = "bad http"  # the reply is not HTTP
    TOO_LARGE = "too large"
    REDIRECT = "redirect"  # a redirect that is not followed
    HTTP_ERROR = "http error"  # 408, 425, 5xx
    UNREADABLE = "unreadable"  # the body is not JSON,
    HTML = "html"  # but HTML
    NO_STATUS = "no status"  # there is no status in it
    UNKNOWN_STATUS = "unknown status"  # no fault: a status that is not in the table
    CONFIG = "config"  # the request can't be sent as configured
    CALL = "call"  # a callable raised an exception
    BUG = "bug"
    OTHER = "other"


class Fault(NamedTuple):
    """A poll with no usable reply, in words; `final` if polling again can't help.

    >>> print(Fault("connection refused", advice="is the server up?"))
    connection refused (is the server up?)
    """

    message: str
    advice: str = ""
    final: bool = False
    code: FaultCode = FaultCode.OTHER

    def __str__(self) -> str:
        return "%s (%s)" % (self.message, self.advice) if self.advice else self.message


class Counts(NamedTuple):
    """How many requests were sent, and how many of them met a fault or the rate limit."""

    polls: int = 0
    faults: int = 0
    rate_limited: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """The sum of both."""
        return Counts(
            self.polls + other.polls,
            self.faults + other.faults,
            self.rate_limited + other.rate_limited,
        )


NOTHING_COUNTED = Counts()


class Error(NamedTuple):
    """Why a wait did not end with 'done': the API's own code, if it gave one, and words."""

    code: Optional[str]
    message: str


class Slept(NamedTuple):
    """Seconds slept, by what they were slept for."""

    pace: float = 0.0
    limit: float = 0.0
    retry_after: float = 0.0
    fault: float = 0.0


class Outcome(NamedTuple):
    """How a wait ended, and what it took."""

    id: str
    url: Optional[str]
    profile: Optional[str]
    label: Optional[str]
    state: State
    status: Optional[str]
    result: Any
    error: Optional[Error]
    progress: Optional[float]
    polls: int
    faults: int
    waited_s: float
    slept_s: Slept
    notice_delay_s: Optional[float]
    started_at: float
    ended_at: float

    def as_dict(self) -> Dict[str, Any]:
        """The outcome as JSON has it: instants in ISO 8601, durations to the millisecond."""
        delay = self.notice_delay_s
        shown = self._asdict()
        shown.update(
            state=self.state.value,
            error=dict(self.error._asdict()) if self.error else None,
            waited_s=round(self.waited_s, 3),
            slept_s={why: round(slept, 3) for why, slept in self.slept_s._asdict().items()},
            notice_delay_s=None if delay is None else round(delay, 3),
            started_at=iso_text(self.started_at),
            ended_at=iso_text(self.ended_at),
        )
        return dict(shown)

    def summary(self) -> str:
        """The outcome in one line."""
        text = "%s: %s after %.1f s and %d %s" % (
            self.id,
            str(self.state).replace("_", " "),
            self.waited_s,
            self.polls,
            "poll" if self.polls == 1 else "polls",
        )
        return text + (": " + one_line(self.error.message) if self.error else "")


def one_line(text: str, longest: int = 300) -> str:
    """Untrusted text, flattened to one line and truncated."""
    start = text[: 20 * longest]  # splitting 10 MB into words would take 500 MB
    line = " ".join(start.split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else "?" for c in line)
    is_whole = len(line) <= longest and len(start) == len(text)
    return line if is_whole else line[: longest - 3] + "..."


def display_id(job: Job) -> str:
    """A job's id as it may be shown: one that is a URL loses what looks like a secret."""
    return redact_url(job.id) if is_url(job.id) else job.id


def iso_text(at: float) -> str:
    """An instant (seconds since 1970, UTC) in ISO 8601."""
    return (_EPOCH + timedelta(seconds=at)).isoformat(timespec="milliseconds")[:-6] + "Z"
