"""From the reply to a submission, or to a lookup, to an Answer.

    not sent          the connection failed before the request was sent
    429, 425          nothing was accepted: the request may be repeated
    401, 403          unauthorised
    other 4xx         refused, with the API's own words
    303, 2xx          accepted: the job's id or URL is in the body, or its URL in a header
    anything else     unclear: the server may have accepted the job

The job is polled at, in this order: the id at `submit_id`; the URL at `submit_status_url`, or in
Operation-Location or Location; an id in one of the usual fields. Its URL must be at an origin of
the profile, because the credential is sent there.

A reply that says that the job has finished needs no poll. Without `status` in the profile, a word
such as "success" only says that the job was accepted. With `prefer`, a 200 without an
id and without a status is the result: the server has chosen not to respond asynchronously.
"""

from typing import Any, List, NamedTuple, Optional, Tuple, Union

from ...errors import ConfigError
from ..model import Fault, FaultCode, Reply, one_line
from ..profiles.origins import check_credential_origin, credential_origins
from ..profiles.profile import Profile
from ..reading.fields import conventions
from ..reading.fields.job_fields import JobFields, paths_for
from ..reading.fields.json_paths import Path
from ..reading.fields.status_words import normalize_word
from ..reading.http_status import linked_url
from ..reading.json_decoding import to_plain_json, try_decode_json
from ..reading.middleboxes import is_page
from ..reading.reader import Reader
from ..reading.verdict import Reading, Verdict
from ..urls import fill_template, join_url, redact_url
from .intent import Answer, Kind

LONGEST_ID = 1000  # characters
_NOT_SENT = (
    FaultCode.NAME,
    FaultCode.CONNECT,
    FaultCode.NO_RESOURCES,
    FaultCode.REDIRECT,
    FaultCode.CONFIG,
)
# Of another client than pollkit's own, these may also come from a connection in use.
_NOT_SENT_BY_US = _NOT_SENT + (
    FaultCode.PROXY,
    FaultCode.TLS,
    FaultCode.HANDSHAKE,
    FaultCode.CERTIFICATE,
    FaultCode.CERTIFICATE_DATE,
    FaultCode.CERTIFICATE_NAME,
    FaultCode.CERTIFICATE_STRICT,
    FaultCode.CLIENT_CERTIFICATE,
)
_KINDS = {Verdict.LIMITED: Kind.LIMITED, Verdict.UNAUTHORISED: Kind.UNAUTHORISED}
_FINISHED = (Verdict.DONE, Verdict.FAILED)
_NOT_FOUND = (404, 410)


class _Place(NamedTuple):
    """The id or the URL of a job in a reply."""

    job_id: Optional[str]
    url: Optional[str]
    problem: str = ""  # why it can't be polled


class SubmitReader:
    """Reads the replies of the API that a profile describes.

    `is_own_client`: pollkit's own sockets have sent the request.
    """

    def __init__(self, profile: Profile, is_own_client: bool = True) -> None:
        self._profile = profile
        self._not_sent = _NOT_SENT_BY_US if is_own_client else _NOT_SENT
        self._reader = Reader(profile._replace(rules=()))  # they judge polls
        self._fields = JobFields(profile)
        self._id_paths = paths_for(profile.submit_id, conventions.ID_PATHS)
        self._url_path = None
        if profile.submit_status_url is not None:
            self._url_path = Path(profile.submit_status_url)
        self._item_paths = paths_for(profile.batch_items, conventions.BATCH_ITEMS_PATHS)
        self._origins = credential_origins(profile)

    def read(self, seen: Union[Reply, Fault]) -> Answer:
        """Read the reply to a request that submits a job."""
        if isinstance(seen, Fault):
            kind = Kind.UNCLEAR
            if seen.code in self._not_sent:
                kind = Kind.IMPOSSIBLE if seen.final else Kind.NOT_SENT
            return Answer(kind, str(seen))
        status = seen.status
        if 200 <= status < 300 or (status == 303 and linked_url(seen) is not None):
            return self._read_success(seen)
        reading = self._reader.read(seen)
        answer = _answer_from(Kind.UNCLEAR, reading, status)
        if reading.verdict in _KINDS:
            return answer._replace(kind=_KINDS[reading.verdict])
        if status == 425:  # RFC 8470, 5.2: the server has not processed the request
            return answer._replace(kind=Kind.NOT_SENT)
        if 300 <= status < 400:
            link = redact_url(linked_url(seen) or "nowhere")
            return answer._replace(because="%d: redirected to %s" % (status, one_line(link, 200)))
        if 400 <= status < 500 and status != 408:
            return self._read_refusal(seen, answer)
        return answer

    def read_lookup(self, seen: Union[Reply, Fault]) -> Answer:
        """Read the reply to a lookup."""
        if isinstance(seen, Fault):
            return Answer(Kind.NOT_SENT, str(seen))
        reading = self._reader.read(seen)
        answer = _answer_from(Kind.NOT_SENT, reading, seen.status)
        is_from_proxy = reading.verdict is Verdict.FAULT  # it names itself: see middleboxes
        if seen.status in _NOT_FOUND and not is_from_proxy:
            return answer._replace(kind=Kind.ABSENT, because="the lookup found no job")
        if reading.verdict in _KINDS:
            return answer._replace(kind=_KINDS[reading.verdict])
        if not 200 <= seen.status < 300:
            return answer
        return self._read_found(seen, answer)

    def _read_refusal(self, reply: Reply, answer: Answer) -> Answer:
        """Read a 4xx, in the API's own words if it has any."""
        code, message = self._fields.find_error(try_decode_json(reply.body))
        because = answer.because if message is None else one_line(message)
        return answer._replace(kind=Kind.REFUSED, error_code=code, because=because)

    def _read_success(self, reply: Reply) -> Answer:
        data = try_decode_json(reply.body)
        place = self._find_place(data, reply)
        reading = self._reader.read(reply)
        answer = _answer_from(Kind.ACCEPTED, reading, reply.status)
        answer = answer._replace(job_id=place.job_id, job_url=place.url)
        # A result with its own URL is fetched after a poll.
        can_fetch = self._profile.result_url is not None and not place.problem
        if self._has_finished(reading, reply) and not can_fetch:
            return answer._replace(is_finished=True)
        if not place.problem:
            return answer
        is_result = self._profile.prefer and reply.status == 200 and place.job_id is None
        if is_result and not is_page(reply):
            return _with_result(answer, data, reply)
        if data is None and reply.body.strip():
            return answer._replace(kind=Kind.UNCLEAR)  # a login page, for example
        problem = "the API has accepted the job, but it can't be polled: %s" % place.problem
        return answer._replace(kind=Kind.UNTRACKED, because=problem)

    def _has_finished(self, reading: Reading, reply: Reply) -> bool:
        """Whether the reply says that the job has finished already."""
        if reading.verdict not in _FINISHED or reply.status not in (200, 201):
            return False
        if self._profile.status is not None:
            return True
        is_envelope = normalize_word(reading.status or "") in conventions.ENVELOPE_WORDS
        return not is_envelope and not self._profile.rules

    def _read_found(self, reply: Reply, answer: Answer) -> Answer:
        """Read a 2xx reply to a lookup: a job, or a list with one job or none."""
        absent = answer._replace(kind=Kind.ABSENT, because="the lookup found no job")
        data = try_decode_json(reply.body)
        if not data:
            return answer if data is None and reply.body.strip() else absent
        place = self._find_place(data, reply)
        if place.problem:
            items = self._find_items(data)
            if items is None:
                problem = "the reply to submit_lookup can't be used: %s" % place.problem
                return answer._replace(because=problem)
            if not items:
                return absent
            if len(items) > 1:
                problem = "submit_lookup found %d jobs, not one: does it filter by the key?"
                return answer._replace(because=problem % len(items))
            place = self._find_place(items[0], reply)
        if place.problem:
            return answer._replace(because="submit_lookup found a job: " + place.problem)
        return answer._replace(kind=Kind.ACCEPTED, job_id=place.job_id, job_url=place.url)

    def _find_items(self, data: Any) -> Optional[List[Any]]:
        if isinstance(data, list):
            return data
        values = (path.find(data) for path in self._item_paths)
        return next((value for value in values if isinstance(value, list)), None)

    def _find_place(self, data: Any, reply: Reply) -> _Place:
        """The id or the URL of a job in a reply."""
        job_id = self._find_id(data)
        has_template = job_id is not None and self._fits_template(job_id)
        if has_template and self._profile.submit_id is not None:
            return _Place(job_id, None)
        url, problem = self._find_url(data, reply)
        if url is not None:
            return _Place(job_id, url)
        if has_template:
            return _Place(job_id, None)
        if not problem:
            problem = self._missing_place(job_id, data)
        return _Place(job_id, None, problem)

    def _find_id(self, data: Any) -> Optional[str]:
        for path in self._id_paths:
            value = path.find(data)
            if isinstance(value, int) and not isinstance(value, bool):
                return str(value)
            if isinstance(value, str) and 0 < len(value) <= LONGEST_ID and value.isprintable():
                return value
        return None

    def _fits_template(self, job_id: str) -> bool:
        if not self._profile.url:
            return False
        try:
            fill_template("{id}", id=job_id)
        except ConfigError:  # '.' and '..'
            return False
        return True

    def _find_url(self, data: Any, reply: Reply) -> Tuple[Optional[str], str]:
        """The URL of the job, or the reason why it can't be used; neither if there is none."""
        if self._url_path is not None:
            value = self._url_path.find(data)
            link = join_url(reply.url, value) if isinstance(value, str) and value else None
        else:
            link = linked_url(reply)
        if link is None:
            return None, ""
        try:
            check_credential_origin(link, self._origins)
        except ConfigError as error:
            return None, str(error)
        return link, ""

    def _missing_place(self, job_id: Optional[str], data: Any) -> str:
        """Why a job can't be polled."""
        if job_id is not None:
            problem = "its id is %s, and there is no url with {id}: set url in a profile"
            return problem % one_line(job_id, 80)
        where = "no usual field has an id; set submit_id = PATH"
        if self._profile.submit_status_url is not None:
            where = "there is no URL at %s" % self._profile.submit_status_url
        elif self._profile.submit_id is not None:
            where = "there is no id at %s" % self._profile.submit_id
        fields = ""
        if isinstance(data, dict):
            names = one_line(", ".join(map(str, list(data)[:10])), 120)
            fields = " (the reply has: %s)" % (names or "nothing")
        return "no id in the reply: %s%s" % (where, fields)


def _answer_from(kind: Kind, reading: Reading, status: int) -> Answer:
    return Answer(
        kind, reading.because, http_status=status, retry_after=reading.retry_after, reading=reading
    )


def _with_result(answer: Answer, data: Any, reply: Reply) -> Answer:
    """The answer for a reply that is the result itself."""
    if data is None:
        data = reply.body.decode("utf-8", "replace")
    try:
        result = to_plain_json(data)
    except ValueError as error:
        return answer._replace(kind=Kind.UNTRACKED, because="the result can't be used: %s" % error)
    reading = Reading(Verdict.DONE, "200 with the result: done", result=result)
    return answer._replace(is_finished=True, reading=reading)
