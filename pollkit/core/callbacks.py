"""Callbacks: HTTP requests from other systems, which hint that a job has finished.

House rules
  * A callback is a hint: it makes pollkit poll one job now, and only the poll decides. So a
    callback that is lost, repeated or made up costs at most a poll.
  * A sender without the secret gets 401, whatever else is wrong with the request's content.
  * A sender with the secret gets 204, whether pollkit knows the job or not.
"""

import hmac
from typing import Any, Mapping, NamedTuple, Optional
from urllib.parse import unquote

from .reading.fields.json_paths import Path
from .reading.json_decoding import try_decode_json

SIGNATURE_HEADER = "X-Pollkit-Signature"
LONGEST_ID = 500  # characters

ACCEPTED = 204
BAD_REQUEST = 400
UNAUTHORIZED = 401
NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405


class Callback(NamedTuple):
    """A request; the names of its headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class CallbackRules(NamedTuple):
    """The secret of callbacks, and the places of the signature and of the id."""

    secret: bytes
    header: str = SIGNATURE_HEADER
    id_path: Optional[str] = None  # in the JSON body; None: the last part of the URL's path


class Answer(NamedTuple):
    """The status of the reply, and the job to poll if it is ACCEPTED."""

    status: int
    job_id: Optional[str] = None


def judge(callback: Callback, rules: CallbackRules) -> Answer:
    """Decide about a callback.

    >>> rules = CallbackRules(b"secret")
    >>> headers = {"x-pollkit-signature": sign(b"", b"secret")}
    >>> judge(Callback("POST", "/jobs/job_1", headers, b""), rules)
    Answer(status=204, job_id='job_1')
    >>> judge(Callback("POST", "/jobs/job_1", {}, b""), rules)
    Answer(status=401, job_id=None)
    """
    if callback.method != "POST":
        return Answer(METHOD_NOT_ALLOWED)
    credential = callback.headers.get(rules.header.lower(), "")
    if not _is_authentic(credential, callback.body, rules.secret):
        return Answer(UNAUTHORIZED)
    if rules.id_path is None:
        job_id = _id_from_target(callback.target)
        problem = NOT_FOUND
    else:
        job_id = _id_from_body(callback.body, rules.id_path)
        problem = BAD_REQUEST
    is_usable = 0 < len(job_id) <= LONGEST_ID and job_id.isprintable()
    if not is_usable:
        return Answer(problem)
    return Answer(ACCEPTED, job_id)


def sign(body: bytes, secret: bytes) -> str:
    """The signature of a body: 'sha256=' and its HMAC-SHA256 in hexadecimal."""
    return "sha256=" + hmac.new(secret, body, "sha256").hexdigest()


def _is_authentic(credential: str, body: bytes, secret: bytes) -> bool:
    """Whether the sender knows the secret.

    The header has the signature, with or without 'sha256=', or the secret itself, with or without
    'Bearer'. All comparisons take the same time for any value of the same length.
    """
    given = credential.strip().encode("latin-1", "replace")  # the bytes that the sender sent
    signature = sign(body, secret).encode("ascii")
    expected = (signature, signature[len(b"sha256=") :], secret, b"Bearer " + secret)
    return any(hmac.compare_digest(given, one) for one in expected)


def _id_from_target(target: str) -> str:
    """The last part of the path, percent-decoded."""
    path = target.partition("?")[0]
    return unquote(path.rpartition("/")[2])


def _id_from_body(body: bytes, path: str) -> str:
    """The text or whole number at a path of the JSON body; '' if there is none."""
    value: Any = Path(path).find(try_decode_json(body))
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if isinstance(value, str) or is_number else ""
