"""The targets `parser` and `streaming`: mutated HTTP responses, parsed whole and in pieces."""

import random
import re
import zlib
from typing import Any, List, Tuple

from pollkit.edges.http import parser as parser_module
from pollkit.edges.http import streaming
from pollkit.edges.http.parser import BadResponse, Response, ResponseParser

from .common import Target, Violation
from .in_pieces import check_in_pieces

# The real limits are far beyond the inputs; these are within reach.
LIMITS = {
    "MAX_BODY": 1024,
    "MAX_HEAD": 512,
    "MAX_CHUNK_LINE": 64,
    "MAX_FRAMING": 256,
    "MAX_INTERIM": 4,
    "MAX_GZIP_MEMBERS": 4,
}
MOST_BYTES = 5 * 512 + 1024 + 256  # after that many, no response can be incomplete


def _pack(data: bytes) -> bytes:
    """Gzip data; without the time, which gzip.compress adds, so that a seed repeats a run."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
_JSON = b'{"id": "job_1", "status": "running", "progress": 0.5}'
_GZIPPED = _pack(_JSON)
_BOMB = _pack(b"\0" * 4 * 1024 * 1024)

CORPUS = [
    _OK + b"Content-Type: application/json\r\nContent-Length: 53\r\n\r\n" + _JSON,
    _OK + b"Connection: keep-alive\r\nRetry-After: 5\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.0 503 Busy\nServer: old\n\nplease come back",
    _OK + b"Connection: close\r\n\r\n" + _JSON,
    _CHUNKED + b"5\r\nhello\r\n7;a=b\r\n, world\r\n0\r\n\r\n",
    _CHUNKED + b"A\r\n0123456789\r\n0\r\nX-Sum: 7\r\nY: z\r\n\r\n",
    _OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\n"
    + _OK
    + b"Content-Length: 1\r\n\r\nx",
    b"HTTP/1.1 204 No Content\r\nX-A: 1\r\nX-A: 2\r\nX-B: folded\r\n onto\r\n\tthis\r\n\r\n",
    b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 99\r\n\r\n',
    b"HTTP/1.1 302 Found\r\nLocation: /jobs/1\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n",
    _OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(_GZIPPED) + _GZIPPED,
    _OK + b"Content-Encoding: x-gzip\r\n\r\n" + _GZIPPED + _pack(b"more") + _GZIPPED,
    _OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(_BOMB) + _BOMB,
    _OK + b"Content-Length: 1024\r\n\r\n" + b"x" * 1024,
    _CHUNKED + b"200\r\n" + b"x" * 512 + b"\r\n1ff\r\n" + b"x" * 511 + b"\r\n0\r\n\r\n",
    _CHUNKED + b"0\r\n" + b"Checksum: 0123456789\r\n" * 11 + b"\r\n",
    _OK + b"X: " + b"x" * 480 + b"\r\n\r\n",
    b"HTTP/1.1 404 Gone\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
]
TOKENS = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"0\r\n",
    b"0\r\n\r\n",
    b"1\r\nx\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Upgrade\r\n\r\n",
    _OK,
    b"HTTP/2 200\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 5, 5\r\n",
    b"Content-Length: 1025\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Content-Encoding: br\r\n",
    b"X: y\r\n",
    b" folded\r\n",
    b"nonsense\r\n",
    b"\x1f\x8b",
    _pack(b"x"),
]


def prepare() -> None:
    """Lower the limits."""
    for name, value in LIMITS.items():
        setattr(parser_module, name, value)


def check(data: bytes, rng: random.Random, is_thorough: bool) -> str:
    """Parse the data in several ways; a summary of the outcome, or a Violation."""
    is_head = rng.random() < 0.1
    if is_thorough:
        _check(data, not is_head, rng, is_thorough)
    outcome = _check(data, is_head, rng, is_thorough)
    return outcome + " (HEAD)" if is_head else outcome


def _check(data: bytes, is_head: bool, rng: random.Random, is_thorough: bool) -> str:
    return check_in_pieces(lambda pieces: _parse(pieces, is_head), data, rng, is_thorough)


def _parse(pieces: List[bytes], is_head: bool) -> Tuple[str, Any]:
    """A summary of the outcome, and what must be the same for any pieces."""
    parser = ResponseParser(has_no_body=is_head)
    response = None
    fed = 0
    try:
        while response is None and fed < len(pieces):
            response = parser.feed(pieces[fed])
            fed += 1
        ends_with_connection = response is None
        if response is None:
            if sum(map(len, pieces)) > MOST_BYTES:
                raise Violation("%d bytes were not enough" % sum(map(len, pieces)))
            response = parser.end()
    except BadResponse as error:
        return _summary_of_error(error), None
    _check_response(response)
    # Surplus that has arrived is reported; surplus in later pieces is not the parser's.
    has_surplus = response.has_surplus or any(pieces[fed:])
    can_reuse = response.can_reuse and not has_surplus
    parts = ["%dxx" % (response.status // 100)]
    parts += ["until closed"] if ends_with_connection else []
    parts += ["can be reused"] if can_reuse else []
    parts += ["has surplus"] if has_surplus else []
    return ", ".join(parts), (response.status, response.headers, response.body)


def _summary_of_error(error: BadResponse) -> str:
    text = str(error)
    if len(text) > 250 or not text.isprintable():
        raise Violation("an error message is not one short line: %r" % text[:300])
    # Without quotations, which may depend on the bytes that had arrived by then.
    words = re.sub("'.*'|\".*\"|[0-9]{2,}", "...", text)
    return "%s: %s" % (type(error).__name__, words)


def _check_response(response: Response) -> None:
    if len(response.body) > parser_module.MAX_BODY:
        raise Violation("the body has %d bytes" % len(response.body))
    if not 200 <= response.status <= 999:
        raise Violation("the status is %d" % response.status)
    if response.can_reuse and response.has_surplus:
        raise Violation("the connection is to be used again, although it has surplus bytes")
    for name, value in response.headers.items():
        if name != name.lower() or value != value.strip() or "\n" in name + value:
            raise Violation("a header is not in its normal form: %r: %r" % (name, value))


def check_streaming(data: bytes, rng: random.Random, is_thorough: bool) -> str:
    """Parse the data as a download, in several ways; a summary of the outcome, or a Violation."""
    outcome = check_in_pieces(_stream, data, rng, is_thorough)
    _, streamed = _stream([data])
    _, parsed = _parse([data], is_head=False)
    if streamed is not None and parsed is not None and streamed != (parsed[0], parsed[2]):
        raise Violation("streamed and parsed differ: %r and %r" % (streamed, parsed))
    return outcome


def _stream(pieces: List[bytes]) -> Tuple[str, Any]:
    """As `_parse`, for a download."""
    parser = streaming.StreamingParser()
    body = b""
    response = None
    try:
        for piece in pieces:
            if response is None:
                response = parser.feed(piece)
                body += parser.take()
        if response is None:
            response = parser.end()
            body += parser.take()
    except BadResponse as error:
        return _summary_of_error(error), None
    _check_response(response)
    if body and not parser.is_streaming:
        raise Violation("a body is streamed that belongs to the response")
    return "%dxx" % (response.status // 100), (response.status, body + response.body)


TARGET = Target("HTTP responses, parsed whole and in pieces", CORPUS, TOKENS, prepare, check)
# A download may take more memory for a bomb: the limit is that of the disk.
_WITHOUT_BOMB = [data for data in CORPUS if _BOMB not in data]
STREAMING = Target("HTTP responses as downloads", _WITHOUT_BOMB, TOKENS, prepare, check_streaming)
