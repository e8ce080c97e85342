"""HTTP/1.x as bytes on a socket: one request out, one reply in, nothing else.

http.client spends half of its time in email.parser and a fifth on building requests; this is
a tenth of its size, because a poll needs no more. It follows RFC 9112: section 6.3 for where a
body ends, 7.1 for chunks, 5.2 for folded lines, 9.3 for when a connection may be used again.
"""
import re
import select
import socket
import time
import zlib
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

MAX_BODY = 10 * 1024 * 1024
MAX_HEAD = 64 * 1024
_HEAD_END = re.compile(rb"\n\r?\n")  # RFC 9112, 2.2: a bare LF may be taken for a line's end
_MAX_MEMBERS = 100
_MAX_INTERIM = 50               # 1xx replies before the real one
_MAX_OVERHEAD = 768 * 1024      # bytes of chunk lines and trailers: 150,000 chunks, or 0.3 s of CPU

# A server that sends byte by byte could keep us reading. After so many reads that brought little,
# we pause after each, and more arrives meanwhile.
_SMALL_READ = 512               # bytes
_SMALL_READS = 5000
_PAUSE_S = 0.002
_TLS_NOISE = re.compile(r"\[SSL[^\]]*\] ?| ?\(_ssl\.c:\d+\)")


class WireError(Exception):
    """The other side does not speak HTTP as it should, or not to the end."""


class BodyTooLarge(WireError):
    """More than MAX_BODY; asking again would bring the same."""


class NoReply(WireError):
    """The connection ended before a single byte of a reply: a stale one, if it was used before."""


class Received(NamedTuple):
    """A reply as it came; `reusable` says whether the connection can carry another request."""

    status: int
    headers: Dict[str, str]
    body: bytes
    reusable: bool


class Wire:
    """A connected socket. It waits as long as it takes; another thread may break it off (watch.py)."""

    __slots__ = ("sock", "used_at", "is_broken_off", "_small_reads")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.used_at = time.monotonic()
        self.is_broken_off = False
        self._small_reads = 0  # of the reply that is being read
        sock.settimeout(None)

    def exchange(self, request: bytes, bodiless: bool = False) -> Received:
        """Send a request and read its reply; socket.timeout, once it is broken off."""
        self.send(request)
        return self.receive(bodiless)

    def send(self, request: bytes) -> None:
        """The first half of an exchange."""
        try:
            sent = self.sock.send(request)
            if sent < len(request):
                self.sock.sendall(request[sent:])
        except OSError as error:
            if self.is_broken_off:
                raise socket.timeout("timed out") from None
            raise _no_reply(error) from None

    def receive(self, bodiless: bool = False) -> Received:
        """The second half of an exchange."""
        try:
            received = self._receive(bodiless)
        except (WireError, OSError):
            if self.is_broken_off:
                raise socket.timeout("timed out") from None
            raise
        if self.is_broken_off:  # which may have looked like the end of the reply
            raise socket.timeout("timed out")
        self.used_at = time.monotonic()
        return received

    def has_news(self) -> bool:
        """Whether something has arrived, be it the end; an idle connection is stale then: nothing was asked."""
        try:
            self.sock.settimeout(0)
            try:
                # Not the TLS socket's own recv: what counts is whether anything has arrived.
                socket.socket.recv(self.sock, 1, socket.MSG_PEEK)
            finally:
                self.sock.settimeout(None)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def break_off(self) -> None:
        """Wake whoever waits on the socket: it is over. For use from another thread."""
        self.is_broken_off = True
        try:
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # not TLS's own: that isn't thread-safe
        except OSError:
            pass

    def close(self) -> None:
        """Close the socket; never fails."""
        try:
            self.sock.close()
        except OSError:
            pass

    __del__ = close  # a thread that ends takes its connections along, without a ResourceWarning

    def _receive(self, bodiless: bool) -> Received:
        try:
            data = self.sock.recv(16384)
        except OSError as error:
            raise _no_reply(error) from None
        if not data:
            raise NoReply("the connection was closed without a reply")
        self._small_reads = 0
        for _ in range(_MAX_INTERIM + 1):
            status, headers, http_1_0, data = self._head(data)
            if status >= 200:
                break
            # 1xx: an interim reply, the real one follows (RFC 9110, 15.2)
            data = data or self._more("before its headers ended")
        else:
            raise WireError("the server sent over %d interim replies (1xx)" % _MAX_INTERIM)
        if (headers.get("content-length") == str(len(data)) and status == 200 and not bodiless
                and "transfer-encoding" not in headers):
            body, data, delimited = data, b"", True  # as nearly all come: whole, with the first read
        else:
            body, data, delimited = self._body(status, headers, data, bodiless)
        connection = headers.get("connection", "").lower()
        reusable = delimited and not data and (
            "keep-alive" in connection if http_1_0 else "close" not in connection)
        if "content-encoding" in headers and body:
            body = _decoded(body, headers["content-encoding"])
        return Received(status, headers, body, reusable)

    def _read(self) -> bytes:
        """Receive more of the reply; b"" at its end, or if another thread broke it off."""
        if self.is_broken_off:
            return b""
        data = self.sock.recv(65536)
        if len(data) < _SMALL_READ:
            self._small_reads += 1
            if self._small_reads > _SMALL_READS:
                time.sleep(_PAUSE_S)
        return data

    def _more(self, cut: str) -> bytes:
        data = self._read()
        if not data:
            raise WireError("the reply was cut short, " + cut)
        return data

    def _head(self, data: bytes) -> Tuple[int, Dict[str, str], bool, bytes]:
        """Status, headers, whether it is HTTP/1.0, and what was read beyond them."""
        end = _HEAD_END.search(data)
        while end is None:
            if len(data) > MAX_HEAD:
                raise WireError("the reply's headers go on for over %d kB" % (MAX_HEAD // 1024))
            if not data.startswith(b"HTTP/"[:len(data)]):
                raise WireError("the reply is not HTTP: %r" % data[:40])
            searched = max(0, len(data) - 2)  # the end may be half there
            data += self._more("before its headers ended")
            end = _HEAD_END.search(data, searched)
        # Values are stripped below, so a CR before the LF needs no care of its own.
        head = data[:end.start()].decode("latin-1")
        lines = head.split("\n")
        first = lines.pop(0)
        if not first.startswith("HTTP/1.") or not first[9:12].isdecimal():
            raise WireError("the reply is not HTTP/1.x: %r" % data[:40])
        headers: Dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()  # with it goes a CR before the LF
        if len(headers) < len(lines) or "\n " in head or "\n\t" in head:
            headers = _joined(lines)
        return int(first[9:12]), headers, first[7:8] == "0", data[end.end():]

    def _body(self, status: int, headers: Dict[str, str], data: bytes,
              bodiless: bool) -> Tuple[bytes, bytes, bool]:
        """The body, what was read beyond it, and whether its end was marked."""
        if bodiless or status == 204 or status == 304:
            return b"", data, True
        coding = headers.get("transfer-encoding")
        if coding is not None:
            # With both, Transfer-Encoding counts and the connection is not to be trusted (6.3).
            body, rest = self._chunked(data) if "chunked" in coding.lower() else (self._to_the_end(data), b"")
            return body, rest, "chunked" in coding.lower() and "content-length" not in headers
        text = headers.get("content-length")
        if text is None:
            return self._to_the_end(data), b"", False
        if not text.isdecimal():
            text = _agreed(text)
        text = text.lstrip("0")
        length = int(text[:18] or 0)  # with thousands of digits, int would take its time, or refuse
        if length > MAX_BODY:
            shown = text if len(text) <= 40 else text[:37] + "..."
            raise BodyTooLarge("the reply's body has %s bytes, over %d MB" % (shown, MAX_BODY >> 20))
        if len(data) < length:
            data = self._at_least(data, length)
        return data[:length], data[length:], True

    def _at_least(self, data: bytes, length: int) -> bytes:
        pieces, have = [data], len(data)
        while have < length:
            pieces.append(self._more("after %d of %d bytes" % (have, length)))
            have += len(pieces[-1])
        return b"".join(pieces)

    def _to_the_end(self, data: bytes) -> bytes:
        pieces, have = [data], len(data)
        while True:
            if have > MAX_BODY:
                raise BodyTooLarge("the reply's body goes on for over %d MB" % (MAX_BODY >> 20))
            pieces.append(self._read())
            if not pieces[-1] or self.is_broken_off:
                return b"".join(pieces)
            have += len(pieces[-1])

    def _chunked(self, data: bytes) -> Tuple[bytes, bytes]:
        """The body of a chunked reply, and what was read beyond it (RFC 9112, 7.1)."""
        buffer = _ChunkBuffer(self, data)
        pieces: List[bytes] = []
        have = 0
        while True:
            size = _chunk_size(buffer.line())
            if size == 0:
                break
            have += size
            if have > MAX_BODY:
                raise BodyTooLarge("the reply's body goes on for over %d MB" % (MAX_BODY >> 20))
            pieces.append(buffer.take(size))
            if buffer.line():
                raise WireError("the reply's chunks are not well-formed")
        while buffer.line():  # trailers, up to an empty line
            pass
        return b"".join(pieces), buffer.rest()


class _ChunkBuffer:
    """The bytes of a chunked reply that were read and not used yet."""

    __slots__ = ("_wire", "_data", "_at", "_overhead")

    def __init__(self, wire: Wire, data: bytes) -> None:
        self._wire = wire
        self._data = data
        self._at = 0         # where the unused bytes begin
        self._overhead = 0   # the bytes of lines so far, which are no part of the body

    def line(self) -> bytes:
        """The next line, without its end."""
        end = self._data.find(b"\n", self._at)
        while end < 0:
            rest = self.rest()
            if len(rest) > MAX_HEAD:
                raise WireError("the reply's chunks are not well-formed")
            self._data = rest + self._wire._more("within its chunks")
            self._at = 0
            end = self._data.find(b"\n", len(rest))
        line = self._data[self._at:end].rstrip(b"\r")
        self._overhead += end + 1 - self._at
        if self._overhead > _MAX_OVERHEAD:
            raise WireError("the reply has too many small chunks, or too much beside its chunks")
        self._at = end + 1
        return line

    def take(self, size: int) -> bytes:
        """So many bytes of the body."""
        if len(self._data) - self._at < size:
            self._data = self._wire._at_least(self.rest(), size)
            self._at = 0
        piece = self._data[self._at:self._at + size]
        self._at += size
        return piece

    def rest(self) -> bytes:
        """All unused bytes."""
        return self._data[self._at:]


def with_news(wires: Sequence[Optional[Wire]]) -> List[int]:
    """Wait until something has arrived, be it an end: the places of the wires where it has."""
    if not hasattr(select, "poll"):
        return [0]
    place_of = {wire.sock.fileno(): i for i, wire in enumerate(wires) if wire is not None}
    poll = select.poll()
    for file in place_of:
        poll.register(file, select.POLLIN)
    return sorted(place_of[file] for file, _ in poll.poll())


def _no_reply(error: OSError) -> NoReply:
    return NoReply("the connection broke without a reply: %s" % _TLS_NOISE.sub("", str(error.strerror or error)))


def _joined(lines: List[str]) -> Dict[str, str]:
    """Headers of which some are folded, or come more than once."""
    values: Dict[str, List[str]] = {"": []}
    name = ""
    for line in lines:
        if line[:1] in (" ", "\t"):
            values[name].append(" " + line.strip())
            continue
        name, _, value = line.partition(":")
        name = name.lower()
        parts = values.setdefault(name, [])
        if parts:
            parts.append(", ")
        parts.append(value.strip())
    return {name: "".join(parts) for name, parts in values.items() if parts}


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 16 or digits.strip(b"0123456789abcdefABCDEF"):
        raise WireError("the reply's chunks are not well-formed")
    return int(digits, 16)


def _agreed(text: str) -> str:
    """Content-Length said several times over counts if it is always the same (RFC 9110, 8.6)."""
    said = {part.strip() for part in text.split(",")}
    only = said.pop()
    if said or not only.isdecimal():
        raise WireError("the reply's Content-Length makes no sense: %r" % text[:40])
    return only


def _decoded(body: bytes, coding: str) -> bytes:
    """A body as it was before it was compressed."""
    known = coding.strip().lower()
    if known in ("", "identity"):
        return body
    if known not in ("gzip", "x-gzip"):  # RFC 9110, 8.4.1.3: two names for one coding
        raise WireError("the reply is encoded as %r: pollkit asks for none, and reads gzip at most"
                        % coding[:40])
    try:
        plain = _inflated(body)
    except zlib.error:
        raise WireError("the reply's %s encoding is broken" % known) from None
    if plain is None:
        raise BodyTooLarge("the reply's body unpacks to over %d MB" % (MAX_BODY >> 20))
    return plain


def _inflated(body: bytes) -> Optional[bytes]:
    """Unpack gzip, which may have several members (RFC 1952, 2.2); None if it is too large."""
    pieces: List[bytes] = []
    room = MAX_BODY + 1
    for _ in range(_MAX_MEMBERS):
        unpacker = zlib.decompressobj(31)  # gzip alone
        pieces.append(unpacker.decompress(body, room))
        room -= len(pieces[-1])
        if room <= 0:
            return None
        if not unpacker.eof:
            raise zlib.error("cut short")
        body = unpacker.unused_data
        if not body.startswith(b"\x1f\x8b"):
            return b"".join(pieces)
    raise zlib.error("too many members")
