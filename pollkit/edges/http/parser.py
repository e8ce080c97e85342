"""HTTP/1.x responses, parsed without a socket: bytes go in, 'need more' or a response comes out.

    parser = ResponseParser()
    response = parser.feed(data)    # None until the response is complete
    response = parser.end()         # the server closed the connection

Rules
  * The parser never reads, waits or sleeps. It gives the same response whether it is fed the
    bytes at once or one by one.
  * It follows RFC 9112: section 6.3 for the length of a body, 7.1 for chunks, 5.2 for folded
    lines, 9.3 for the reuse of the connection.
  * Memory and work are bounded, whatever the server sends. Each limit is a constant below.
"""

import re
import zlib
from typing import Any, Callable, Dict, NamedTuple, Optional, Union

from .header_lines import parse_headers
from .whole_chunks import take_whole_chunks

MAX_BODY = 10 * 1024 * 1024  # bytes, also after decompression
MAX_HEAD = 64 * 1024  # bytes of status line and headers
MAX_CHUNK_LINE = 4 * 1024
MAX_FRAMING = 768 * 1024  # bytes of chunk lines and trailers: 150,000 chunks, 0.3 s of CPU
MAX_INTERIM = 50  # 1xx responses before the final one
MAX_GZIP_MEMBERS = 100

_START = "HTTP/1."
_USUAL_START = "HTTP/1.1 200 "
_STATUS_LINE = re.compile(r"HTTP/1\.[0-9] [1-9][0-9][0-9](?![^ \r\n])")
HEAD_END = re.compile(rb"\n\r?\n")  # RFC 9112, 2.2: a bare LF may end a line
_LONGEST_LENGTH = 18  # digits: more are too large in any case


class BadResponse(Exception):
    """The server sent something that is not a proper HTTP response."""


class ResponseTooLarge(BadResponse):
    """The body exceeds MAX_BODY."""


class IncompleteResponse(BadResponse):
    """The server closed the connection in the middle of a response."""


class Response(NamedTuple):
    """A complete response, its body decompressed and its header names in lower case."""

    status: int
    headers: Dict[str, str]
    body: bytes
    can_reuse: bool  # whether the connection can carry another request
    has_surplus: bool  # whether bytes followed that belong to no response we asked for


class ResponseParser:
    """Parses the response to one request.

    `has_no_body` is for requests whose response never has a body: HEAD, and CONNECT when it
    succeeds.
    """

    __slots__ = (
        "_buffer",
        "_scanned",
        "_step",
        "_has_no_body",
        "_status",
        "_headers",
        "_is_http_1_0",
        "_length",
        "_body",
        "_framing",
        "_interim",
        "_response",
    )

    def __init__(self, has_no_body: bool = False) -> None:
        self._has_no_body = has_no_body
        self._buffer: Union[bytes, bytearray] = b""  # a bytearray once it has to grow
        self._scanned = 0  # bytes known not to end the head
        self._interim = 0
        self._response: Optional[Response] = None
        # A function, not a bound method: that would be a reference cycle, and keep the body in
        # memory until the garbage collector runs.
        self._step: Callable[[Any], bool] = ResponseParser._read_head

    def feed(self, data: bytes) -> Optional[Response]:
        """Take the next bytes; the response once it is complete, None while more are needed."""
        if isinstance(self._buffer, bytearray):
            self._buffer += data
        else:
            self._buffer = data  # most responses arrive in one piece
        while self._step(self):
            pass
        if self._response is None and not isinstance(self._buffer, bytearray):
            self._buffer = bytearray(self._buffer)
        return self._response

    def end(self) -> Response:
        """The server closed the connection: the response if that completes it."""
        if self._response is not None:
            return self._response
        if self._step is ResponseParser._read_until_closed:
            return self._finish(bytes(self._buffer), is_delimited=False)
        if self._step is ResponseParser._read_trailer:
            # RFC 9112, 8: a chunked body is complete with its zero-sized chunk.
            return self._finish_chunked(is_delimited=False)
        raise IncompleteResponse("the server closed the connection %s" % self._position())

    def _position(self) -> str:
        if self._step is ResponseParser._read_head:
            return "within the headers"
        if self._step is ResponseParser._read_length:
            return "after %d of %d bytes of the body" % (len(self._buffer), self._length)
        return "within the chunks of the body"

    @property
    def has_begun(self) -> bool:
        """Whether any byte of a response has arrived."""
        is_within_head = self._step is ResponseParser._read_head
        return bool(self._buffer) or self._interim > 0 or not is_within_head

    # Each step consumes bytes from the buffer. It returns True when the next step can continue,
    # and False when more bytes are needed or the response is complete.

    def _read_head(self) -> bool:
        """Read the headers of the response, or of an interim response before it."""
        buffer = self._buffer
        end = HEAD_END.search(buffer, self._scanned)
        if end is None or end.end() > MAX_HEAD:
            self._check_unfinished_head()
            self._scanned = max(0, len(buffer) - 2)
            return False
        self._parse_head(buffer[: end.start()].decode("latin-1"))
        self._buffer = buffer[end.end() :]
        if self._status < 200:
            self._skip_interim()
            return True
        return self._choose_body()

    def _check_unfinished_head(self) -> None:
        start = self._buffer[:40].decode("latin-1")
        if start[: len(_START)] != _START[: len(start)]:
            raise BadResponse("the response is not HTTP/1.x: %r" % start)
        if len(self._buffer) > MAX_HEAD:
            raise BadResponse("the headers exceed %d kB" % (MAX_HEAD // 1024))

    def _parse_head(self, head: str) -> None:
        if head.startswith(_USUAL_START):
            self._status = 200
        elif _STATUS_LINE.match(head):
            self._status = int(head[9:12])
        else:
            raise BadResponse("the response is not HTTP/1.x: %r" % head[:40])
        self._is_http_1_0 = head[7] == "0"
        lines = head.split("\n")
        del lines[0]
        self._headers = parse_headers(lines)

    def _skip_interim(self) -> None:
        """RFC 9110, 15.2: a 1xx response is followed by the real one."""
        if self._status == 101:
            raise BadResponse("the server switched to another protocol, unasked")
        self._interim += 1
        self._scanned = 0
        if self._interim > MAX_INTERIM:
            raise BadResponse("over %d interim (1xx) responses" % MAX_INTERIM)

    def _choose_body(self) -> bool:
        """RFC 9112, 6.3: how the end of the body is marked."""
        headers = self._headers
        if self._has_no_body or self._status in (204, 304):
            self._finish(b"", is_delimited=True)
            return False
        if "transfer-encoding" in headers and is_chunked(headers["transfer-encoding"]):
            self._body = bytearray()
            self._framing = 0
            self._buffer = bytearray(self._buffer)
            self._step = ResponseParser._read_chunk_size
        elif "content-length" in headers:
            self._length = parse_length(headers["content-length"])
            self._step = ResponseParser._read_length
            return self._read_length()
        else:
            self._step = ResponseParser._read_until_closed
        return True

    def _read_length(self) -> bool:
        length = self._length
        buffer = self._buffer
        if len(buffer) < length:
            return False
        self._buffer = buffer[length:]
        buffer = bytes(buffer[:length])  # drops the bytearray, before the body is decompressed
        self._finish(buffer, is_delimited=True)
        return False

    def _read_until_closed(self) -> bool:
        if len(self._buffer) > MAX_BODY:
            raise ResponseTooLarge("the body exceeds %d MB" % (MAX_BODY >> 20))
        return False

    def _read_chunk_size(self) -> bool:
        assert isinstance(self._buffer, bytearray)
        most_framing = MAX_FRAMING - self._framing
        most_body = MAX_BODY - len(self._body)
        self._framing += take_whole_chunks(self._buffer, self._body, most_framing, most_body)
        line = self._take_line()
        if line is None:
            return False
        size = parse_chunk_size(line)
        if len(self._body) + size > MAX_BODY:
            raise ResponseTooLarge("the body exceeds %d MB" % (MAX_BODY >> 20))
        self._length = size
        self._step = ResponseParser._read_chunk if size else ResponseParser._read_trailer
        return True

    def _read_chunk(self) -> bool:
        size = self._length
        buffer = self._buffer
        assert isinstance(buffer, bytearray)
        if len(buffer) <= size:
            return False
        self._body += buffer[:size]
        del buffer[:size]
        self._step = ResponseParser._read_chunk_end
        return True

    def _read_chunk_end(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        if line:
            raise BadResponse("a chunk is longer than its size says")
        self._step = ResponseParser._read_chunk_size
        return True

    def _read_trailer(self) -> bool:
        """RFC 9112, 7.1.2: skip trailer fields up to an empty line."""
        line = self._take_line()
        if line is None:
            return False
        if line:
            return True
        self._finish_chunked(is_delimited=True)
        return False

    def _stay_complete(self) -> bool:
        return False

    def _take_line(self) -> Optional[bytes]:
        """The next line of chunk framing, without its line end; None if it is not complete."""
        buffer = self._buffer
        assert isinstance(buffer, bytearray)
        end = buffer.find(b"\n", 0, MAX_CHUNK_LINE)
        if end < 0:
            if len(buffer) >= MAX_CHUNK_LINE:
                raise BadResponse(
                    "a line of chunk framing exceeds %d kB" % (MAX_CHUNK_LINE // 1024)
                )
            return None
        line = bytes(buffer[:end]).rstrip(b"\r")
        del buffer[: end + 1]
        self._framing += end + 1
        if self._framing > MAX_FRAMING:
            raise BadResponse("the chunk framing exceeds %d kB" % (MAX_FRAMING // 1024))
        return line

    def _finish_chunked(self, is_delimited: bool) -> Response:
        body = bytes(self._body)
        self._body.clear()
        return self._finish(body, is_delimited)

    def _finish(self, body: bytes, is_delimited: bool) -> Response:
        headers = self._headers
        if "content-encoding" in headers and body:
            body = decompress(body, headers["content-encoding"])
        has_surplus = is_delimited and bool(self._buffer)
        can_reuse = is_delimited and not has_surplus and self._stays_open()
        self._response = Response(self._status, headers, body, can_reuse, has_surplus)
        self._step = ResponseParser._stay_complete
        return self._response

    def _stays_open(self) -> bool:
        """RFC 9112, 9.3: whether the server keeps the connection open."""
        headers = self._headers
        if "connection" in headers or self._is_http_1_0:
            connection = headers.get("connection", "").lower()
            if "close" in connection or (self._is_http_1_0 and "keep-alive" not in connection):
                return False
        # RFC 9112, 6.1 and 6.3: the framing is doubtful, so don't trust the connection further.
        is_doubtful = "content-length" in headers or self._is_http_1_0
        return not ("transfer-encoding" in headers and is_doubtful)


def is_chunked(coding: str) -> bool:
    """Whether a transfer coding is chunked; no other one is accepted."""
    codings = [part.strip() for part in coding.lower().split(",")]
    codings = [part for part in codings if part not in ("", "identity")]
    if not codings:
        return False
    if codings != ["chunked"]:
        raise BadResponse("the transfer coding is %r, which we did not ask for" % coding[:40])
    return True


def parse_length(text: str, is_bounded: bool = True) -> int:
    """Content-Length; several equal values count as one (RFC 9110, 8.6)."""
    digits = text
    if not text.isdecimal():
        values = {part.strip() for part in text.split(",")}
        digits = values.pop()
        if values or not digits.isdecimal():
            raise BadResponse("Content-Length is not one number: %r" % text[:40])
    if len(digits) > _LONGEST_LENGTH:
        # int() takes long for thousands of digits, and newer Pythons refuse them.
        digits = digits.lstrip("0")
    length = int(digits[:_LONGEST_LENGTH] or "0")
    if is_bounded and length > MAX_BODY:
        shown = digits if len(digits) <= 40 else digits[:37] + "..."
        raise ResponseTooLarge(
            "the body has %s bytes; the limit is %d MB" % (shown, MAX_BODY >> 20)
        )
    return length


def parse_chunk_size(line: bytes) -> int:
    """The size in the first line of a chunk."""
    digits = line.partition(b";")[0].strip()
    is_hexadecimal = digits and not digits.strip(b"0123456789abcdefABCDEF")
    if not is_hexadecimal or len(digits) > 16:
        raise BadResponse("a chunk size is not a hexadecimal number: %r" % line[:40])
    return int(digits, 16)


def decompress(body: bytes, coding: str) -> bytes:
    """A body without its content coding."""
    known = coding.strip().lower()
    if known in ("", "identity"):
        return body
    if known not in ("gzip", "x-gzip"):
        raise BadResponse(
            "the content coding is %r: pollkit asks for none, and reads only gzip" % coding[:40]
        )
    try:
        return _gunzip(body)
    except zlib.error:
        raise BadResponse("the body is not valid gzip data") from None


def _gunzip(body: bytes) -> bytes:
    """RFC 1952, 2.2: gzip data may have several members, one after the other."""
    members = []
    size = 0
    for _ in range(MAX_GZIP_MEMBERS):
        unpacker = zlib.decompressobj(31)  # 31: gzip only
        members.append(unpacker.decompress(body, MAX_BODY + 1 - size))
        size += len(members[-1])
        if size > MAX_BODY:
            raise ResponseTooLarge("the body exceeds %d MB when decompressed" % (MAX_BODY >> 20))
        if not unpacker.eof:
            raise zlib.error("incomplete")
        body = unpacker.unused_data
        if not body.startswith(b"\x1f\x8b"):
            return b"".join(members)
    raise zlib.error("too many members")
