"""Shared by the tests of reading: a reader without a profile, and the reading of a reply."""

import json

from pollkit import Profile, Reply
from pollkit.core.reading.reader import Reader

GUESS = Reader(Profile())
HERE = "https://api.internal/v1/jobs/42"
NOON = 1794571200.0  # Fri, 13 Nov 2026 12:00:00 GMT
NOON_DATE = "Fri, 13 Nov 2026 12:00:00 GMT"


def read_reply(data=None, status=200, reader=GUESS, moved=False, accepted=False, **headers):
    """The reading of a reply with this JSON data or body; header names have _ for -."""
    body = data
    if data is None:
        body = b""
    elif not isinstance(data, (bytes, str)):
        body = json.dumps(data)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return reader.read(Reply(status, named, body, HERE, NOON), moved, accepted)
