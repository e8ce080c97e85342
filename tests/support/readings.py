"""What the tests of reading have in common: a reader that guesses, and a reply as it reads it."""

import json

from pollkit import Profile, Reply
from pollkit.core.reading.reader import Reader

GUESS = Reader(Profile())
HERE = "https://api.internal/v1/jobs/42"
NOON = 1794571200.0  # Fri, 13 Nov 2026 12:00:00 GMT
NOON_DATE = "Fri, 13 Nov 2026 12:00:00 GMT"


def reply(data=None, status=200, reader=GUESS, moved=False, accepted=False, **headers):
    """The reading of a JSON reply; header names with _ for -."""
    body = data if isinstance(data, (bytes, str)) else b"" if data is None else json.dumps(data)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return reader.read(Reply(status, named, body, HERE, NOON), moved, accepted)
