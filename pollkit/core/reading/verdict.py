"""The result of reading one reply: a verdict, and the values that go with it."""

from enum import Enum
from typing import Any, NamedTuple, Optional, Tuple

from ..model import FaultCode
from .rate_limit_headers import Quota


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
    quota: Optional[Quota] = None
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
