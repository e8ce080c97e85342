"""From a reply to a verdict, in this order:

    HTTP status   outside 2xx it decides alone: see `http_status`
    body          empty, not JSON, or decoded JSON
    status field  the field that the profile names, or a usual one: see `status_field`
    status word   its meaning is done, failed, pending or unknown: see `status_words`
    verdict       with the result, the error, the progress and the times: see `job_fields`

House rules: a Reader is compiled from a profile once and has no state; the same reply always gives
the same reading. It judges one reply, not the wait: the machine decides how many faults are
tolerated and how long a 404 is retried. Every reading explains its verdict in words.

A 2xx reply without a status is a fault, with these exceptions:

    202, 204     pending if there is no body; 202 also if there is one
    after a 202  it is the result, if all replies so far were 202 without a status
    after a 303  it is the result, also if it has an unknown status
    Google       an operation (google.longrunning) without `done` is pending
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..model import Fault, FaultCode, Reply, one_line
from ..profile import Profile
from . import conventions
from .http_status import linked_url, read_http_status
from .job_fields import JobFields, paths_for
from .json_decoding import JsonTooCostly, decode_json, to_plain_json
from .json_paths import Path
from .rate_limit_headers import LONGEST_VALUE, RELEVANT_HEADERS, parse_quota, parse_retry_after
from .status_candidates import Candidate
from .status_field import StatusFinder
from .status_words import StatusWords, flatten_word
from .verdict import Reading, Verdict

Seen = Union[Reply, Fault, Mapping[str, Any], List[Any], bool, str]  # the return value of a poll

_VERDICTS = {"done": Verdict.DONE, "failed": Verdict.FAILED, "pending": Verdict.PENDING}
_RETRY_AFTER = Reading._fields.index("retry_after")  # followed by the quota


class Reader:
    """Reads the replies of the API that a profile describes."""

    __slots__ = ("_finder", "_words", "_unknown", "_fields", "_items", "_item_id")

    def __init__(self, profile: Profile) -> None:
        self._words = StatusWords(profile.done, profile.failed, profile.pending)
        self._unknown = _VERDICTS[profile.unknown]
        self._finder = StatusFinder(profile.status, self._words)
        self._fields = JobFields(profile)
        self._items = paths_for(profile.batch_items, conventions.BATCH_ITEMS_PATHS)
        self._item_id = Path(profile.batch_id)

    def read(self, seen: Seen, moved: bool = False, accepted: bool = False) -> Reading:
        """Read the reply of a server, or the return value of a callable.

        `moved`: a 303 has pointed to this URL. `accepted`: all replies so far were 202 without a
        status. Both mean that a reply without a status is the result.
        """
        if isinstance(seen, Reply):
            return _add_limits(self._read_reply(seen, moved, accepted), seen)
        if isinstance(seen, Fault):
            verdict = Verdict.REFUSED if seen.final else Verdict.FAULT
            return Reading(verdict, str(seen), code=seen.code)
        if seen is True:
            return Reading(Verdict.DONE, "true: done", result=True)
        if seen is False:
            return Reading(Verdict.PENDING, "false: pending")
        return self._read_data(seen, None)

    def read_many(self, seen: Seen, ids: Sequence[str]) -> Tuple[Reading, List[Reading]]:
        """Read a reply about many jobs: the exchange as a whole, and each job.

        A job that the reply does not mention is pending. If the exchange failed, it failed for
        each of the jobs.
        """
        if not isinstance(seen, Reply) or not _is_success(seen):
            whole = self.read(seen)
            return whole, [whole] * len(ids)
        because = "no list of jobs in the answer"
        try:
            items = self._find_items(decode_json(seen.body))
        except ValueError as error:
            items = None
            if isinstance(error, JsonTooCostly):
                because = str(error)
        if items is None:
            fault = Reading(Verdict.FAULT, because, code=FaultCode.UNREADABLE)
            return _add_limits(fault, seen), [fault] * len(ids)
        whole = _add_limits(Reading(Verdict.PENDING, "%d jobs in one answer" % len(items)), seen)
        readings = [self._read_item(items, job_id) for job_id in ids]
        return whole, [one._replace(retry_after=whole.retry_after) for one in readings]

    def find_status_path(self, data: Any) -> Optional[str]:
        """The path at which decoded data has its status; None if it has none."""
        word, path = self._finder.find(data)
        return path if word is not None and path else None

    def list_candidates(self, reply: Reply) -> List[Candidate]:
        """The fields of a 2xx reply that may be the status, if it is uncertain which one is."""
        if not _is_success(reply):
            return []
        try:
            return self._finder.list_candidates(decode_json(reply.body))
        except ValueError:
            return []

    # The HTTP status and the body

    def _read_reply(self, reply: Reply, moved: bool, accepted: bool) -> Reading:
        if not _is_success(reply):
            return read_http_status(reply, accepted)
        if reply.status == 202:  # the job is still running, so this is not its result
            moved = False
            accepted = False
        if not reply.body or reply.body.isspace():
            return _read_empty_body(reply, moved or accepted)
        try:
            data = decode_json(reply.body)
        except ValueError as error:
            return self._read_text_body(reply, moved or accepted, error)
        return _with_plain_result(self._read_json(data, reply, moved, accepted))

    def _read_text_body(self, reply: Reply, is_result: bool, error: ValueError) -> Reading:
        """Read a body that could not be decoded as JSON."""
        if is_result:
            return _read_result(reply, reply.body.decode("utf-8", "replace"))
        if isinstance(error, JsonTooCostly):
            return Reading(Verdict.FAULT, str(error), code=FaultCode.UNREADABLE)
        text = reply.body[:2000].decode("utf-8", "replace").strip()
        if self._words.meaning(text):
            return self._read_data(text, reply)
        return _read_unreadable(text, reply.headers.get("content-type", "").lower())

    def _read_json(self, data: Any, reply: Reply, moved: bool, accepted: bool) -> Reading:
        word, path = self._finder.find(data)
        if word is None:
            is_result = moved or accepted
        else:
            is_result = moved and self._words.meaning(word) is None
        if is_result:
            return _read_result(reply, data)
        return self._read_word(word, path, data, reply)

    # The status word

    def _read_data(self, data: Any, reply: Optional[Reply]) -> Reading:
        word, path = self._finder.find(data)
        return self._read_word(word, path, data, reply)

    def _read_word(
        self, word: Optional[str], path: str, data: Any, reply: Optional[Reply]
    ) -> Reading:
        """Read a status word that was found at a path of the data."""
        if word is None:
            return self._read_missing_status(path, data, reply)
        meaning, is_literal = self._words.look_up(word)
        verdict = self._decide(word, meaning, data)
        shown = word if is_literal else flatten_word(word)
        place = " at " + path if path else ""
        fraction, total = self._fields.find_progress(data)
        is_pending = verdict is Verdict.PENDING
        location, etag = _next_request(reply if is_pending else None)
        reading = Reading(
            verdict,
            'status "%s"%s: %s' % (shown, place, verdict.value),
            shown,
            fraction=fraction,
            total=total,
            location=location,
            etag=etag,
            quotes_server=not is_literal or path not in self._finder.known_paths,
        )
        if meaning is None:
            warning = "unknown status %r counts as %s" % (shown, verdict.value)
            reading = reading._replace(warnings=(warning,), code=FaultCode.UNKNOWN_STATUS)
        if verdict is Verdict.PENDING:
            return reading
        duration, notice_delay = self._fields.find_times(data, reply)
        reading = reading._replace(duration_s=duration, notice_delay_s=notice_delay)
        if verdict is Verdict.DONE:
            return self._add_result(reading, data)
        code, message = self._fields.find_error(data)
        return reading._replace(error_code=code, error_message=message)

    def _read_missing_status(self, path: str, data: Any, reply: Optional[Reply]) -> Reading:
        if reply and reply.status == 202:
            return _pending("202 Accepted: pending", reply, accepted=True)
        if self._finder.is_guess and _is_running_operation(data):
            return _pending("an operation that is not done: pending", reply)
        where = "nothing at " + path
        if not path:
            where = "none of the usual fields has one; a profile can name the field (status = PATH)"
        return Reading(Verdict.FAULT, "no status found: " + where, code=FaultCode.NO_STATUS)

    def _decide(self, word: str, meaning: Optional[str], data: Any) -> Verdict:
        if meaning is None:
            return self._unknown
        if meaning == "done" and self._has_failed_nevertheless(word, data):
            return Verdict.FAILED
        return _VERDICTS[meaning]

    def _has_failed_nevertheless(self, word: str, data: Any) -> bool:
        """Whether another field says that a job failed although its status means 'done'.

        For example google.longrunning.Operation: `done` is true, beside an `error`. A profile that
        names the status field is trusted.
        """
        if not self._finder.is_guess:
            return False
        if any(path.find(data) for path in conventions.ERROR_PATHS):
            return True
        if any(path.find(data) is False for path in conventions.SUCCESS_FLAG_PATHS):
            return True
        conclusions = [path.find(data) for path in conventions.CONCLUSION_PATHS]
        if isinstance(data, dict) and word.lower() in conventions.STOPPED_WORDS:
            conclusions.append(data.get("result"))
        words = (value for value in conclusions if isinstance(value, str))
        return any(self._words.meaning(value) == "failed" for value in words)

    # The verdict

    def _add_result(self, reading: Reading, data: Any) -> Reading:
        warnings = reading.warnings
        missing_path = self._fields.missing_result_path(data)
        if missing_path is not None:
            warnings += ("there is nothing at %s: the result is null" % missing_path,)
        return reading._replace(
            result=self._fields.find_result(data),
            fraction=None if reading.fraction is None else 1.0,
            warnings=warnings,
        )

    # Many jobs in one reply

    def _find_items(self, data: Any) -> Optional[Dict[str, Any]]:
        """The jobs in a reply, by id; the reply itself may be the list."""
        places = [data] if isinstance(data, list) else [path.find(data) for path in self._items]
        for found in places:
            if isinstance(found, dict):
                return found
            if isinstance(found, list):
                return {str(self._item_id.find(item)): item for item in found}
        return None

    def _read_item(self, items: Dict[str, Any], job_id: str) -> Reading:
        if job_id not in items:
            return Reading(Verdict.PENDING, "not in the answer: pending")
        return _with_plain_result(self._read_data(items[job_id], None))


def _pending(because: str, reply: Optional[Reply], accepted: bool = False) -> Reading:
    location, etag = _next_request(reply)
    return Reading(Verdict.PENDING, because, location=location, etag=etag, accepted=accepted)


def _next_request(reply: Optional[Reply]) -> Tuple[Optional[str], Optional[str]]:
    """The link and the ETag for the next request."""
    if reply is None:
        return None, None
    location = linked_url(reply) if reply.status in (201, 202) else None
    etag = reply.headers.get("etag")
    if etag is not None and len(etag) > LONGEST_VALUE:  # servers may refuse a long header
        etag = None
    return location, etag


def _read_result(reply: Reply, result: Any) -> Reading:
    """Read a reply without a status, after a 202 or a 303: it is the result."""
    because = "%d with the result: done" % reply.status
    return _with_plain_result(Reading(Verdict.DONE, because, result=result))


def _with_plain_result(reading: Reading) -> Reading:
    """The same reading, with a result that can be encoded as JSON; refused if it can't."""
    if reading.result is None:
        return reading
    try:
        return reading._replace(result=to_plain_json(reading.result))
    except ValueError as error:
        return Reading(Verdict.REFUSED, "the result can't be used: %s" % error)


def _read_empty_body(reply: Reply, is_result: bool) -> Reading:
    if is_result:
        return _read_result(reply, None)
    if reply.status in (202, 204):
        because = "%d without a body: pending" % reply.status
        return _pending(because, reply, accepted=reply.status == 202)
    because = "%d with an empty body: no status to read" % reply.status
    return Reading(Verdict.FAULT, because, code=FaultCode.NO_STATUS)


def _read_unreadable(text: str, content_type: str) -> Reading:
    """Read a body that is neither JSON nor a status word."""
    is_html = "html" in content_type
    if text.startswith("<?xml") or ("xml" in content_type and not is_html):
        because = "an XML document where JSON should be: %r" % one_line(text, 120)
        return Reading(Verdict.FAULT, because, code=FaultCode.UNREADABLE)
    if is_html or text.startswith("<"):
        because = "an HTML page where JSON should be (a login page, or a proxy's?)"
        return Reading(Verdict.FAULT, because, code=FaultCode.HTML)
    because = "a body that is not JSON: %r" % one_line(text, 120)
    return Reading(Verdict.FAULT, because, code=FaultCode.UNREADABLE)


def _is_running_operation(data: Any) -> bool:
    """Whether data is a google.longrunning.Operation, whose JSON omits a `done` that is false."""
    return isinstance(data, dict) and "operations/" in str(data.get("name")) and "done" not in data


def _is_success(reply: Reply) -> bool:
    return 200 <= reply.status < 300


def _add_limits(reading: Reading, reply: Reply) -> Reading:
    """Add the delay and the quota that the headers ask for."""
    if RELEVANT_HEADERS.isdisjoint(reply.headers):
        return reading
    retry_after, warning = parse_retry_after(reply.headers, reply.received_at)
    quota = parse_quota(reply.headers, reply.received_at)
    is_limited = reading.verdict is Verdict.LIMITED
    if retry_after is None and is_limited and quota is not None and quota.remaining == 0:
        retry_after = quota.reset_s
    if warning:
        reading = reading._replace(warnings=reading.warnings + (warning,))
    # This runs on every poll, and _replace is slow.
    limits = (retry_after, quota)
    return Reading._make(reading[:_RETRY_AFTER] + limits + reading[_RETRY_AFTER + 2 :])
