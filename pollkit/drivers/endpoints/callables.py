"""Jobs that a function of the user's asks about, in place of a URL.

The function returns a value: JSON data, a status, a bool, a response, or any object of a client
library. `ValueFields` find the status and the result in an object, and decide whether it is done.
"""

import time
from enum import Enum
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Optional, Tuple, Type

from ...core.model import Fault, FaultCode, Job, Reply, one_line
from ...core.profiles.profile import Profile
from ...core.reading.fields.job_fields import JobFields
from ...core.reading.fields.json_paths import Path
from ...core.reading.verdict import Reading, Verdict
from ...core.units import to_seconds
from ...core.urls import redact_url
from ...core.waiting.wait_state import Poll
from ...edges.background import BackgroundCalls, NotFinished, TooManyCalls
from ...edges.clock import Clock
from ...edges.http.request import Request
from ...edges.multiplexer import Steps
from ...errors import ConfigError
from .callable_arguments import Function
from .endpoint import Endpoint

if TYPE_CHECKING:
    from .callable_arguments import Check

_RESPONSE_ATTRIBUTES = ("status_code", "headers", "content", "url")
_JSON_TYPES = (dict, list, bool, str)


class ValueFields(NamedTuple):
    """The functions of the user's that read a value; None for those that a profile replaces."""

    status: Optional[Function] = None
    done: Optional[Function] = None
    failed: Optional[Function] = None
    result: Optional[Function] = None


NO_FUNCTIONS = ValueFields()


class CallableEndpoint(Endpoint):
    """Polls one job by calling a function; `shared` has the settings of all such jobs."""

    def __init__(
        self,
        shared: Endpoint,
        check: "Check",
        job_id: str,
        *,
        retry_on: Tuple[Type[BaseException], ...],
        clock: Clock,
        fields: ValueFields = NO_FUNCTIONS,
        calls: Optional[BackgroundCalls] = None,
    ) -> None:
        vars(self).update(vars(shared))  # the profile, the limit, the history
        # The function returns the result, and no URL of the profile belongs to its job.
        self.settings = self.settings._replace(result_url=None, cancels_on_timeout=False)
        self._has_body_per_job = False  # nor does a body
        self.check = check
        self._job_id = job_id
        self._retry_on = retry_on
        self._calls = calls or BackgroundCalls()
        self._values = _ValueReader(self, fields, clock)

    def place(self, job: Job, url: str = "") -> Tuple[object, Optional[str]]:
        """Two jobs with one id are the same job only if they have the same function."""
        return (self.check, self.profile.name)

    def polled_origin(self, url: str) -> str:
        """A name that no other job has: the server behind a function is unknown."""
        return "callable %s" % self._job_id

    def poll(self, poll: Poll, job: Job, clock: Clock) -> Reading:
        """Call the function in the caller's thread; only exceptions in `retry_on` are faults."""
        try:
            value = self.check()
        except (Exception,) + self._retry_on as error:
            reading = self._judge_error(error)
            if reading is not None:
                return reading
            if not isinstance(error, self._retry_on):
                raise
            value = _fault(error)
        return self._values.read(value, poll)

    def exchange(self, request: Request) -> "Steps[Any]":
        """Call the function in the background; a call that is late is joined by the next poll."""
        timeout_s = to_seconds(self.profile.request_timeout)
        try:
            value, error = yield from self._calls.wait(
                self, self._call, time.monotonic() + timeout_s
            )
        except NotFinished:
            problem = "the callable did not return within %g s" % timeout_s
            return Fault(problem, code=FaultCode.CALL)
        except TooManyCalls as problem:
            return Fault("the callable can't be called: %s" % problem, code=FaultCode.CALL)
        if error is None:
            return value
        reading = self._judge_error(error)
        if reading is not None:
            return reading
        if isinstance(error, self._retry_on):
            return _fault(error)
        advice = "name the exception in retry_on if it is worth a retry"
        return _fault(error)._replace(advice=advice, final=True)

    def read(self, seen: Any, poll: Poll, request: Request) -> Reading:
        """Read the value that the function returned; an exception may have been judged already."""
        if isinstance(seen, Reading):
            return seen
        try:
            return self._values.read(seen, poll)
        except ConfigError as error:
            return self.reader.read(Fault(str(error), final=True, code=FaultCode.CALL))

    def _judge_error(self, error: BaseException) -> Optional[Reading]:
        """Judge the response of an exception by the rules.

        botocore's ClientError has a dict, the HTTPError of requests a Response.
        """
        response = getattr(error, "response", None)
        if not isinstance(response, dict):
            response = self._values.to_reply(response)
        return None if response is None else self.reader.read_call_error(response)

    def _call(self) -> Tuple[Any, Optional[BaseException]]:
        """The value or the error; not raised, because a generator can't pass on StopIteration.

        A SystemExit would end the background thread, and the call would never finish.
        """
        try:
            return self.check(), None
        except BaseException as error:
            return None, error


def _fault(error: BaseException) -> Fault:
    text = "%s: %s" % (type(error).__name__, redact_url(str(error)))
    return Fault(one_line(text), code=FaultCode.CALL)


class _ValueReader:
    """Reads the values that a function returns."""

    def __init__(self, endpoint: Endpoint, fields: ValueFields, clock: Clock) -> None:
        self._reader = endpoint.reader
        self._profile: Profile = endpoint.profile
        self._fields = fields
        self._job_fields = JobFields(endpoint.profile)
        self._clock = clock

    def read(self, value: Any, poll: Poll) -> Reading:
        """The reading of a value; its link is ignored, because the function chooses the URL."""
        reply = self.to_reply(value)
        is_http_error = isinstance(reply, Reply) and not 200 <= reply.status < 300
        needs_no_functions = reply is not None and not any(self._fields)
        if isinstance(value, Fault) or is_http_error or needs_no_functions:
            seen = value if reply is None else reply
            reading = self._reader.read(seen, poll.is_moved, poll.is_accepted)
        else:
            reading = self._read_value(value)
        return reading._replace(location=None)

    def to_reply(self, value: Any) -> Optional[Reply]:
        """A response as a Reply; None for any other value."""
        if all(hasattr(value, name) for name in _RESPONSE_ATTRIBUTES):
            # A response of requests, or of httpx, whose url is an object.
            value = Reply(value.status_code, value.headers, value.content, str(value.url))
        if not isinstance(value, Reply):
            return None
        if value.received_at is None:
            return value._replace(received_at=self._clock.wall())  # its dates need a clock
        return value

    def _read_value(self, value: Any) -> Reading:
        fields = self._fields
        judged = self._reader.read_by_rules(value) if isinstance(value, (dict, list)) else None
        if judged is not None:
            return self._with_own_result(judged, value)
        word = self._status(value)
        if fields.failed is not None and fields.failed(value):
            reading = Reading(Verdict.FAILED, "failed, as the function says", word)
            return self._add_error(reading, value)
        if fields.done is not None and fields.done(value):
            reading = Reading(Verdict.DONE, "done, as the function says", word)
            return reading._replace(result=self._result(value))
        if word is None:
            return self._read_without_status(value)
        reading = self._reader.read_status(word)
        if reading.verdict is Verdict.DONE:
            return reading._replace(result=self._result(value))
        if reading.verdict is Verdict.FAILED:
            return self._add_error(reading, value)
        return reading

    def _read_without_status(self, value: Any) -> Reading:
        if self._fields.status is not None:
            return Reading(
                Verdict.FAULT, "the function for the status found none", code=FaultCode.NO_STATUS
            )
        if self._fields.done is not None or self._fields.failed is not None:
            return Reading(Verdict.PENDING, "neither done nor failed, as the functions say")
        if not isinstance(value, _JSON_TYPES):
            if self._profile.status is not None:
                because = "%s has no attribute or key %s, which status= names" % (
                    one_line(repr(value), 80),
                    self._profile.status,
                )
                return Reading(Verdict.FAULT, because, code=FaultCode.NO_STATUS)
            raise ConfigError(
                "the callable returned %r: it should return a dict, a status string, a bool, a "
                "Reply or a requests.Response; for another object, give status= a function "
                "that finds its status" % (value,)
            )
        return self._with_own_result(self._reader.read(value), value)

    def _with_own_result(self, reading: Reading, value: Any) -> Reading:
        """The reading of a done job, with the result that the user's function finds."""
        if reading.verdict is not Verdict.DONE or self._fields.result is None:
            return reading
        return reading._replace(result=self._fields.result(value))

    def _status(self, value: Any) -> Optional[str]:
        """The status by a function, or in an attribute of an object; None if there is neither."""
        found = None
        if self._fields.status is not None:
            found = self._fields.status(value)
        elif self._profile.status is not None and not isinstance(value, _JSON_TYPES):
            found = _find(value, self._profile.status)
        if isinstance(found, Enum):
            found = found.value
        return None if found is None else str(found)

    def _result(self, value: Any) -> Any:
        if self._fields.result is not None:
            return self._fields.result(value)
        if isinstance(value, _JSON_TYPES):
            return self._job_fields.find_result(value)
        if self._profile.result is not None:
            return _find(value, self._profile.result)
        return value

    def _add_error(self, reading: Reading, value: Any) -> Reading:
        if not isinstance(value, dict):
            return reading
        code, message = self._job_fields.find_error(value)
        return reading._replace(error_code=code, error_message=message)


def _find(value: Any, path: str) -> Any:
    """The value at a path whose steps are attributes, or keys of JSON data inside."""
    if isinstance(value, Mapping):
        return Path(path).find(dict(value))
    step, _, rest = path.partition(".")
    found = getattr(value, step, None)
    if not rest or found is None:
        return found
    if isinstance(found, (dict, list)):
        return Path(rest).find(found)
    return _find(found, rest)
