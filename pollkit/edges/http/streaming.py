"""Responses with a body of any size: the bytes of the body are taken as they arrive.

A StreamingParser keeps no more of the body than one `feed` has brought. It streams only the body of
a 200 or a 206; that of any other response is small, and is part of the response as usual.

The body may have any size. But pollkit asks for no compression, and a compressed body may not
expand without limit: a few megabytes of gzip data could fill the disk.
"""

import zlib
from typing import Dict, Optional

from .parser import (
    MAX_GZIP_MEMBERS,
    BadResponse,
    Response,
    ResponseParser,
    ResponseTooLarge,
    is_chunked,
    parse_chunk_size,
    parse_length,
)

MAX_RATIO = 200  # unpacked bytes per received byte; deflate can reach 1032, logs about 50
UNCHECKED_SIZE = 100 * 1024 * 1024  # unpacked bytes up to which any ratio is accepted

_STREAMED = (200, 206)
_LONG_CHUNK = 512  # bytes; the framing of shorter chunks counts towards the limit of the parser


class StreamingParser(ResponseParser):
    """Parses the response to one request; `take` returns the bytes of its body so far."""

    __slots__ = (
        "_taken",
        "_left",
        "_unpacker",
        "_members",
        "_packed_size",
        "_unpacked_size",
        "is_streaming",
    )

    def __init__(self) -> None:
        super().__init__()
        self._taken = bytearray()
        self._left = 0  # bytes of the body, or of the current chunk
        self._unpacker: "Optional[zlib._Decompress]" = None
        self._members = 0
        self._packed_size = 0  # bytes of the compressed body so far
        self._unpacked_size = 0
        self.is_streaming = False  # the headers have arrived, and the body is streamed

    @property
    def status(self) -> int:
        """The HTTP status; only while it is streaming."""
        return self._status

    @property
    def headers(self) -> Dict[str, str]:
        """The headers; only while it is streaming."""
        return self._headers

    def take(self) -> bytes:
        """Remove and return the bytes of the body that have arrived."""
        data = bytes(self._taken)
        self._taken = bytearray()
        return data

    def end(self) -> Response:
        """The server closed the connection: the response if that completes it."""
        # RFC 9112, 8: a chunked body is complete with its zero-sized chunk.
        if self._step in (StreamingParser._stream_until_closed, StreamingParser._stream_trailer):
            return self._finish_stream(is_delimited=False)
        return super().end()

    def _position(self) -> str:
        return "within the body" if self.is_streaming else super()._position()

    def _choose_body(self) -> bool:
        if self._status not in _STREAMED:
            return super()._choose_body()
        self.is_streaming = True
        headers = self._headers
        coding = headers.get("content-encoding", "").strip().lower()
        if coding in ("gzip", "x-gzip"):
            self._unpacker = zlib.decompressobj(31)
        elif coding not in ("", "identity"):
            raise BadResponse("the content coding is %r: pollkit reads only gzip" % coding[:40])
        self._buffer = bytearray(self._buffer)
        if "transfer-encoding" in headers and is_chunked(headers["transfer-encoding"]):
            self._framing = 0
            self._step = StreamingParser._stream_chunk_size
        elif "content-length" in headers:
            self._left = parse_length(headers["content-length"], is_bounded=False)
            self._step = StreamingParser._stream_length
        else:
            self._step = StreamingParser._stream_until_closed
        return True

    def _stream_length(self) -> bool:
        self._move(self._left)
        if self._left == 0:
            self._finish_stream(is_delimited=True)
        return False

    def _stream_until_closed(self) -> bool:
        self._left = len(self._buffer)
        self._move(self._left)
        return False

    def _stream_chunk_size(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        self._left = parse_chunk_size(line)
        if self._left >= _LONG_CHUNK:
            self._framing = 0
        has_data = self._left > 0
        self._step = StreamingParser._stream_chunk if has_data else StreamingParser._stream_trailer
        return True

    def _stream_chunk(self) -> bool:
        self._move(self._left)
        if self._left:
            return False
        self._step = StreamingParser._stream_chunk_end
        return True

    def _stream_chunk_end(self) -> bool:
        if not self._read_chunk_end():
            return False
        self._step = StreamingParser._stream_chunk_size
        return True

    def _stream_trailer(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        if line:
            return True
        self._finish_stream(is_delimited=True)
        return False

    def _move(self, most: int) -> None:
        """Move bytes from the buffer to the body."""
        buffer = self._buffer
        assert isinstance(buffer, bytearray)
        data = bytes(buffer[:most])
        del buffer[:most]
        self._left -= len(data)
        self._taken += data if self._unpacker is None else self._unpack(data)

    def _unpack(self, data: bytes) -> bytes:
        """RFC 1952, 2.2: gzip data may have several members, one after the other."""
        assert self._unpacker is not None
        if len(self._unpacker.unused_data) > 1:
            return b""  # no further member has begun after the last one: the rest is ignored
        unpacked = bytearray()
        self._packed_size += len(data)
        try:
            while data and self._unpacker is not None:
                unpacked += self._unpacker.decompress(data)
                data = self._unpacker.unused_data
                if self._unpacker.eof and data.startswith(b"\x1f\x8b"):
                    self._members += 1
                    if self._members > MAX_GZIP_MEMBERS:
                        raise zlib.error("too many members")
                    self._unpacker = zlib.decompressobj(31)
                else:
                    break
        except zlib.error:
            raise BadResponse("the body is not valid gzip data") from None
        self._unpacked_size += len(unpacked)
        self._check_ratio()
        return bytes(unpacked)

    def _check_ratio(self) -> None:
        most = max(UNCHECKED_SIZE, MAX_RATIO * self._packed_size)
        if self._unpacked_size > most:
            raise ResponseTooLarge(
                "the body is compressed and expands to over %d times its size: have the server "
                "send it uncompressed" % MAX_RATIO
            )

    def _finish_stream(self, is_delimited: bool) -> Response:
        is_unpacked = self._unpacker is None or self._unpacker.eof
        if self._packed_size > 0 and not is_unpacked:
            raise BadResponse("the body is not complete gzip data")
        self._headers = dict(self._headers)
        self._headers.pop("content-encoding", None)
        return self._finish(b"", is_delimited)
