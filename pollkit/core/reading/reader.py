"""From a reply to what it says.

House rules: a Reader is compiled from a profile once and holds no state; the same reply always
reads the same. It judges one reply, never the wait: how often a fault may happen, or how long
a 404 is forgiven, is the machine's to decide. Every reading carries its reason in words.

How HTTP itself is read (RFC 9110, 15), before any body:

    200-299      the body says; where it says nothing, 202 and 204 are pending, and what comes after
                 a bare 202, or where a 303 pointed, is the result
    301 302 307  followed before this; but one that names a Retry-After is to be followed only then (10.2.3)
    308
    303          the job moved on: look where Location points (15.4.4)
    304          unchanged since the last look (15.4.5)
    401, 403     unauthorised; 403 with Retry-After or an empty quota is a limit
    404          not found, perhaps not yet
    429          the limit speaks
    408 425 5xx  a fault, and so is any 3xx that led nowhere
    other 4xx    refused
"""

from enum import Enum
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ..model import Fault, FaultCode, Reply, one_line
from ..profile import Profile
from ..urls import join_url, redact_url
from . import conventions as places
from . import headers as hints
from .headers import Quota
from .json_paths import JsonTooCostly, Path, data_text, decode_json, to_plain_json
from .status_field import Candidate, StatusFinder
from .status_words import StatusWords
from .values import flat_word, parse_amount, parse_fraction


class Verdict(Enum):
    """What a reply amounts to."""

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
    """What one reply says; `because` says why it is read that way."""

    verdict: Verdict
    because: str
    status: Optional[str] = None
    result: Any = None
    error_code: Optional[str] = None
    error_message: Optional[str] = None
    fraction: Optional[float] = None
    retry_after: Optional[float] = None
    quota: Optional[Quota] = None
    location: Optional[str] = None
    etag: Optional[str] = None
    duration_s: Optional[float] = None
    notice_delay_s: Optional[float] = None
    warnings: Tuple[str, ...] = ()
    accepted: bool = False  # pending by HTTP's 202 alone: the first reply without it is the result
    total: Optional[float] = (
        None  # what the fraction is a fraction of, where that is said: pages, say
    )
    quotes_server: bool = False  # `because` or `status` quotes untrusted text: to be scrubbed
    code: Optional[FaultCode] = None  # of a fault, and of what else decisions depend on
    http_status: Optional[int] = None  # of a fault that is an HTTP reply


_HINTED = Reading._fields.index("retry_after")  # and the quota after it
Seen = Union[Reply, Fault, Mapping[str, Any], List[Any], bool, str]
_MEANINGS = {"done": Verdict.DONE, "failed": Verdict.FAILED, "pending": Verdict.PENDING}
_LINKS = ("operation-location", "azure-asyncoperation", "location")
REDIRECTS = (301, 302, 307, 308)  # a 303 is the job's own way of saying 'look there'
_RETRIED = (408, 425)  # RFC 9110, 15.5.9; RFC 8470, 5.2: the server asks for another try


class Reader:
    """Reads replies the way one profile's API means them."""

    __slots__ = (
        "_words",
        "_unknown",
        "_status",
        "_result",
        "_error",
        "_code",
        "_progress",
        "_total",
        "_created",
        "_finished",
        "_items",
        "_item_id",
    )

    def __init__(self, profile: Profile) -> None:
        self._words = StatusWords(profile.done, profile.failed, profile.pending)
        self._unknown = profile.unknown
        self._status = StatusFinder(profile.status, self._words)
        self._result = _places(profile.result, places.RESULT_PLACES)
        self._error = _places(profile.error, places.ERROR_PLACES)
        self._code = _places(profile.error_code, places.CODE_PLACES)
        part, _, total = (profile.progress or "").partition(" / ")
        self._progress = [
            (path.steps[0], path) for path in _places(part or None, places.PROGRESS_PLACES)
        ]
        self._total = Path(total) if total else None
        self._created = _places(profile.created, places.CREATED_PLACES)
        self._finished = _places(profile.finished, places.FINISHED_PLACES)
        self._items = _places(profile.batch_items, places.ITEM_PLACES)
        self._item_id = Path(profile.batch_id)

    def read(self, seen: Seen, moved: bool = False, accepted: bool = False) -> Reading:
        """What a reply says.

        `moved`: it comes from where a 303 pointed, and is the result unless it has a status that
        we know. `accepted`: so far there were bare 202s, and one without any status is the result.
        """
        if isinstance(seen, Reply):
            return self._read_reply(seen, moved, accepted)
        if isinstance(seen, Fault):
            return Reading(
                Verdict.REFUSED if seen.final else Verdict.FAULT, str(seen), code=seen.code
            )
        if isinstance(seen, bool):
            return (
                Reading(Verdict.DONE, "true: done", result=True)
                if seen
                else Reading(Verdict.PENDING, "false: pending")
            )
        return self._judge(seen, None)

    def read_many(self, seen: Seen, ids: Sequence[str]) -> Tuple[Reading, List[Reading]]:
        """What a reply about many jobs says: of the exchange as a whole, and of each job.

        A job that the answer does not mention is pending. Where the exchange itself went wrong,
        all of them are told so.
        """
        if not isinstance(seen, Reply) or not 200 <= seen.status < 300:
            whole = self.read(seen)
            return whole, [whole] * len(ids)
        items, because = None, "no list of jobs in the answer"
        try:
            items = self._find_items(decode_json(seen.body or b" "))
        except ValueError as error:
            because = str(error) if isinstance(error, JsonTooCostly) else because
        if items is None:
            whole = Reading(Verdict.FAULT, because, code=FaultCode.UNREADABLE)
            return self._with_hints(whole, seen), [whole] * len(ids)
        whole = self._with_hints(
            Reading(Verdict.PENDING, "%d jobs in one answer" % len(items)), seen
        )
        return whole, [
            _passed_on(self._judge(items[name], None))._replace(retry_after=whole.retry_after)
            if name in items
            else Reading(
                Verdict.PENDING, "not in the answer: pending", retry_after=whole.retry_after
            )
            for name in ids
        ]

    def list_candidates(self, reply: Reply) -> List[Candidate]:
        """Return the fields of a 2xx reply that may be the status, if it is uncertain which is."""
        if not 200 <= reply.status < 300:
            return []
        try:
            return self._status.list_candidates(decode_json(reply.body or b" "))
        except ValueError:
            return []

    def _find_items(self, data: Any) -> Optional[Dict[str, Any]]:
        for found in (
            [data] if isinstance(data, list) else [path.find(data) for path in self._items]
        ):
            if isinstance(found, dict):
                return found
            if isinstance(found, list):
                return {str(self._item_id.find(item)): item for item in found}
        return None

    def _read_reply(self, reply: Reply, moved: bool, accepted: bool) -> Reading:
        if not 200 <= reply.status < 300:
            reading = _read_status(reply, accepted)
        elif reply.status == 202:
            reading = self._read_body(reply, False, False)
        else:
            reading = self._read_body(reply, moved, accepted)
        return self._with_hints(reading, reply)

    def _with_hints(self, reading: Reading, reply: Reply) -> Reading:
        """A reading with what the headers say about when to ask again."""
        headers = reply.headers
        if hints.HEADERS.isdisjoint(headers):
            return reading
        wait, complaint = hints.parse_retry_after(headers, reply.received_at)
        left = hints.parse_quota(headers, reply.received_at)
        empty = left is not None and left.remaining == 0
        if reply.status == 403 and (wait is not None or empty):
            reading = Reading(Verdict.LIMITED, "403 with the headers of a rate limit")
        if wait is None and left is not None and empty and reading.verdict is Verdict.LIMITED:
            wait = left.reset_s
        if complaint:
            reading = reading._replace(warnings=reading.warnings + (complaint,))
        # Every poll comes by here, and _replace takes its time.
        return Reading._make(reading[:_HINTED] + (wait, left) + reading[_HINTED + 2 :])

    def _read_body(self, reply: Reply, moved: bool, accepted: bool) -> Reading:
        body = reply.body
        if not body or body.isspace():
            return _read_empty(reply, moved or accepted)
        try:
            data = decode_json(body)
        except ValueError as error:
            return self._read_text(reply, moved or accepted, error)
        return self._judge(data, reply, moved, accepted)

    def _read_text(self, reply: Reply, is_result: bool, error: ValueError) -> Reading:
        text = reply.body[:2000].decode("utf-8", "replace").strip()
        if is_result:
            return _arrived(reply, reply.body.decode("utf-8", "replace"))
        if isinstance(error, JsonTooCostly):
            return Reading(Verdict.FAULT, str(error), code=FaultCode.UNREADABLE)
        if self._words.meaning(text):
            return self._judge(text, reply)
        kind = reply.headers.get("content-type", "").lower()
        if "xml" in kind and "html" not in kind or text.startswith("<?xml"):
            return Reading(
                Verdict.FAULT,
                "an XML document where JSON should be: %s" % _brief(text),
                code=FaultCode.UNREADABLE,
            )
        if "html" in kind or text[:1] == "<":
            return Reading(
                Verdict.FAULT,
                "an HTML page where JSON should be (a login page, or a proxy's?)",
                code=FaultCode.HTML,
            )
        return Reading(
            Verdict.FAULT, "a body that is not JSON: %s" % _brief(text), code=FaultCode.UNREADABLE
        )

    def _judge(
        self, data: Any, reply: Optional[Reply], moved: bool = False, accepted: bool = False
    ) -> Reading:
        """What decoded data says."""
        word, place = self._status.find(data)
        meaning, is_literal = (None, True) if word is None else self._words.look_up(word)
        if reply and ((moved and meaning is None) or (accepted and word is None)):
            return _arrived(reply, data)
        if word is None:
            return self._read_no_status(data, reply, place)
        verdict = _MEANINGS[meaning or self._unknown]
        if verdict is Verdict.DONE and self._status.is_guess and self._went_wrong(data, word):
            verdict = (
                Verdict.FAILED
            )  # such as google.longrunning.Operation: done, and error or response
        warnings: Tuple[str, ...] = ()
        if not is_literal:
            word = flat_word(word)
        because = 'status "%s"%s: %s' % (word, place and " at " + place, verdict.value)
        if meaning is None:
            warnings = ("unknown status %r counts as %s" % (word, verdict.value),)
        fraction, total = self._find_progress(data)
        if verdict is Verdict.PENDING:
            reading = _pending(reply, because, word, fraction, total, warnings)
        else:
            reading = self._read_end(
                data,
                reply,
                Reading(verdict, because, word, fraction=fraction, warnings=warnings, total=total),
            )
        if is_literal and place in self._status.known_places:
            return reading
        code = FaultCode.UNKNOWN_STATUS if meaning is None else None
        return reading._replace(quotes_server=True, code=code)

    def _read_no_status(self, data: Any, reply: Optional[Reply], place: str) -> Reading:
        if reply and reply.status == 202:
            return _pending(reply, "202 Accepted: pending", accepted=True)
        if self._status.is_guess and _is_operation(data):
            return _pending(reply, "an operation that is not done: pending")
        where = "nothing at " + place
        if not place:
            where = (
                "none of the common places has one; a profile can say where it is (status = ...)"
            )
        return Reading(Verdict.FAULT, "no status found: " + where, code=FaultCode.NO_STATUS)

    def _read_end(self, data: Any, reply: Optional[Reply], ended: Reading) -> Reading:
        """Add to the reading of a job that has ended: its result or error, and its times."""
        is_done = ended.verdict is Verdict.DONE
        warnings = ended.warnings
        if is_done and len(self._result) == 1 and self._result[0].find(data, self) is self:
            warnings += ("there is nothing at %s: the result is null" % self._result[0].text,)
        code, message = (None, None) if is_done else self._find_error(data)
        duration, delay = self._find_times(data, reply)
        is_counted = is_done and ended.fraction is not None
        reading = ended._replace(
            result=self._find_result(data) if is_done else None,
            warnings=warnings,
            error_code=code,
            error_message=message,
            duration_s=duration,
            notice_delay_s=delay,
            fraction=1.0 if is_counted else ended.fraction,
        )
        return reading if reply is None else _passed_on(reading)

    def _went_wrong(self, data: Any, status: str) -> bool:
        """Whether something beside the status says that the job is done, but not well."""
        verdicts = [path.find(data) for path in places.VERDICTS]
        if isinstance(data, dict) and status.lower() in places.OVER:
            verdicts.append(data.get("result"))  # Azure DevOps: "completed" and "failed"
        return (
            any(path.find(data) for path in places.BLAMES)
            or any(path.find(data) is False for path in places.DENIALS)
            or any(
                isinstance(word, str) and self._words.meaning(word) == "failed" for word in verdicts
            )
        )

    def _find_progress(self, data: Any) -> Tuple[Optional[float], Optional[float]]:
        """How far the job has come, as a fraction, and of how much where two paths say so."""
        if not isinstance(data, dict):
            return None, None
        for key, path in self._progress:
            value = path.find(data) if key in data else None
            if (
                value is None or type(value) is dict
            ):  # as a rule; places inside it are looked at in their turn
                continue
            if self._total is not None:
                value, total = parse_amount(value), parse_amount(self._total.find(data))
                return (
                    (min(1.0, value / total), total)
                    if value is not None and total
                    else (None, None)
                )
            fraction = parse_fraction(value)
            if fraction is not None:
                return fraction, None
        return None, None

    def _find_result(self, data: Any) -> Any:
        for path in self._result:
            value = path.find(data)
            if value is not None:
                return value
        return data if len(self._result) > 1 else None

    def _find_error(self, data: Any) -> Tuple[Optional[str], Optional[str]]:
        code = next(
            (str(v) for v in (p.find(data) for p in self._code) if isinstance(v, (str, int))), None
        )
        for path in self._error:
            value = path.find(data)
            if value:
                return code, value if isinstance(value, str) else data_text(value)
        return code, None

    def _find_times(
        self, data: Any, reply: Optional[Reply]
    ) -> Tuple[Optional[float], Optional[float]]:
        finished = _first_timestamp(self._finished, data)
        if finished is None:
            return None, None
        created = _first_timestamp(self._created, data)
        duration = None if created is None or created > finished else finished - created
        now = hints.server_time(reply.headers, reply.received_at) if reply else None
        return duration, None if now is None else max(0.0, now - finished)


def _read_status(reply: Reply, accepted: bool) -> Reading:
    """What an HTTP status outside 2xx amounts to."""
    status = reply.status
    if status == 304:
        return Reading(Verdict.PENDING, "304: unchanged", accepted=accepted)
    if (
        status in REDIRECTS
        and "location" in reply.headers
        and hints.parse_retry_after(reply.headers, reply.received_at)[0]
    ):
        there = join_url(reply.url, reply.headers["location"])
        return Reading(
            Verdict.PENDING,
            "%d: to be followed, though not at once" % status,
            location=there,
            accepted=accepted,
        )
    if status == 303 and linked_url(reply):
        return Reading(
            Verdict.SEE_OTHER,
            "303: look at %s" % redact_url(linked_url(reply) or ""),
            location=linked_url(reply),
        )
    if status == 429:
        return Reading(Verdict.LIMITED, "429: too many requests")
    if status in (401, 403):
        return Reading(Verdict.UNAUTHORISED, "%d: not authorised%s" % (status, _said(reply)))
    if status == 404:
        return Reading(Verdict.NOT_FOUND, "404: not found%s" % _said(reply))
    if 400 <= status < 500 and status not in _RETRIED:
        return Reading(Verdict.REFUSED, "the server refused: %d%s" % (status, _said(reply)))
    because = "the server answered %d%s" % (status, _said(reply))
    return Reading(Verdict.FAULT, because, code=FaultCode.HTTP_ERROR, http_status=status)


def _read_empty(reply: Reply, is_result: bool) -> Reading:
    if is_result:
        return _arrived(reply, None)
    if reply.status in (202, 204):
        return _pending(
            reply, "%d without a body: pending" % reply.status, accepted=reply.status == 202
        )
    return Reading(
        Verdict.FAULT,
        "%d with an empty body: no status to read" % reply.status,
        code=FaultCode.NO_STATUS,
    )


def _pending(
    reply: Optional[Reply],
    because: str,
    word: Optional[str] = None,
    fraction: Optional[float] = None,
    total: Optional[float] = None,
    warnings: Tuple[str, ...] = (),
    accepted: bool = False,
) -> Reading:
    if reply is None:
        return Reading(
            Verdict.PENDING, because, word, fraction=fraction, warnings=warnings, total=total
        )
    return Reading(
        Verdict.PENDING,
        because,
        word,
        fraction=fraction,
        warnings=warnings,
        total=total,
        location=linked_url(reply) if reply.status in (201, 202) else None,
        etag=hints.usable_etag(reply.headers),
        accepted=accepted,
    )


def _arrived(reply: Reply, result: Any) -> Reading:
    """What comes after a bare 202 or a 303 is the result, unless it has a status of its own."""
    return _passed_on(
        Reading(Verdict.DONE, "%d with the result: done" % reply.status, result=result)
    )


def _passed_on(ended: Reading) -> Reading:
    """An end whose result whoever hears of it can read: this is once a job, and not once a poll."""
    try:
        result = to_plain_json(ended.result)
    except ValueError as error:
        return Reading(Verdict.REFUSED, "the result can't be used: %s" % error)
    return ended if result is ended.result else ended._replace(result=result)


def linked_url(reply: Reply) -> Optional[str]:
    """The URL that a reply points to, made absolute; only http and https count."""
    for name in _LINKS:
        link = reply.headers.get(name)
        if link:
            return join_url(reply.url, link)
    return None


def _is_operation(data: Any) -> bool:
    """google.longrunning.Operation: a `done` that is false is left out of its JSON."""
    return isinstance(data, dict) and "operations/" in str(data.get("name")) and "done" not in data


def _said(reply: Reply) -> str:
    """The server's own words about an error, cut short."""
    try:
        data = decode_json(reply.body or b" ")
    except ValueError:
        return ""
    for path in places.ERROR_PLACES:
        value = path.find(data)
        if isinstance(value, str) and value.strip():
            return ", " + _brief(value)
    return ""


def _places(own: Optional[str], common: Tuple[Path, ...]) -> Tuple[Path, ...]:
    return common if own is None else (Path(own),)


def _first_timestamp(places: Tuple[Path, ...], data: Any) -> Optional[float]:
    for path in places:
        at = hints.parse_timestamp(path.find(data))
        if at is not None:
            return at
    return None


def _brief(text: str) -> str:
    return repr(one_line(text, 120))
