"""Random replies: always a reading, never an exception."""

import json
import random

import pytest

from pollkit import Reply
from pollkit.core.reading.rate_limit_headers import LONGEST_S
from pollkit.core.reading.verdict import Verdict
from readings import GUESS, HERE, NOON, NOON_DATE


@pytest.mark.parametrize("seed", range(20))
def test_no_reply_can_break_the_reader(seed):
    """Random JSON, headers and statuses."""
    rng = random.Random(seed)
    names = [
        "status",
        "state",
        "data",
        "done",
        "error",
        "message",
        "result",
        "progress",
        "created_at",
        "finished_at",
        "code",
        "job",
        "errors",
        "metadata",
    ]
    texts = [
        "done",
        "running",
        "",
        "7",
        "99%",
        "nan",
        "2026-11-13T12:00:00Z",
        "\x00",
        "é",
        '{"a": 1}',
        "-1",
    ]

    def value(depth):
        kind = rng.randrange(9 if depth else 6)
        return [
            lambda: rng.choice(texts),
            lambda: rng.randrange(-5, 10**15),
            lambda: rng.uniform(-2, 200),
            lambda: None,
            lambda: rng.random() < 0.5,
            lambda: 10 ** rng.randrange(400),
            lambda: [value(depth - 1) for _ in range(rng.randrange(3))],
            lambda: {rng.choice(names): value(depth - 1) for _ in range(rng.randrange(4))},
            lambda: {rng.choice(names): value(depth - 1) for _ in range(rng.randrange(6))},
        ][kind]()

    headers = [
        "retry-after",
        "retry-after-ms",
        "ratelimit",
        "ratelimit-policy",
        "ratelimit-remaining",
        "location",
        "ratelimit-reset",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "date",
        "etag",
        "operation-location",
    ]
    junk = texts + [
        NOON_DATE,
        "5",
        "1e400",
        '"a";r=1;t=2',
        "r=",
        "http://[",
        "//x",
        "http://a b/",
        "\x7f",
        "9" * 50,
    ]
    for _ in range(300):
        made = {rng.choice(headers): rng.choice(junk) for _ in range(rng.randrange(5))}
        status = rng.choice(
            [200, 202, 204, 303, 304, 401, 403, 404, 429, 500, rng.randrange(100, 1000)]
        )
        body = json.dumps(value(4)) if rng.random() < 0.8 else rng.choice(junk)
        reading = GUESS.read(
            Reply(status, made, body, HERE, rng.choice([None, NOON])), rng.random() < 0.2
        )
        assert reading.verdict in Verdict and reading.because
        assert reading.fraction is None or 0 <= reading.fraction <= 1
        assert reading.retry_after is None or 0 <= reading.retry_after <= LONGEST_S
