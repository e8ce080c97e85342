"""From a reply to a verdict, in this order:

    proxy error   an error that a proxy sent in place of the server: see `middleboxes`
    rules         those of the profile, if it has any: see `rules`
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
    rules        if the profile has rules and names no status field, it is pending
"""

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..model import Fault, FaultCode, Reply, one_line
from ..profiles.profile import Profile
from ..urls import join_url
from .fields import conventions
from .fields.job_fields import JobFields
from .fields.status_candidates import Candidate
from .fields.status_field import StatusFinder
from .fields.status_words import StatusWords, flatten_word
from .http_status import is_success, next_request, read_http_status
from .json_decoding import JsonTooCostly, decode_json, to_plain_json, try_decode_json
from .list_reader import ListReader
from .middleboxes import describe_page, is_login_page, is_page, read_proxy_error
from .rate_limit_headers import RELEVANT_HEADERS, parse_quota, parse_retry_after, quota_warning
from .verdict import VERDICTS, Reading, Verdict

if TYPE_CHECKING:
    from .rules.reader import RuleReader

Seen = Union[Reply, Fault, Mapping[str, Any], List[Any], bool, str]  # the return value of a poll

_VERDICT_TEXTS = {verdict: verdict.value for verdict in Verdict}  # faster than `value`
NO_RULE_MATCHES = "no rule matches: pending"


class Reader:
    """Reads the replies of the API that a profile describes."""

    __slots__ = ("_rules", "_has_only_rules", "_finder", "_words", "_unknown", "_fields", "_list")

    def __init__(self, profile: Profile) -> None:
        self._words = StatusWords(profile.done, profile.failed, profile.pending)
        self._unknown = VERDICTS[profile.unknown]
        self._finder = StatusFinder(profile.status, self._words)
        self._fields = JobFields(profile)
        self._rules = _rule_reader(profile, self._fields)
        self._has_only_rules = self._rules is not None and profile.status is None
        self._list = ListReader(profile)

    def read(self, seen: Seen, moved: bool = False, accepted: bool = False) -> Reading:
        """Read the reply of a server, or the return value of a callable.

        `moved`: a 303 has pointed to this URL. `accepted`: all replies so far were 202 without a
        status. Both mean that a reply without a status is the result.
        """
        if isinstance(seen, Reply):
            reading = add_limits(self._read_reply(seen, moved, accepted), seen)
            return _with_absolute_link(reading, seen) if reading.result_link else reading
        if isinstance(seen, Fault):
            return read_fault(seen)
        if seen is True:
            return Reading(Verdict.DONE, "true: done", result=True)
        if seen is False:
            return Reading(Verdict.PENDING, "false: pending")
        return self._judge_data(seen, self.read_by_rules(seen))

    def read_by_rules(self, data: Any) -> Optional[Reading]:
        """Read the value of a callable; None if no rule matches."""
        return None if self._rules is None else self._rules.read_call(data)

    def read_status(self, word: str) -> Reading:
        """Read a status that a function found in the value of a callable."""
        return self._read_data(word, None)

    def read_call_error(self, response: Any) -> Optional[Reading]:
        """Read the response that a callable's exception carries; None if no rule matches."""
        if isinstance(response, Reply) and self._rules is not None:
            reading = self._rules.read_reply(response)
        else:
            reading = self.read_by_rules(response)
        return None if reading is None else reading._replace(result=None)  # an error is no result

    def read_many(
        self, pages: Sequence[Seen], ids: Sequence[str], is_complete: bool = True
    ) -> Tuple[Reading, List[Reading]]:
        """Read the pages of a list of jobs: the list as a whole, and each job.

        If one page failed, it failed for each of the jobs; rules judge jobs, not lists: a 404 of
        the list does not mean that every job is gone. `is_complete` is whether these are all
        pages: otherwise a job that they don't have is pending.
        """
        items: Dict[str, Any] = {}
        wanted = set(ids)
        count = 0
        for page in pages:
            if not isinstance(page, Reply) or not is_success(page):
                whole = _read_failed_page(page)
                return whole, [whole] * len(ids)
            found, problem = self._list.find_items(page)
            if found is None:
                fault = Reading(Verdict.FAULT, problem, code=FaultCode.UNREADABLE)
                return add_limits(fault, page), [fault] * len(ids)
            count += len(found)
            items.update((job_id, found[job_id]) for job_id in wanted.intersection(found))
        last: Any = pages[-1]
        whole = add_limits(Reading(Verdict.PENDING, "%d jobs in one answer" % count), last)
        readings = [
            _with_absolute_link(self._read_item(items, job_id, is_complete), last) for job_id in ids
        ]
        return whole, [one._replace(retry_after=whole.retry_after) for one in readings]

    def next_page_url(self, page: Reply, first_url: str) -> Optional[str]:
        """The URL of the page after this one; None if it is the last, or UNUSABLE_LINK."""
        return self._list.next_page_url(page, first_url) if is_success(page) else None

    def find_status_path(self, data: Any) -> Optional[str]:
        """The path at which decoded data has its status; None if it has none."""
        word, path = self._finder.find(data)
        return path if word is not None and path else None

    def list_candidates(self, reply: Reply) -> List[Candidate]:
        """The fields of a 2xx reply that may be the status, if it is uncertain which one is."""
        if not is_success(reply):
            return []
        return self._finder.list_candidates(try_decode_json(reply.body))

    def explain_rules(self, reply: Reply) -> List[str]:
        """Which rule matches a reply, or else all of them with the values that they found."""
        return [] if self._rules is None else self._rules.explain(reply)

    # The HTTP status and the body

    def _read_reply(self, reply: Reply, moved: bool, accepted: bool) -> Reading:
        proxy_error = read_proxy_error(reply)
        if proxy_error is not None:
            return proxy_error
        if self._rules is not None and not _has_nothing_for_rules(reply):
            reading = self._rules.read_reply(reply)
            if reading is not None:
                return with_plain_result(reading)
        if not is_success(reply):
            return read_http_status(reply, accepted)
        # A 202 says that the job is still running, so this is not its result.
        if reply.status == 202 or self._has_only_rules:
            moved = False
            accepted = False
        if not reply.body or reply.body.isspace():
            if self._has_only_rules:
                return _pending(NO_RULE_MATCHES, reply)
            return _read_empty_body(reply, moved or accepted)
        try:
            data = decode_json(reply.body)
        except ValueError as error:
            return self._read_text_body(reply, moved or accepted, error)
        return with_plain_result(self._read_json(data, reply, moved, accepted))

    def _read_text_body(self, reply: Reply, is_result: bool, error: ValueError) -> Reading:
        """Read a body that could not be decoded as JSON."""
        if is_result and not is_login_page(reply):
            return _read_result(reply, reply.body.decode("utf-8", "replace"))
        if isinstance(error, JsonTooCostly):
            return Reading(Verdict.FAULT, str(error), code=FaultCode.UNREADABLE)
        text = reply.body[:2000].decode("utf-8-sig", "replace").strip()  # without a BOM
        if self._words.meaning(text):
            return self._read_data(text, reply)
        return _read_unreadable(text, reply)

    def _read_json(self, data: Any, reply: Reply, moved: bool, accepted: bool) -> Reading:
        if self._has_only_rules:
            return _pending(NO_RULE_MATCHES, reply)
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

    def _judge_data(self, data: Any, by_rule: Optional[Reading]) -> Reading:
        """Read data that is not the body of a reply, by its status unless a rule matched."""
        if by_rule is not None:
            return by_rule
        if self._has_only_rules:
            return _pending(NO_RULE_MATCHES, None)
        return self._read_data(data, None)

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
        location, etag = next_request(reply if is_pending else None)
        reading = Reading(
            verdict,
            'status "%s"%s: %s' % (shown, place, _VERDICT_TEXTS[verdict]),
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
            return self._fields.add_result(reading, data)
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
        return VERDICTS[meaning]

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

    # Many jobs in one reply

    def _read_item(self, items: Dict[str, Any], job_id: str, is_complete: bool) -> Reading:
        if job_id in items:
            item = items[job_id]
            by_rule = None if self._rules is None else self._rules.read_item(item)
            return with_plain_result(self._judge_data(item, by_rule))
        verdict = self._list.absent if is_complete else Verdict.PENDING
        return Reading(
            verdict,
            "not in the answer: %s" % verdict.value,
            error_message="the list does not have the job",
            is_absent=True,
        )


def _rule_reader(profile: Profile, fields: JobFields) -> "Optional[RuleReader]":
    """The reader of a profile's rules, if it has any. Its import takes 2 ms, and few need it."""
    if not profile.rules:
        return None
    from .rules.reader import RuleReader

    return RuleReader(profile, fields)


def read_fault(fault: Fault) -> Reading:
    """Read a poll without a reply."""
    verdict = Verdict.REFUSED if fault.final else Verdict.FAULT
    return Reading(verdict, str(fault), code=fault.code)


def _read_failed_page(page: Seen) -> Reading:
    """Read a page of a list that is a fault or an HTTP error."""
    if not isinstance(page, Reply):
        assert isinstance(page, Fault)
        return read_fault(page)
    return add_limits(read_proxy_error(page) or read_http_status(page, accepted=False), page)


def _with_absolute_link(reading: Reading, reply: Reply) -> Reading:
    """The reading of a done job, with the absolute URL of its result if the reply has a link."""
    if reading.result_link is None:
        return reading
    return reading._replace(result_link=join_url(reply.url, reading.result_link))


def _pending(because: str, reply: Optional[Reply], accepted: bool = False) -> Reading:
    location, etag = next_request(reply)
    return Reading(Verdict.PENDING, because, location=location, etag=etag, accepted=accepted)


def _read_result(reply: Reply, result: Any) -> Reading:
    """Read a reply without a status, after a 202 or a 303: it is the result."""
    because = "%d with the result: done" % reply.status
    return with_plain_result(Reading(Verdict.DONE, because, result=result))


def with_plain_result(reading: Reading) -> Reading:
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


def _read_unreadable(text: str, reply: Reply) -> Reading:
    """Read a body that is neither JSON nor a status word."""
    content_type = reply.headers.get("content-type", "").lower()
    is_html = "html" in content_type
    if text.startswith("<?xml") or ("xml" in content_type and not is_html):
        because = "an XML document where JSON should be: %r" % one_line(text, 120)
        return Reading(Verdict.FAULT, because, code=FaultCode.UNREADABLE)
    if is_html or text.startswith("<"):
        return Reading(Verdict.FAULT, describe_page(reply), code=FaultCode.HTML)
    because = "a body that is not JSON: %r" % one_line(text, 120)
    return Reading(Verdict.FAULT, because, code=FaultCode.UNREADABLE)


def _is_running_operation(data: Any) -> bool:
    """Whether data is a google.longrunning.Operation, whose JSON omits a `done` that is false."""
    return isinstance(data, dict) and "operations/" in str(data.get("name")) and "done" not in data


def _has_nothing_for_rules(reply: Reply) -> bool:
    """Whether a reply is a page in place of the API's answer, or has no body, so misses a field."""
    return reply.status == 304 or (is_success(reply) and is_page(reply))


def add_limits(reading: Reading, reply: Reply) -> Reading:
    """Add the delay that the headers ask for, and the quota if it may change the rate limit."""
    if RELEVANT_HEADERS.isdisjoint(reply.headers):
        return reading
    retry_after, warning = parse_retry_after(reply.headers, reply.received_at)
    quota = parse_quota(reply.headers, reply.received_at)
    is_limited = reading.verdict is Verdict.LIMITED
    if retry_after is None and is_limited and quota is not None and quota.remaining == 0:
        retry_after = quota.reset_s
    warning = warning or quota_warning(reply.headers, quota)
    if warning:
        reading = reading._replace(warnings=reading.warnings + (warning,))
    if quota is not None and not quota.can_change_limit:
        quota = None
    if retry_after is None and quota is None:
        return reading
    return reading._replace(retry_after=retry_after, quota=quota)
