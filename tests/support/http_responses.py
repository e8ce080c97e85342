"""HTTP responses for the tests of the parser: tables by rule, and a generator of random ones."""

import gzip
import random
import zlib

from pollkit.edges.http.parser import MAX_BODY, MAX_GZIP_MEMBERS, MAX_INTERIM

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
JSON = b'{"status": "done"}'
GZIPPED = gzip.compress(JSON)


def with_body(body, *lines, start=b"HTTP/1.1 200 OK"):
    """A response with these header lines and the body's Content-Length."""
    lines = (start,) + lines + (b"Content-Length: %d" % len(body),)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def with_gzip(packed):
    """A response whose body claims to be gzip data."""
    return with_body(packed, b"Content-Encoding: gzip")


def in_chunks(*chunks):
    """A chunked body."""
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return framed + b"0\r\n\r\n"


# Complete without the end of the connection: the response, its status, its body, and whether
# the connection can be used again.
COMPLETE = {
    "Content-Length": (with_body(b"hello"), 200, b"hello", True),
    "Content-Length 0": (with_body(b""), 200, b"", True),
    "Content-Length with zeros": (OK + b"Content-Length: 005\r\n\r\nhello", 200, b"hello", True),
    "Content-Length twice": (
        OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        200,
        b"hello",
        True,
    ),
    "Content-Length as a list of equal numbers": (
        OK + b"Content-Length: 5, 5,5\r\n\r\nhello",
        200,
        b"hello",
        True,
    ),
    "a body that looks like a head": (with_body(OK + b"\r\n"), 200, OK + b"\r\n", True),
    "no reason phrase": (with_body(b"x", start=b"HTTP/1.1 200"), 200, b"x", True),
    "an empty reason phrase": (with_body(b"x", start=b"HTTP/1.1 200 "), 200, b"x", True),
    "a later minor version": (with_body(b"x", start=b"HTTP/1.2 200 OK"), 200, b"x", True),
    "an unknown status": (with_body(b"x", start=b"HTTP/1.1 799 What"), 799, b"x", True),
    "a Latin-1 reason phrase": (with_body(b"x", start=b"HTTP/1.1 404 \xe9"), 404, b"x", True),
    "bare LF": (OK.replace(b"\r", b"") + b"Content-Length: 2\n\nhi", 200, b"hi", True),
    "bare LF before CRLF": (OK + b"Content-Length: 2\n\r\nhi", 200, b"hi", True),
    "bare LF after CRLF": (OK + b"Content-Length: 2\r\n\nhi", 200, b"hi", True),
    "chunked": (CHUNKED + in_chunks(b"hello, ", b"world"), 200, b"hello, world", True),
    "chunked, empty": (CHUNKED + in_chunks(), 200, b"", True),
    "chunk extensions": (
        CHUNKED + b'5;a=1;b="x y" \r\nhello\r\n0;last\r\n\r\n',
        200,
        b"hello",
        True,
    ),
    "chunk size with spaces and zeros": (
        CHUNKED + b" 0005 \r\nhello\r\n000\r\n\r\n",
        200,
        b"hello",
        True,
    ),
    "chunk size in either case": (
        CHUNKED + b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
        200,
        b"0123456789" * 2,
        True,
    ),
    "chunk size with 16 digits": (CHUNKED + b"0000000000000001\r\nx\r\n0\r\n\r\n", 200, b"x", True),
    "chunked with bare LF": (CHUNKED + b"5\nhello\n0\n\n", 200, b"hello", True),
    "a chunk that contains line ends": (
        CHUNKED + in_chunks(b"\r\n0\r\n\r\n"),
        200,
        b"\r\n0\r\n\r\n",
        True,
    ),
    "trailers": (CHUNKED + b"2\r\nhi\r\n0\r\nChecksum: 7\r\nX: y\r\n\r\n", 200, b"hi", True),
    "Chunked in capitals": (
        OK + b"Transfer-Encoding: CHUNKED\r\n\r\n" + in_chunks(b"x"),
        200,
        b"x",
        True,
    ),
    "identity, chunked": (
        OK + b"Transfer-Encoding: identity, chunked\r\n\r\n" + in_chunks(b"x"),
        200,
        b"x",
        True,
    ),
    "chunked wins over Content-Length": (
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + in_chunks(b"hello"),
        200,
        b"hello",
        False,
    ),
    "Transfer-Encoding: identity and Content-Length": (
        OK + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi",
        200,
        b"hi",
        False,
    ),
    "HTTP/1.0 with chunked": (
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
        + in_chunks(b"x"),
        200,
        b"x",
        False,
    ),
    "204 never has a body": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    "204 with Content-Length": (b"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", 204, b"", True),
    "304 with the Content-Length of the 200": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nETag: x\r\n\r\n",
        304,
        b"",
        True,
    ),
    "304 that claims to be chunked": (
        b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
        304,
        b"",
        True,
    ),
    "304 that claims to be compressed": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Encoding: br\r\n\r\n",
        304,
        b"",
        True,
    ),
    "100 Continue first": (b"HTTP/1.1 100 Continue\r\n\r\n" + with_body(b"x"), 200, b"x", True),
    "several 1xx first": (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3
        + b"HTTP/1.1 102 Busy\n\n"
        + with_body(b"x"),
        200,
        b"x",
        True,
    ),
    "the most 1xx allowed": (
        b"HTTP/1.1 102\r\n\r\n" * MAX_INTERIM + with_body(b"x"),
        200,
        b"x",
        True,
    ),
    "1xx with a Content-Length, which does not count": (
        b"HTTP/1.1 100 Go\r\nContent-Length: 7\r\n\r\n" + with_body(b"x"),
        200,
        b"x",
        True,
    ),
    "close": (with_body(b"x", b"Connection: close"), 200, b"x", False),
    "Close in a list": (with_body(b"x", b"Connection: foo, Close"), 200, b"x", False),
    "close in a second header": (
        with_body(b"x", b"Connection: upgrade", b"Connection: close"),
        200,
        b"x",
        False,
    ),
    "keep-alive": (with_body(b"x", b"Connection: keep-alive"), 200, b"x", True),
    "HTTP/1.0": (with_body(b"x", start=b"HTTP/1.0 200 OK"), 200, b"x", False),
    "HTTP/1.0 with keep-alive": (
        with_body(b"x", b"Connection: Keep-Alive", start=b"HTTP/1.0 200 OK"),
        200,
        b"x",
        True,
    ),
    "HTTP/1.0 with keep-alive and close": (
        with_body(b"x", b"Connection: keep-alive, close", start=b"HTTP/1.0 200 OK"),
        200,
        b"x",
        False,
    ),
    "gzip": (with_gzip(GZIPPED), 200, JSON, True),
    "X-GZIP": (with_body(GZIPPED, b"Content-Encoding: X-GZIP"), 200, JSON, True),
    "gzip in several members": (
        with_gzip(gzip.compress(b"a") + gzip.compress(b"") + gzip.compress(b"b")),
        200,
        b"ab",
        True,
    ),
    "gzip with padding": (with_gzip(GZIPPED + b"\0" * 9), 200, JSON, True),
    "gzip in chunks": (
        OK
        + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        + in_chunks(GZIPPED[:3], GZIPPED[3:]),
        200,
        JSON,
        True,
    ),
    "an empty body, whatever its coding": (with_body(b"", b"Content-Encoding: br"), 200, b"", True),
    "identity": (with_body(b"x", b"Content-Encoding: identity"), 200, b"x", True),
    "an empty coding": (with_body(b"x", b"Content-Encoding:"), 200, b"x", True),
}

# Complete with the end of the connection: the response and its body.
UNTIL_CLOSED = {
    "no length": (OK + b"\r\nhello", b"hello"),
    "no length, no body": (OK + b"Server: x\r\n\r\n", b""),
    "HTTP/1.0, keep-alive": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhi", b"hi"),
    "Transfer-Encoding: identity": (OK + b"Transfer-Encoding: identity\r\n\r\nhi", b"hi"),
    "an empty Transfer-Encoding": (OK + b"Transfer-Encoding: , ,\r\n\r\nhello", b"hello"),
    "gzip": (OK + b"Content-Encoding: gzip\r\n\r\n" + GZIPPED, JSON),
    "the zero chunk without the empty line after it": (CHUNKED + b"2\r\nhi\r\n0\r\n", b"hi"),
    "trailers without an end": (CHUNKED + b"2\r\nhi\r\n0\r\nChecksum: 7\r\nX: ", b"hi"),
}

# Neither complete nor wrong.
INCOMPLETE = {
    "nothing": b"",
    "part of the first line": b"HTT",
    "no empty line": OK + b"Content-Length: 0\r\n",
    "no LF in the empty line": OK + b"Content-Length: 0\r\n\r",
    "only 1xx": b"HTTP/1.1 100 Continue\r\n\r\n",
    "a byte too few": with_body(b"hello")[:-1],
    "no chunk": CHUNKED,
    "part of a chunk size": CHUNKED + b"5",
    "part of a chunk": CHUNKED + b"5\r\nhel",
    "a chunk without its end": CHUNKED + b"5\r\nhello",
    "a chunk with half its end": CHUNKED + b"5\r\nhello\r",
    "no zero chunk": CHUNKED + b"5\r\nhello\r\n",
    "half a zero chunk": CHUNKED + b"5\r\nhello\r\n0\r",
}

# Refused with BadResponse: by words of its message.
REFUSED = {
    "is not HTTP/1.x": {
        "another protocol": b"SSH-2.0-OpenSSH_8.9\r\n",
        "another protocol, with an empty line": b"220 mail\r\n\r\n",
        "a TLS alert": b"\x15\x03\x01\x00\x02\x02\x46",
        "an empty line first": b"\r\n" + with_body(b"x"),
        "HTTP/2": b"HTTP/2 200\r\n\r\n",
        "HTTP/2.0, incomplete": b"HTTP/2.0 ",
        "no minor version": b"HTTP/1.\r\n\r\n",
        "a minor version of two digits": b"HTTP/1.10 200 OK\r\n\r\n",
        "a minor version that is no digit": b"HTTP/1.x 200 OK\r\n\r\n",
        "no status": b"HTTP/1.1\r\n\r\n",
        "no space before the status": b"HTTP/1.1\t200 OK\r\n\r\n",
        "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
        "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
        "a status with a sign": b"HTTP/1.1 +20 OK\r\n\r\n",
        "a status with a superscript": b"HTTP/1.1 20\xb2 OK\r\n\r\n",
        "a status below 100": b"HTTP/1.1 099 What\r\n\r\n",
        "nonsense after 1xx": b"HTTP/1.1 100 Go\r\n\r\nfoo",
    },
    "to another protocol": {"101": b"HTTP/1.1 101 Switching Protocols\r\n\r\n"},
    "over 50 interim": {"too many 1xx": b"HTTP/1.1 102\r\n\r\n" * (MAX_INTERIM + 1)},
    "Content-Length is not one number": {
        "two lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "two lengths in a list": OK + b"Content-Length: 5, 6\r\n\r\nhello",
        "an empty length": OK + b"Content-Length:\r\n\r\n",
        "an empty part of a list": OK + b"Content-Length: 5,\r\n\r\nhello",
        "a negative length": OK + b"Content-Length: -5\r\n\r\n",
        "a signed length": OK + b"Content-Length: +5\r\n\r\n",
        "a fraction": OK + b"Content-Length: 5.0\r\n\r\n",
        "a hexadecimal length": OK + b"Content-Length: 0x5\r\n\r\n",
        "a superscript": OK + b"Content-Length: 5\xb2\r\n\r\n",
        "an underscore": OK + b"Content-Length: 1_0\r\n\r\n",
    },
    "the transfer coding is": {
        "gzip, chunked": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        "chunked twice": OK + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n",
        "something like chunked": OK + b"Transfer-Encoding: xchunked\r\n\r\n",
    },
    "a chunk size is not a hexadecimal number": {
        "a word": CHUNKED + b"xyz\r\n",
        "nothing": CHUNKED + b"\r\n",
        "only an extension": CHUNKED + b";a=1\r\n",
        "a negative size": CHUNKED + b"-1\r\n",
        "0x": CHUNKED + b"0x1\r\n",
        "an underscore": CHUNKED + b"1_0\r\n",
        "17 digits": CHUNKED + b"0" * 17 + b"\r\n",
    },
    "a chunk is longer than its size says": {
        "too long": CHUNKED + b"2\r\nhello\r\n",
        "no line end": CHUNKED + b"2\r\nhi2\r\nhi\r\n",
    },
    "the content coding is": {
        "brotli": with_body(b"x", b"Content-Encoding: br"),
        "deflate": with_body(zlib.compress(b"x"), b"Content-Encoding: deflate"),
        "gzip twice": with_body(gzip.compress(GZIPPED), b"Content-Encoding: gzip, gzip"),
    },
    "not valid gzip data": {
        "JSON": with_gzip(b"{}"),
        "cut short": with_gzip(GZIPPED[:-9]),
        "no checksum": with_gzip(GZIPPED[:-8]),
        "a wrong checksum": with_gzip(GZIPPED[:-8] + b"\0" * 8),
        "a second member that is not gzip": with_gzip(GZIPPED + b"\x1f\x8bx"),
        "too many members": with_gzip(gzip.compress(b"") * (MAX_GZIP_MEMBERS + 1)),
    },
}

# Refused with ResponseTooLarge: by words of its message.
TOO_LARGE = {
    "the limit is 10 MB": {
        "a byte too many": OK + b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1),
        "an enormous length": OK + b"Content-Length: " + b"9" * 200 + b"\r\n\r\n",
    },
    "the body exceeds 10 MB": {
        "a large chunk": CHUNKED + b"%x\r\n" % (MAX_BODY + 1),
        "the largest chunk size": CHUNKED + b"f" * 16 + b"\r\n",
    },
}


class ResponseGenerator:
    """Makes random valid responses; only such that http.client can read, too."""

    VALUE = 'abcXYZ 019,;:=/"()*\t\xe9\xfc~'
    NAMES = [b"Server", b"Date", b"X-Job", b"Retry-After", b"ETag", b"Set-Cookie", b"x-lower"]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.line_end = self.any_of(b"\r\n", b"\r\n", b"\r\n", b"\n")

    def any_of(self, *choices):
        return self.random.choice(choices)

    def response(self):
        """The bytes of a response, and whether it answers a HEAD request."""
        is_head = self.random.random() < 0.1
        is_http_1_0 = self.random.random() < 0.2
        status = self.any_of(200, 200, 200, 201, 202, 204, 301, 304, 404, 429, 500, 503)
        lines = [self._header() for _ in range(self.random.randrange(6))]
        lines += self.any_of([], [], [b"Connection: close"], [b"Connection: Keep-Alive"])
        framing, body = self._framed_body(can_be_chunked=not is_http_1_0)
        has_body = not is_head and status not in (204, 304)
        lines += framing if has_body else []
        self.random.shuffle(lines)
        reason = self.any_of(b"", b" ", b" OK", b" Not: so")
        start = b"HTTP/1.%d %d%s" % (not is_http_1_0, status, reason)
        interim = (b"HTTP/1.1 100 Continue" + self.line_end * 2) * self.any_of(0, 0, 0, 1, 3)
        head = interim + self.line_end.join([start] + lines) + self.line_end * 2
        return head + (body if has_body else b""), is_head

    def _header(self):
        size = self.random.randrange(12)
        text = "".join(self.random.choice(self.VALUE) for _ in range(size))
        value = text.strip().encode("latin-1")
        if value and self.random.random() < 0.1:
            value += self.line_end + self.any_of(b" ", b"\t") + b"folded"
        before = self.any_of(b"", b" ", b"  ", b"\t")
        after = self.any_of(b"", b"", b" ")
        return self.random.choice(self.NAMES) + b":" + before + value + after

    def _framed_body(self, can_be_chunked):
        """The header lines that describe the body, and the body as it is sent."""
        size = self.any_of(0, 1, 2, 17, 300)
        body = bytes(self.random.choice(b'{}": \r\nab0\x00\xff') for _ in range(size))
        lines = []
        if self.random.random() < 0.3:
            lines.append(b"Content-Encoding: gzip")
            body = self._packed(body)
        framing = self.any_of("length", "chunked", "until closed")
        if framing == "length":
            lines.append(b"Content-Length: %d" % len(body))
        elif framing == "chunked" and can_be_chunked:
            lines.append(b"Transfer-Encoding: chunked")
            body = self._chunked(body)
        return lines, body

    def _packed(self, body):
        cut = self.random.randrange(len(body) + 1)
        two_members = gzip.compress(body[:cut]) + gzip.compress(body[cut:])
        return self.any_of(gzip.compress(body), two_members)

    def _chunked(self, body):
        framed = b""
        while body:
            size = self.random.randrange(1, len(body) + 1)
            digits = self.any_of(b"%x", b"%X", b"%04x") % size
            extension = self.any_of(b"", b"", b";a", b';a="b c"', b" ;x=y")
            framed += digits + extension + b"\r\n" + body[:size] + b"\r\n"
            body = body[size:]
        trailer = self.any_of(b"", b"", b"X-Sum: 1\r\n", b"A: 1\r\nB:\r\n")
        return framed + self.any_of(b"0", b"000", b"0;last") + b"\r\n" + trailer + b"\r\n"
