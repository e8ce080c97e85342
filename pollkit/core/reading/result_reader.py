"""Read the replies to two other requests: for the result of a done job, and to cancel a job.

House rules: a reply to these says nothing about the status of the job. Only a 2xx reply is a
result. Everything else is a fault, or as `http_status` judges it.
"""

from typing import Any, Optional

from ..model import Fault, FaultCode, Reply
from ..profiles.profile import Profile
from .fields.job_fields import JobFields
from .http_status import is_success, read_http_status
from .json_decoding import JsonTooCostly, decode_json
from .list_reader import NextPage
from .middleboxes import is_page
from .reader import Seen, add_limits, read_fault, with_plain_result
from .verdict import Reading, Verdict

_UNFINISHED = (Verdict.PENDING, Verdict.SEE_OTHER)


class ResultReader:
    """Reads the results of the API that a profile describes."""

    __slots__ = ("_fields", "_next")

    def __init__(self, profile: Profile) -> None:
        self._fields = JobFields(profile)
        self._next = None if profile.result_next is None else NextPage(profile.result_next)

    @property
    def has_pages(self) -> bool:
        """Whether a result may have several pages."""
        return self._next is not None

    def next_page_url(self, page: Reply, first_url: str) -> Optional[str]:
        """The URL of the page after this one; None if it is the last, or UNUSABLE_LINK."""
        return None if self._next is None else self._next.url(page, first_url)

    def read(self, seen: Seen, can_be_html: bool = False) -> Reading:
        """Read a reply with JSON, or any text; `result` is None if the profile's path is missing.

        An HTML page is a fault, unless it `can_be_html`: it may be a login page.
        """
        reading = self.check(seen, can_be_html)
        if reading.verdict is not Verdict.DONE or not isinstance(seen, Reply) or not seen.body:
            return reading
        try:
            data: Any = decode_json(seen.body)
        except JsonTooCostly as error:
            return reading._replace(verdict=Verdict.REFUSED, because=str(error))
        except ValueError:
            return reading._replace(result=seen.body.decode("utf-8", "replace"))
        found = self._fields.add_fetched_result(reading, data)
        return with_plain_result(found)._replace(is_result=True)

    def check(self, seen: Seen, can_be_html: bool = False) -> Reading:
        """Judge a reply without its body, which may be in a file already."""
        if isinstance(seen, Fault):
            return read_fault(seen)._replace(is_result=True)
        assert isinstance(seen, Reply)
        reading = _judge(seen, can_be_html)
        if reading.verdict in _UNFINISHED:
            reading = Reading(Verdict.FAULT, reading.because, code=FaultCode.HTTP_ERROR)
        return add_limits(reading, seen)._replace(is_result=True)


def _judge(reply: Reply, can_be_html: bool) -> Reading:
    if not is_success(reply):
        return read_http_status(reply, False)
    if reply.status == 202:
        because = "202: the result is not ready"
        return Reading(Verdict.FAULT, because, code=FaultCode.HTTP_ERROR)
    if is_page(reply) and not can_be_html:
        because = "an HTML page where the result should be (a login page, or a proxy's?)"
        return Reading(Verdict.FAULT, because, code=FaultCode.HTML)
    return Reading(Verdict.DONE, "the result: done")


def read_cancel_reply(seen: Seen) -> Reading:
    """Read the reply to a request to cancel a job: pending if the API has accepted it."""
    if isinstance(seen, Fault):
        reading = read_fault(seen)
    else:
        assert isinstance(seen, Reply)
        # RFC 9110, 15.4.4: a POST may be answered by a 303, which points to the job.
        if is_success(seen) or seen.status == 303:
            because = "the API accepted the cancel request (%d)" % seen.status
            reading = Reading(Verdict.PENDING, because)
        else:
            reading = read_http_status(seen, False)
        reading = add_limits(reading, seen)
    return reading._replace(is_cancel=True)
