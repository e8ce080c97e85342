"""HTTP/1.x requests, parsed without a socket: bytes go in, 'need more' or a request comes out.

Memory and work are bounded, whatever the client sends: see the constants below. A request without
Content-Length has no body (RFC 9112, 6.3); a chunked body is refused with 411, which RFC 9110,
15.5.12 allows.
"""

import re
from typing import Dict, List, Optional

from ...core.callbacks import Callback
from ..http.parser import HEAD_END, BadResponse, ResponseTooLarge, parse_length
from ..http.user_headers import HEADER_NAME

MAX_HEAD = 16 * 1024  # bytes of request line and headers
MAX_BODY = 256 * 1024  # bytes

_REQUEST_LINE = re.compile(r"([A-Z]{1,20}) (\S+) HTTP/1\.[0-9]")


class RefusedRequest(Exception):
    """The request can't be read further; `status` is that of the reply."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class RequestParser:
    """Parses one request."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0  # bytes known not to end the head
        self._head: Optional[Callback] = None  # without its body
        self._length = 0

    def feed(self, data: bytes) -> Optional[Callback]:
        """Take the next bytes; the request once it is complete, None while more are needed."""
        self._buffer += data
        if self._head is None:
            self._read_head()
        if self._head is None or len(self._buffer) < self._length:
            return None
        return self._head._replace(body=bytes(self._buffer[: self._length]))

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for a 100 before it sends the body (RFC 9110, 10.1.1)."""
        if self._head is None or self._buffer:
            return False
        return self._head.headers.get("expect", "").lower() == "100-continue"

    def _read_head(self) -> None:
        end = HEAD_END.search(self._buffer, self._scanned)
        self._scanned = max(0, len(self._buffer) - 2)
        head_size = len(self._buffer) if end is None else end.end()
        if head_size > MAX_HEAD:
            raise RefusedRequest(431)
        if end is None:
            return
        lines = self._buffer[: end.start()].decode("latin-1").split("\n")
        del self._buffer[: end.end()]
        request_line = _REQUEST_LINE.fullmatch(lines.pop(0).rstrip("\r"))
        if request_line is None:
            raise RefusedRequest(400)
        method, target = request_line.groups()
        headers = _parse_headers(lines)
        self._length = _body_length(headers)
        self._head = Callback(method, target, headers, b"")


def _parse_headers(lines: List[str]) -> Dict[str, str]:
    """The headers; the values of a repeated one are joined (RFC 9110, 5.3)."""
    headers: Dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not HEADER_NAME.fullmatch(name):
            raise RefusedRequest(400)
        name = name.lower()
        if name in headers:
            value = headers[name] + ", " + value.strip()
        headers[name] = value.strip()
    return headers


def _body_length(headers: Dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise RefusedRequest(411)
    try:
        length = parse_length(headers.get("content-length", "0"))
    except ResponseTooLarge:
        raise RefusedRequest(413) from None
    except BadResponse:
        raise RefusedRequest(400) from None
    if length > MAX_BODY:
        raise RefusedRequest(413)
    return length
