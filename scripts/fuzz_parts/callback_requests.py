"""The target `callbacks`: mutated HTTP requests to the listener, parsed whole and in pieces."""

import random
from typing import Any, List, Tuple

from pollkit.core.callbacks import ACCEPTED, LONGEST_ID, Callback, CallbackRules, judge, sign
from pollkit.edges.callbacks import request_parser as parser_module
from pollkit.edges.callbacks import server
from pollkit.edges.callbacks.request_parser import RefusedRequest, RequestParser

from .common import Target, Violation
from .in_pieces import check_in_pieces

# The real limits are far beyond the inputs; these are within reach.
LIMITS = {"MAX_HEAD": 512, "MAX_BODY": 1024}
SECRET = b"s3cr3t"
# The id of the job is the last part of the path, or in the body.
RULES = [CallbackRules(SECRET), CallbackRules(SECRET, id_path="job.id")]

_POST = b"POST /jobs/job_1 HTTP/1.1\r\nHost: localhost:8099\r\n"
_JSON = b'{"job": {"id": "job_1"}, "status": "done"}'
_SIGNED = b"X-Pollkit-Signature: " + sign(_JSON, SECRET).encode("ascii") + b"\r\n"

CORPUS = [
    _POST + _SIGNED + b"Content-Type: application/json\r\nContent-Length: 42\r\n\r\n" + _JSON,
    _POST + b"Expect: 100-continue\r\nContent-Length: 42\r\n\r\n" + _JSON,
    _POST + b"X-Pollkit-Signature: Bearer s3cr3t\r\n\r\n",
    _POST + b"Content-Length: 0\r\n\r\n" + _POST,
    _POST + b"Content-Length: 42, 42\r\nX-A: 1\r\nx-a:2\r\n\r\n" + _JSON,
    _POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    _POST + b"Content-Length: 1024\r\n\r\n" + b"x" * 1024,
    _POST + b"Content-Length: 1025\r\n\r\n" + b"x" * 1025,
    _POST + b"X: " + b"x" * 440 + b"\r\n\r\n",
    _POST + b"X: y\r\n" * 300,
    b"GET / HTTP/1.0\n\n",
    b"POST /%E2%82%AC%00?id=1#x HTTP/1.1\nHost: a\n\n",
    b'POST / HTTP/1.1\r\nContent-Length: 24\r\n\r\n{"job": {"id": 12345678}}',
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
]
TOKENS = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b":",
    b",",
    b"/",
    b"%",
    b"?",
    b"\x00",
    b"\x85",
    b"\xa0",
    b"POST ",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 5, 5\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"X: y\r\n",
    b" folded\r\n",
    b"nonsense\r\n",
    b'{"job": {"id": ',
    b'{"id": ',
    b"[" * 50,
    _SIGNED,
]


def prepare() -> None:
    """Lower the limits."""
    for name, value in LIMITS.items():
        setattr(parser_module, name, value)


def check(data: bytes, rng: random.Random, is_thorough: bool) -> str:
    """Parse the data in several ways; a summary of the outcome, or a Violation."""
    return check_in_pieces(_parse, data, rng, is_thorough)


def _parse(pieces: List[bytes]) -> Tuple[str, Any]:
    """A summary of the outcome, and what must be the same for any pieces."""
    parser = RequestParser()
    try:
        for piece in pieces:
            callback = parser.feed(piece)
            if callback is not None:
                break
    except RefusedRequest as refused:
        _check_status(refused.status)
        return "refused with %d" % refused.status, None
    if callback is None:
        size = sum(map(len, pieces))
        if size >= sum(LIMITS.values()):
            raise Violation("%d bytes were not enough" % size)
        return "incomplete", None
    _check_callback(callback)
    answers = [_judge(callback, rules) for rules in RULES]
    return "complete: " + " or ".join(answers), callback


def _check_callback(callback: Callback) -> None:
    if len(callback.body) > LIMITS["MAX_BODY"]:
        raise Violation("the body has %d bytes" % len(callback.body))
    length = callback.headers.get("content-length", "0").partition(",")[0].strip()
    if len(callback.body) != int(length) or "transfer-encoding" in callback.headers:
        raise Violation("the body is not as long as the headers say: %r" % (callback,))
    if not callback.target or callback.target.split() != [callback.target]:
        raise Violation("the target is not one word: %r" % callback.target)
    for name, value in callback.headers.items():
        if name != name.lower() or value != value.strip() or "\n" in name + value:
            raise Violation("a header is not in its normal form: %r: %r" % (name, value))


def _judge(callback: Callback, rules: CallbackRules) -> str:
    """Judge the request as it is, and as if its sender knew the secret; the second status."""
    _check_status(judge(callback, rules).status)
    headers = dict(callback.headers, **{rules.header.lower(): SECRET.decode("ascii")})
    answer = judge(callback._replace(headers=headers), rules)
    _check_status(answer.status)
    if (answer.status == ACCEPTED) != (answer.job_id is not None):
        raise Violation("status %d for the job %r" % answer)
    if answer.job_id is not None:
        is_usable = 0 < len(answer.job_id) <= LONGEST_ID and answer.job_id.isprintable()
        if not is_usable:
            raise Violation("an unusable id: %r" % answer.job_id)
    return str(answer.status)


def _check_status(status: int) -> None:
    """The server must be able to send it."""
    if not server._response(status).startswith(b"HTTP/1.1 %d " % status):
        raise Violation("no response for the status %d" % status)


TARGET = Target("requests to --listen, parsed whole and in pieces", CORPUS, TOKENS, prepare, check)
