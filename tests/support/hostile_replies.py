"""Replies that are made to cost a client much time or memory, each with a body of up to 10 MB.

    case = CASES["gzip of empty objects"]
    case.answer()   the bytes of the server, for raw_server.RawServer
    case.profile    the settings of the profile that reads it
    case.expected   a part of the outcome: its state, its error, or the beginning of its result
    case.timeout_s  the request timeout, if the reply lasts longer than any; None otherwise

CASES has all of them, by title.

Endless replies are sent until the client leaves. Answers are built when they are needed: all of
them together would take 600 MB.
"""

import gzip
import json
import zlib

from raw_server import CHUNKED, DRIP, HANG, RESET, reply

MB = 1024 * 1024
LARGEST = 10 * MB
TOKEN = "s3cr" * 500 + "et"
RUNNING = '{"status": "running"}'
STILL_RUNNING = 'last status "running"'
TOO_MUCH = "take over 48 MB of memory"
TOO_LONG = "a number in it is too long"
IDLE_S = 0.5  # the client only waits
BUSY_S = 2.0  # the client is busy: long enough for more CPU time than it may take
IDEOGRAM = "\u4e2d".encode("utf-8")
EMOJI = "\U0001f600".encode("utf-8")


class Case:
    """One hostile reply; see the module."""

    def __init__(self, answer, expected, timeout_s=None, **profile):
        self.answer = answer
        self.expected = expected
        self.timeout_s = timeout_s
        self.profile = profile


def endless(piece, head=b""):
    """An answer without end: the same bytes again and again, until the client leaves."""

    def send(connection, request):
        connection.send(head)
        while not connection.pause(0):
            connection.send(piece)

    return send


def byte_by_byte(data, head=b""):
    """An answer in segments of one byte, as fast as the server can send them."""

    def send(connection, request):
        connection.send(head)
        for i in range(len(data)):
            connection.send(data[i : i + 1])

    return send


def with_headers(**headers):
    """A harmless reply except for its headers."""
    return reply(RUNNING, **headers)


def filled(start, piece, end=b"", size=LARGEST):
    """A body of that size, nearly all of it made of one piece."""
    return start + piece * ((size - len(start) - len(end)) // len(piece)) + end


def objects(size=LARGEST):
    """A body of the values that take the most memory."""
    return filled(b"[{}", b",{}", b"]", size)


def packed(body):
    """A reply whose body is compressed."""
    return reply(gzip.compress(body), Content_Encoding="gzip")


def result_of(piece, end=b"", size=LARGEST):
    """A reply of 10 MB that is done; its result is one text."""
    return reply(filled(b'{"status": "done", "result": "', piece, end + b'"}', size))


def field_of(start, piece, end=b'"}', status="200 OK"):
    """A reply of 10 MB, nearly all of it one field."""
    return reply(filled(start, piece, end), status)


def utf_16(size):
    """A body in UTF-16, whose result is a text that takes the most memory."""
    text = '{"status": "done", "result": "%s\U0001f600"}' % ("x" * (size // 2 - 100))
    return text.encode("utf-16")


def hard_numbers():
    """Numbers just beside the middle between two floats, which are the slowest to round."""
    number = b"3.3378335569274395108172735770229183524e-308"
    return b"[" + b",".join([number] * 220000) + b"]"


HEADERS = {
    "RateLimit of one long word": Case(lambda: with_headers(RateLimit="x" * 32000), STILL_RUNNING),
    "RateLimit of long parameters": Case(
        lambda: with_headers(RateLimit='"a";' + "x" * 15000 + '="' + "y;" * 8000), STILL_RUNNING
    ),
    "RateLimit of quotes": Case(lambda: with_headers(RateLimit='"";x=' * 6400), STILL_RUNNING),
    "RateLimit-Policy of quotes": Case(
        lambda: with_headers(RateLimit='"a";r=1', RateLimit_Policy='"";x=' * 6400), STILL_RUNNING
    ),
    "Retry-After of commas": Case(lambda: with_headers(Retry_After="," * 64000), STILL_RUNNING),
    "Retry-After of one long word": Case(
        lambda: with_headers(Retry_After="a" * 64000), STILL_RUNNING
    ),
    "Retry-After of digits": Case(lambda: with_headers(Retry_After="9" * 64000), STILL_RUNNING),
    "Date of one long word": Case(
        lambda: with_headers(Date="a" * 60000, Retry_After="Sun, 06 Nov 1994 08:49:37 GMT"),
        STILL_RUNNING,
    ),
    "ETag of 60 kB": Case(lambda: with_headers(ETag='"%s"' % ("e" * 60000)), STILL_RUNNING),
    "Content-Length of digits": Case(
        lambda: reply(b"{}", length=False, Content_Length="9" * 64000), "the limit is 10 MB"
    ),
    "Content-Length of commas": Case(
        lambda: reply(b"{}", length=False, Content_Length="2," * 30000),
        "Content-Length is not one number",
    ),
    "many distinct headers": Case(
        lambda: with_headers(**{"h%x" % number: "" for number in range(7000)}), STILL_RUNNING
    ),
    "one header many times": Case(
        lambda: b"HTTP/1.1 200 OK\r\n" + b"a:b\n" * 16000 + b"Content-Length: 2\r\n\r\n{}",
        "no status found",
    ),
    "one header folded many times": Case(
        lambda: b"HTTP/1.1 200 OK\r\na:b\n" + b" b\n" * 21000 + b"Content-Length: 2\r\n\r\n{}",
        "no status found",
    ),
    "Location of many parameters": Case(
        lambda: reply(status="302 Found", Location="/?" + "token=%41abcd&" * 4400), "can be used"
    ),
    "303 to many parameters": Case(
        lambda: reply(status="303 See Other", Location="/?" + "token=%41abcd&" * 4400), "303"
    ),
}
FRAMING = {
    "endless interim replies": Case(
        lambda: endless(b"HTTP/1.1 102 Processing\r\n\r\n" * 1000),
        "over 50 interim (1xx) responses",
    ),
    "endless chunks of one byte": Case(
        lambda: endless(b"1\r\n \r\n" * 1000, CHUNKED), "the chunk framing exceeds 768 kB"
    ),
    "endless trailers": Case(
        lambda: endless(b"a: b\r\n" * 1000, CHUNKED + b"0\r\n"), "the chunk framing exceeds 768 kB"
    ),
    "endless chunk extensions": Case(
        lambda: endless(b"1;" + b"x" * 4000 + b"\r\n \r\n", CHUNKED),
        "the chunk framing exceeds 768 kB",
    ),
    "chunks of one byte": Case(
        lambda: CHUNKED + b"1\r\n \r\n" * (LARGEST // 6), "the chunk framing exceeds 768 kB"
    ),
    "chunks of one byte with short line ends": Case(
        lambda: CHUNKED + b"1\n \n" * (LARGEST // 4), "the chunk framing exceeds 768 kB"
    ),
    "chunks of one byte with a zero and a space": Case(
        lambda: CHUNKED + b" 01\n \n" * (LARGEST // 6), "the chunk framing exceeds 768 kB"
    ),
    "chunks of one byte with an extension": Case(
        lambda: CHUNKED + b"1;\n \r\r\n" * (LARGEST // 7), "the chunk framing exceeds 768 kB"
    ),
    "chunks of one byte with a long extension": Case(
        lambda: CHUNKED + (b"1;" + b"x" * 41 + b"\n \n") * (LARGEST // 46),
        "the chunk framing exceeds 768 kB",
    ),
    "chunks of 250 bytes": Case(
        lambda: CHUNKED + (b"fa\r\n" + b" " * 250 + b"\r\n") * (LARGEST // 250) + b"0\r\n\r\n",
        "an empty body",
    ),
    "headers in segments of one byte": Case(
        lambda: byte_by_byte(b"X: " + b"a" * 60000, b"HTTP/1.1 200 OK\r\n"),
        "no complete reply",
        BUSY_S,
    ),
    "body in segments of one byte": Case(
        lambda: byte_by_byte(
            b" " * LARGEST, b"HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n"
        ),
        "no complete reply",
        BUSY_S,
    ),
    "body without a length in segments of one byte": Case(
        lambda: byte_by_byte(b" " * LARGEST, b"HTTP/1.1 200 OK\r\n\r\n"),
        "no complete reply",
        BUSY_S,
    ),
    "chunks in segments of one byte": Case(
        lambda: byte_by_byte(b"1\r\n \r\n" * MB, CHUNKED), "127.0.0.1", BUSY_S
    ),
}
STALLING = {
    "hang": Case(lambda: HANG, "no complete reply", IDLE_S),
    "hang after the headers": Case(
        lambda: [b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n", HANG],
        "no complete reply",
        IDLE_S,
    ),
    "drip": Case(lambda: DRIP(reply(RUNNING, X_Long="x" * 5000)), "no complete reply", IDLE_S),
    "reset": Case(lambda: RESET, "127.0.0.1"),
    "flood": Case(lambda: endless(b" " * 65536, b"HTTP/1.1 200 OK\r\n\r\n"), "exceeds 10 MB"),
    "endless headers": Case(
        lambda: endless(b"a: b\r\n" * 1000, b"HTTP/1.1 200 OK\r\n"), "the headers exceed 64 kB"
    ),
    "an endless header line": Case(
        lambda: endless(b"x" * 65536, b"HTTP/1.1 200 OK\r\nX: "), "the headers exceed 64 kB"
    ),
    "a header line of 60 kB": Case(lambda: with_headers(X="x" * 60000), STILL_RUNNING),
    "stray replies": Case(lambda: reply(RUNNING) * 3, STILL_RUNNING),
}
PACKING = {
    "gzip of empty objects": Case(lambda: packed(objects()), TOO_MUCH),
    "deflate of empty objects": Case(
        lambda: reply(zlib.compress(objects()), Content_Encoding="deflate"),
        "the content coding is 'deflate'",
    ),
    "gzip in many members": Case(
        lambda: reply(
            gzip.compress(b" " * 100000) * 99 + gzip.compress(b"{}"), Content_Encoding="gzip"
        ),
        "no status found",
    ),
    "gzip in members without content": Case(
        lambda: reply(gzip.compress(b"") * (LARGEST // 20), Content_Encoding="gzip"),
        "not valid gzip data",
    ),
    "gzip that hardly packs": Case(
        lambda: reply(
            gzip.compress(
                filled(b'{"status": "done", "result": "', b"x", b'"}', LARGEST - 100000), 0
            ),
            Content_Encoding="gzip",
        ),
        "xxx",
    ),
    "gzip of over 10 MB": Case(
        lambda: packed(b" " * (100 * MB)), "exceeds 10 MB when decompressed"
    ),
}
VALUES = {
    "empty objects": Case(lambda: reply(objects()), TOO_MUCH),
    "as many empty objects as are read": Case(lambda: reply(objects(425000)), "no status found"),
    "as many nested lists as are read": Case(
        lambda: reply(b"[" + b",".join([b"[" * 50 + b"]" * 50] * 7300) + b"]"), "no status found"
    ),
    "empty lists": Case(lambda: reply(filled(b"[[]", b",[]", b"]")), TOO_MUCH),
    "small objects": Case(lambda: reply(filled(b'[{"a":0}', b',{"a":0}', b"]")), TOO_MUCH),
    "distinct keys": Case(
        lambda: reply(b"{" + b",".join(b'"%x":0' % i for i in range(LARGEST // 12)) + b"}"),
        TOO_MUCH,
    ),
    "short texts": Case(
        lambda: reply(filled(b'["' + IDEOGRAM, b'","' + IDEOGRAM, b'"]')), TOO_MUCH
    ),
    "numbers": Case(lambda: reply(filled(b"[999", b",999", b"]")), TOO_MUCH),
    "nested lists": Case(lambda: reply(b"[" * LARGEST), TOO_MUCH),
    "nested objects": Case(lambda: reply(filled(b"", b'{"a":')), TOO_MUCH),
    "100,000 nested lists": Case(lambda: reply(b"[" * 100000), "nested too deep"),
    "JSON inside a text": Case(
        lambda: reply(
            json.dumps({"status": "done", "result": objects(LARGEST - 50).decode("ascii")})
        ),
        TOO_MUCH,
        result="result|json",
    ),
    "less JSON inside a text": Case(
        lambda: reply(json.dumps({"status": "done", "result": objects(350000).decode("ascii")})),
        "None",
        result="result|json",
    ),
    "as much JSON inside a text as is read": Case(
        lambda: reply(json.dumps({"status": "done", "result": objects(300000).decode("ascii")})),
        "[{}, {}",
        result="result|json",
    ),
    "escaped JSON inside a text": Case(
        lambda: result_of(b"\\u002c\\u007b}"), TOO_MUCH, result="result|json"
    ),
    "a long number inside a text": Case(
        lambda: result_of(b"9", size=2000000), "None", result="result|json"
    ),
}
WIDE_TEXTS = {
    "white space": Case(lambda: reply(b" " * LARGEST), "an empty body"),
    "white space before JSON": Case(
        lambda: reply(b" " * (LARGEST - 30) + RUNNING.encode("ascii")), STILL_RUNNING
    ),
    "one huge key": Case(lambda: reply(filled(b'{"', b"k", b'": 1, "status": "done"}')), "kkk"),
    "one huge text": Case(lambda: result_of(b"x"), "xxx"),
    "a huge text with an emoji": Case(lambda: result_of(b"x", EMOJI), TOO_MUCH),
    "a huge text with an escaped emoji": Case(lambda: result_of(b"x", b"\\ud83d\\ude00"), TOO_MUCH),
    "a huge text with an ideogram": Case(lambda: result_of(b"x", IDEOGRAM), TOO_MUCH),
    "a text of 9 MB with an ideogram": Case(lambda: result_of(b"x", IDEOGRAM, 9 * MB), "xxx"),
    "a text of 9 MB with an escaped ideogram": Case(
        lambda: result_of(b"x", b"\\u4e2d", 9 * MB), "xxx"
    ),
    "ideograms": Case(lambda: result_of(IDEOGRAM), "done"),
    "escaped ideograms": Case(lambda: result_of(b"\\u4e2d"), TOO_MUCH),
    "escaped line ends": Case(lambda: result_of(b"\\n"), TOO_MUCH),
    "short words and escaped line ends": Case(lambda: result_of(b"ab\\n"), TOO_MUCH),
    "short words and escaped ideograms": Case(lambda: result_of(b"ab\\u4e2d"), TOO_MUCH),
    "lone surrogates": Case(lambda: result_of(b"\\ud800"), TOO_MUCH),
    "some lone surrogates": Case(lambda: result_of(b"\\ud800", size=MB), "done"),
    "UTF-16": Case(lambda: reply(utf_16(LARGEST)), TOO_MUCH),
    "8 MB of UTF-16": Case(lambda: reply(utf_16(8 * MB)), "xxx"),
    "bytes that are no text": Case(lambda: reply(b"\xff" * LARGEST), "not JSON"),
    "bytes that are nearly text": Case(
        lambda: reply(b"x" * (LARGEST - 10) + EMOJI + b"\xff"), TOO_MUCH
    ),
    "JSON and then something else": Case(
        lambda: reply(filled(b'{"status": "done"}', b"x")), "not JSON"
    ),
    "infinity beside a huge text": Case(
        lambda: field_of(b'{"status": "done", "result": [1e999, "', IDEOGRAM, b'"]}'), "[None, "
    ),
    "a page of HTML": Case(
        lambda: reply(filled(b"<html>", b"<p>x"), Content_Type="text/html"), "an HTML page"
    ),
}
NUMBERS = {
    "2 million digits": Case(lambda: reply(b'{"status": %s}' % (b"9" * 2000000)), TOO_LONG),
    "10 MB of digits": Case(lambda: field_of(b'{"status": ', b"9", b"}"), TOO_LONG),
    "digits after the point": Case(
        lambda: field_of(b'{"status": "running", "progress": 0.', b"3", b"}"), STILL_RUNNING
    ),
    "digits before the point": Case(
        lambda: field_of(b'{"status": "running", "progress": 1', b"3", b".5}"), STILL_RUNNING
    ),
    "digits of an exponent": Case(
        lambda: field_of(b'{"status": "running", "progress": 1e', b"3", b"}"), STILL_RUNNING
    ),
    "progress in a long text": Case(
        lambda: field_of(b'{"status": "running", "progress": "', b"9"), STILL_RUNNING
    ),
    "a timestamp that is one long word": Case(
        lambda: field_of(b'{"status": "done", "finished_at": "', b"a"), "done"
    ),
    "many long numbers": Case(
        lambda: reply(b"[" + b",".join([b"9" * 4300] * (LARGEST // 4301)) + b"]"), "no status found"
    ),
    "numbers that are hard to round": Case(lambda: reply(hard_numbers()), "no status found"),
}
TEXTS = {
    "a status of 10 MB": Case(lambda: field_of(b'{"status": "', b"a"), "aaa"),
    "a status of many words": Case(lambda: field_of(b'{"status": "', b"a "), "a a"),
    "a status of ideograms": Case(lambda: field_of(b'{"status": "', IDEOGRAM), "\u4e2d"),
    "a status with a dotted I": Case(
        lambda: reply(filled(b'{"status": "', b"x", '\u0130"}'.encode("utf-8"), 9 * MB)), "xxx"
    ),
    "an error of many words": Case(
        lambda: field_of(b'{"status": "failed", "error": "', b"a "), "a a"
    ),
    "an error of small objects": Case(
        lambda: reply(b'{"status": "failed", "error": ' + objects(270000) + b"}"), "[{}, {}"
    ),
    "an error with a huge text inside": Case(
        lambda: reply(
            filled(b'{"status": "failed", "error": {"a": "', b"x", IDEOGRAM + b'"}}', 9 * MB)
        ),
        "xxx",
    ),
    "a 500 with an error of many words": Case(
        lambda: field_of(b'{"error": "', b"a ", status="500 No"), "the server answered 500"
    ),
    "a 404 of empty objects": Case(lambda: reply(objects(), "404 No"), "404: not found"),
    "a name of many values": Case(
        lambda: reply(b'{"name": ' + objects(270000) + b"}"), "no status found"
    ),
}
ECHOES = {
    "the token's first letters, 1 MB": Case(
        lambda: reply(filled(b'{"status": "failed", "error": "', b"s3cr", b'"}', MB)), "s3cr"
    ),
    "the token's first letters, 10 MB": Case(
        lambda: field_of(b'{"status": "failed", "error": "', b"s3cr"), "s3cr"
    ),
    "the token's first letters and quotes": Case(
        lambda: field_of(b'{"status": "failed", "error": "', b"s3cr" * 100 + b"'"), "***'***'"
    ),
    "the token's first letters as status": Case(
        lambda: field_of(b'{"status": "', b"s3cr", b'%"}'), 'last status "***..."'
    ),
}
for case in ECHOES.values():
    case.profile["auth"] = "bearer env:HOSTILE_TOKEN"
CASES = {}
for group in (HEADERS, FRAMING, STALLING, PACKING, VALUES, WIDE_TEXTS, NUMBERS, TEXTS, ECHOES):
    CASES.update(group)
