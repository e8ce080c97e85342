"""The result of reading one reply: a verdict, and the values that go with it."""

from enum import Enum
from typing import Any, NamedTuple, Optional, Tuple

from ..model import FaultCode
from .rate_limit_headers import Quota

SLOW_POLL_S = 0.2  # the duration of a shorter poll does not matter
# A held poll was cut, by the server or by a gateway, if it ended in one of these ways after at
# least LEAST_CUT_S. 524 is Cloudflare's timeout.
LEAST_CUT_S = 1.0
_CUT_CODES = (FaultCode.TIMEOUT, FaultCode.NO_REPLY, FaultCode.BROKEN)
_CUT_STATUSES = (408, 502, 504, 524)
_NOT_IMPLEMENTED = 501


class Verdict(Enum):
    """The meaning of one reply for the wait."""

    DONE = "done"
    FAILED = "failed"
    PENDING = "pending"
    SEE_OTHER = "see other"
    LIMITED = "limited"
    FAULT = "fault"
    UNAUTHORISED = "unauthorised"
    NOT_FOUND = "not found"
    REFUSED = "refused"
    UNHELD = "unheld"  # a held poll was refused or cut: an ordinary poll has to decide

    # Each member exists once, so its identity will do. Enum's own hash is a Python function, and
    # each poll looks a verdict up.
    __hash__ = object.__hash__


VERDICTS = {"done": Verdict.DONE, "failed": Verdict.FAILED, "pending": Verdict.PENDING}
GATEWAY_ERRORS = (502, 503, 504)  # HTTP statuses by which a gateway replies in place of the server
# They may concern the hold alone: not every service has it, nor may every user ask for it.
_REFUSALS = (Verdict.NOT_FOUND, Verdict.REFUSED, Verdict.UNAUTHORISED)


class Reading(NamedTuple):
    """The content of one reply; `because` explains the verdict in words."""

    verdict: Verdict
    because: str
    status: Optional[str] = None
    result: Any = None
    error_code: Optional[str] = None
    error_message: Optional[str] = None
    fraction: Optional[float] = None  # the progress, from 0 to 1
    retry_after: Optional[float] = None
    quota: Optional[Quota] = None  # only if a bucket may have to adapt to it
    location: Optional[str] = None  # the URL to poll next, if the server named one
    etag: Optional[str] = None
    duration_s: Optional[float] = None
    notice_delay_s: Optional[float] = None
    warnings: Tuple[str, ...] = ()
    accepted: bool = False  # pending because of a bare 202: the reply after it may be the result
    total: Optional[float] = None  # the amount that `fraction` refers to, such as 120 pages
    quotes_server: bool = False  # `because` or `status` quotes untrusted text: scrub it
    code: Optional[FaultCode] = None  # the kind of fault, or UNKNOWN_STATUS
    http_status: Optional[int] = None  # set if the fault is an HTTP error
    is_absent: bool = False  # the reply is a list that does not have the job
    requests: int = 1  # more if it took several pages, or polls of jobs that a list does not have
    took_s: float = 0.0  # how long the poll took, if that was long
    held_s: float = 0.0  # how long the server was asked to hold the poll
    hold_index: Optional[str] = None  # of the reply, if held polls repeat it
    result_link: Optional[str] = None  # the URL of the result, if the reply of a done job has it
    is_result: bool = False  # the reply to a request for the result
    is_cancel: bool = False  # the reply to a request to cancel the job
    saved_to: Optional[str] = None  # the file that the result was saved to

    @property
    def fault_kind(self) -> str:
        """The kind of a fault, for statistics: 'http 503', or the text of its code."""
        if self.http_status is not None:
            return "http %d" % self.http_status
        return (self.code or FaultCode.OTHER).value

    def with_duration(self, took_s: float, held_s: float = 0.0) -> "Reading":
        """The reading of a poll that took so long, and was to be held for `held_s`."""
        if held_s:
            return self._after_hold(took_s, held_s)
        return self._replace(took_s=took_s) if took_s >= SLOW_POLL_S else self

    def _after_hold(self, took_s: float, held_s: float) -> "Reading":
        reading = self._replace(took_s=took_s, held_s=held_s)
        may_be_refused = self.verdict in _REFUSALS and self.code is None
        is_refused = may_be_refused or self.http_status == _NOT_IMPLEMENTED
        was_cut = self.code in _CUT_CODES or self.http_status in _CUT_STATUSES
        if is_refused:
            because = "the held poll was refused (%s)" % self.because
            return reading._replace(verdict=Verdict.UNHELD, because=because, took_s=0.0)
        if self.verdict is Verdict.FAULT and was_cut and took_s >= LEAST_CUT_S:
            because = "the held poll was cut (%s)" % self.because
            return reading._replace(verdict=Verdict.UNHELD, because=because)
        return reading
