"""The targets `reader` and `headers`: replies, from their status to a verdict.

An input is the status, the headers and the body of a reply: b"200\\nRetry-After: 5\\n\\n{}".
"""

import json
import random
from typing import Dict, Optional

from pollkit.core.model import Reply
from pollkit.core.profiles.profile import Profile
from pollkit.core.reading.rate_limit_headers import LONGEST_S, parse_quota, parse_retry_after
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Reading

from .common import Target, Violation

NOW = 1763380800.0
URL = "https://api.internal/v1/jobs/1"
READERS = [
    Reader(Profile()),
    Reader(
        Profile(
            status="data.state",
            result="data.resultJson|json.url",
            error="error.message",
            progress="progress.done / progress.total",
            created="created_at",
            finished="finished_at",
            rules="failed if any tasks[].state in FAILED, CANCELLED\n"
            "done if all tasks[].state == SUCCEEDED\ndone if http 404\npending if count items > 3",
        )
    ),
]
BODIES = [
    b'{"status": "running", "progress": 0.5, "created_at": "2026-11-17T12:00:00Z"}',
    b'{"data": {"state": "done", "resultJson": "{\\"url\\": 1}"}, "finished_at": 1763380800}',
    b'{"tasks": [{"state": "SUCCEEDED"}, {"state": "FAILED"}], "items": [1, 2, 3, 4]}',
    b'{"done": true, "error": {"code": 5, "message": "no paper"}, "name": "operations/1"}',
    b'{"success": true, "result": {"status": "failed", "errors": ["x"]}, "progress": "99%"}',
    b"<!doctype html><title>Sign in</title><form><input type=password>",
    b"<?xml version='1.0'?><wps>running</wps>",
    b"SUCCEEDED",
    b"[1e999, -0, 12345678901234567890, null, {}]",
]
HEADERS = [
    b"Retry-After: 120",
    b"Retry-After: Sun, 06 Nov 2033 08:49:37 GMT\nDate: Sun, 06 Nov 2033 08:48:37 GMT",
    b"X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1763380860",
    b'RateLimit-Policy: "burst";q=100;w=60\nRateLimit: "burst";r=50;t=30',
    b"RateLimit-Limit: 10, 10;w=1, 50;w=60\nRateLimit-Remaining: 9\nRateLimit-Reset: 1",
    b'Location: /jobs/2\nETag: "x"',
    b"Server: squid/5.7\nX-Squid-Error: ERR_DNS_FAIL 0",
    b"Content-Type: text/html",
]
STATUSES = [b"200", b"202", b"204", b"303", b"304", b"401", b"403", b"404", b"429", b"500", b"503"]
CORPUS = [b"200\n\n" + body for body in BODIES]
CORPUS += [b"429\n" + headers + b"\n\n{}" for headers in HEADERS]
CORPUS += [status + b"\nRetry-After: 5\nLocation: /x\n\n" + BODIES[0] for status in STATUSES]
TOKENS = [b'"status"', b'"state": ', b"done", b"null", b"[{}]", b'{"error": ', b"\\ud800", b"\n\n"]
TOKENS += [b"Retry-After: ", b"-1", b"1e400", b"NaN", b";w=", b'"', b"GMT", b"%", b"\xff"]


def parse(data: bytes) -> Reply:
    """The reply that an input describes."""
    head, _, body = data.partition(b"\n\n")
    lines = head.decode("latin-1").split("\n")
    status = int(lines[0]) if lines[0].encode("latin-1") in STATUSES else 200
    headers: Dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip()] = value.strip()
    return Reply(status, headers, body, URL, NOW)


def check_reader(data: bytes, rng: random.Random, is_thorough: bool) -> str:
    """Read a reply in every way; a summary of the outcome, or a Violation."""
    reply = parse(data)
    is_moved = rng.random() < 0.2
    is_accepted = rng.random() < 0.2
    readings = [reader.read(reply, is_moved, is_accepted) for reader in READERS]
    for reading in readings:
        _check_reading(reading)
    again = READERS[0].read(reply, is_moved, is_accepted)
    if again != readings[0]:
        raise Violation("the same reply was read differently")
    return "%d: %s" % (reply.status, ", ".join(reading.verdict.value for reading in readings))


def _check_reading(reading: Reading) -> None:
    json.dumps(reading.result, allow_nan=False).encode("utf-8")
    if reading.fraction is not None and not 0.0 <= reading.fraction <= 1.0:
        raise Violation("progress is %r" % reading.fraction)
    if len(reading.because) > 20000:
        raise Violation("the explanation has %d characters" % len(reading.because))
    for seconds in (reading.duration_s, reading.notice_delay_s):
        if seconds is not None and not 0.0 <= seconds < float("inf"):
            raise Violation("a duration is %r" % seconds)
    _check_delay(reading.retry_after)


def _check_delay(seconds: Optional[float]) -> None:
    if seconds is not None and not 0.0 <= seconds <= LONGEST_S:
        raise Violation("a delay is %r" % seconds)


def check_headers(data: bytes, rng: random.Random, is_thorough: bool) -> str:
    """Parse the headers of a reply that concern rate limits."""
    reply = parse(data)
    delay, complaint = parse_retry_after(reply.headers, reply.received_at)
    _check_delay(delay)
    if complaint is not None and (len(complaint) > 1000 or not complaint.isprintable()):
        raise Violation("a complaint is not one short line: %r" % complaint[:300])
    quota = parse_quota(reply.headers, reply.received_at)
    for value in quota or ():
        if isinstance(value, float) and not 0.0 <= value < float("inf"):
            raise Violation("the quota is %r" % (quota,))
    kinds = [type(value).__name__ for value in (delay, complaint, quota)]
    return ", ".join(kinds)


def prepare() -> None:
    """Nothing to prepare."""


READER = Target("replies, read with two profiles", CORPUS, TOKENS, prepare, check_reader)
RATE_LIMITS = Target("headers of rate limits", CORPUS[9:], TOKENS, prepare, check_headers)
