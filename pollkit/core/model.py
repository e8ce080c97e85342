"""The values that all other modules use: Job, Reply, Fault, Outcome.

House rules: values are immutable and compare by content. Seconds are floats; `_at` is an
instant, `_s` a duration.
"""

import re
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any, Dict, Mapping, NamedTuple, Optional, Union

from ..errors import ConfigError
from .units import Duration, to_seconds
from .urls import is_url, redact_url

NO_TIMEOUT = "never"  # a job's timeout: wait for it without a deadline
LONGEST_TEXT = 10000  # characters of a server's message that are shown or stored

_TRACEBACK = "Traceback (most recent call last):"
_NOT_INDENTED = r"\n(?=\S)"  # compiled for the first traceback
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class State(str, Enum):
    """The state of an outcome. Equal to its value: `outcome.state == "done"`."""

    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    CANCELLED = "cancelled"

    def __str__(self) -> str:
        return str(self.value)

    # The same text with '%s' and '{}' on every Python.
    def __format__(self, specification: str) -> str:
        return str(self).__format__(specification)


class Job(NamedTuple):
    """Remote work to wait for.

    `timeout` is the longest time to wait for this job: seconds, a text such as '10m', a timedelta,
    'never', or 0 to poll once. It takes precedence over the timeout of the poller, the command and
    the profile; None means that theirs applies.

    >>> Job("job_1", label="small").id
    'job_1'
    """

    id: str
    url: Optional[str] = None
    profile: Optional[str] = None
    label: Optional[str] = None
    size: Optional[float] = None
    metadata: Optional[Mapping[str, Any]] = None
    timeout: Optional[Duration] = None

    @classmethod
    def from_any(cls, job: "Union[Job, str]") -> "Job":
        """A valid job, from a Job, a URL or an id; otherwise a ConfigError."""
        if isinstance(job, str):
            return cls(job, url=job if is_url(job) else None)
        if not isinstance(job, cls):
            raise ConfigError("a job must be a Job, a URL or an id, not %r" % (job,))
        if not isinstance(job.id, str):
            raise ConfigError("a job's id must be text, not %r" % (job.id,))
        if job.url is not None and not isinstance(job.url, str):
            raise ConfigError("a job's URL must be text, not %r" % (job.url,))
        if job.profile is not None and not isinstance(job.profile, str):
            raise ConfigError(
                "a job's profile must be a name, not %s: pass a Profile to the poller"
                % type(job.profile).__name__
            )
        if job.metadata is not None and not isinstance(job.metadata, Mapping):
            raise ConfigError(
                "a job's metadata must be a mapping such as {'customer': 7}, not %r"
                % (job.metadata,)
            )
        if job.timeout is None:
            return job
        return job._replace(timeout=job_timeout(job.timeout))


def job_timeout(value: Duration) -> Union[float, str]:
    """A job's own timeout in seconds, or NO_TIMEOUT; otherwise a ConfigError.

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
            raise ConfigError("a reply's status must be a number such as 200, not %r" % (status,))
        if not isinstance(raw, (bytes, bytearray)):
            raise ConfigError(
                "a reply's body must be bytes or text, not %s: return decoded data without a Reply"
                % type(raw).__name__
            )
        return super().__new__(cls, status, lowered, raw, url, received_at)


class FaultCode(Enum):
    """The kind of a fault. Decisions depend on the code, never on the message."""

    NAME = "name"  # the host name was not resolved
    CONNECT = "connect"  # refused, unreachable, or no answer
    NO_RESOURCES = "no resources"  # this host has no more files, sockets or memory
    PROXY = "proxy"  # the proxy refused, or opened no tunnel
    TLS = "tls"  # the TLS handshake failed
    HANDSHAKE = "handshake"  # the server aborted it, perhaps because we sent no certificate
    CERTIFICATE = "certificate"  # we don't accept the server's certificate:
    CERTIFICATE_DATE = "certificate date"  # it has expired, or is not valid yet
    CERTIFICATE_NAME = "certificate name"  # it is for another host
    CERTIFICATE_STRICT = "certificate strict"  # only the stricter rules of Python 3.13 reject it
    CLIENT_CERTIFICATE = "client certificate"  # the server asks for a client certificate
    TIMEOUT = "timeout"  # no complete reply in time
    NO_REPLY = "no reply"  # the connection was closed before a reply began
    BROKEN = "broken"  # the connection was closed within a reply
    BAD_HTTP = "bad http"  # the reply is not HTTP
    TOO_LARGE = "too large"
    REDIRECT = "redirect"  # a redirect that is not followed
    HTTP_ERROR = "http error"  # 408, 425, 5xx
    UNREADABLE = "unreadable"  # the body is not JSON
    HTML = "html"  # the body is HTML
    NO_STATUS = "no status"  # the body has no status
    UNKNOWN_STATUS = "unknown status"  # not a fault: a status that is not in the table
    CONFIG = "config"  # the request can't be sent as configured
    CALL = "call"  # a callable raised an exception
    CUT = "cut"  # a download ended early: the server is up, but did not send all of it
    DISK = "disk"  # a result can't be written to its file
    BUG = "bug"
    OTHER = "other"


class Fault(NamedTuple):
    """A poll without a usable reply; `final` if to poll again can't help.

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
    """The number of requests, and of those that met a fault, the rate limit or a Retry-After."""

    polls: int = 0
    faults: int = 0
    rate_limited: int = 0
    pauses: int = 0  # replies with a Retry-After

    def plus(self, other: "Counts") -> "Counts":
        """The sum of both."""
        return Counts(
            self.polls + other.polls,
            self.faults + other.faults,
            self.rate_limited + other.rate_limited,
            self.pauses + other.pauses,
        )


NOTHING_COUNTED = Counts()


class Error(NamedTuple):
    """The reason why a job is not done; `code` is the API's own code, if it sent one."""

    code: Optional[str]
    message: str


class Slept(NamedTuple):
    """The seconds slept, by reason."""

    pace: float = 0.0
    limit: float = 0.0
    retry_after: float = 0.0
    fault: float = 0.0


class Outcome(NamedTuple):
    """The result of a wait, and its cost in polls and time; `metadata` is that of the job.

    `saved_to` is the path of the file that has the result, if it was saved.
    """

    id: str
    url: Optional[str]
    profile: Optional[str]
    label: Optional[str]
    metadata: Optional[Mapping[str, Any]]
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
    saved_to: Optional[str] = None

    def as_dict(self) -> Dict[str, Any]:
        """The outcome as JSON data: instants in ISO 8601, durations to the millisecond."""
        delay = self.notice_delay_s
        slept_s = self.slept_s._asdict().items()
        fields = dict(self._asdict())
        fields.update(
            metadata=None if self.metadata is None else dict(self.metadata),
            state=self.state.value,
            error=dict(self.error._asdict()) if self.error else None,
            waited_s=round(self.waited_s, 3),
            slept_s={reason: round(seconds, 3) for reason, seconds in slept_s},
            notice_delay_s=None if delay is None else round(delay, 3),
            started_at=iso_text(self.started_at),
            ended_at=iso_text(self.ended_at),
            saved_to=None if self.saved_to is None else _utf8_path(self.saved_to),
        )
        return fields

    def summary(self) -> str:
        """The outcome in one line."""
        state = str(self.state).replace("_", " ")
        polls = "1 poll" if self.polls == 1 else "%d polls" % self.polls
        text = "%s: %s after %.1f s and %s" % (self.id, state, self.waited_s, polls)
        return text + ": " + one_line(self.error.message) if self.error else text


def _utf8_path(path: str) -> str:
    """A path as text: in the C locale, Python 3.6 has the bytes of an 'é' as lone surrogates."""
    try:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # other surrogates, as Windows has them
        return path


def one_line(text: str, longest: int = 300) -> str:
    """Untrusted text, flattened to one line and truncated.

    A truncated text keeps its last line, and a traceback is reduced to its exception: in both
    cases the last line has the news.

    >>> one_line('Traceback (most recent call last):\\n  File "job.py"\\nValueError: page 3')
    'ValueError: page 3'
    """
    text = _without_frames(text)
    start = text[: 20 * longest]  # to split 10 MB into words would take 500 MB
    line = _flatten(start)
    if len(line) <= longest and len(start) == len(text):
        return line
    last = _flatten(last_line(text, 20 * longest))
    if not last:
        return line[: longest - 3] + "..."
    most = longest // 2
    if len(last) > most:
        last = last[: most - 3] + "..."
    return "%s... %s" % (line[: longest - len(last) - 4], last)


def last_line(text: str, longest: int) -> str:
    """The last line of a text that has several; empty if it is longer than `longest`."""
    _, line_end, line = text[-longest:].rstrip().rpartition("\n")
    return line if line_end else ""


def _flatten(text: str) -> str:
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else "?" for c in line)


def _without_frames(text: str) -> str:
    """A text without the frames of the Python tracebacks in it, if an exception follows them."""
    start = text.find(_TRACEBACK)
    if start < 0:
        return text
    exception = re.compile(_NOT_INDENTED).search(text, text.rfind(_TRACEBACK))
    return text[:start] + text[exception.start() :] if exception else text


def display_id(job: Job) -> str:
    """A job's id for display: if it is a URL, without its secrets."""
    return redact_url(job.id) if is_url(job.id) else job.id


def iso_text(at: float) -> str:
    """An instant (seconds since 1970, UTC) in ISO 8601."""
    return (_EPOCH + timedelta(seconds=at)).isoformat(timespec="milliseconds")[:-6] + "Z"
