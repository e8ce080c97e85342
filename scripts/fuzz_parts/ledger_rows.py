"""The target `ledger`: rows of a ledger with values that no pollkit has written.

An input is one or more lines COLUMN=VALUE; a value that looks like a number is stored as one.
"""

import atexit
import json
import os
import random
import shutil
import sqlite3
import tempfile
from typing import Any, List, Tuple

from pollkit import Ledger
from pollkit.cli.arguments.job_deadlines import Deadlines
from pollkit.cli.output.status_text import headline, job_cells
from pollkit.core.waiting.machine import next_action
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.errors import PollkitError

from .common import Target

COLUMNS = (
    "url profile label size metadata timeout_s state added_at origin free_at due_at token progress "
    "ended_at notify_at notify_attempts notify_error notified_at outcome"
).split()
PROGRESS = {"polls": 3, "looks": 2, "started_at": 5.0, "next_at": 9.0, "slept": [1, 2, 3, 4]}
PROGRESS.update(trouble=[1, None], said=["x"], status="running", why="fault", fraction=0.5)
OUTCOME = {"id": "job", "state": "done", "error": {"message": "x"}, "polls": 1, "faults": 0}
CORPUS = [
    b"progress=" + json.dumps(PROGRESS).encode("ascii"),
    b"state=done\nended_at=7\noutcome=" + json.dumps(OUTCOME).encode("ascii"),
    b'metadata={"customer": 7}\nsize=3\nlabel=small\nprofile=mine',
    b"url=http://127.0.0.1:9/x\norigin=http://127.0.0.1:9\nadded_at=5\ntimeout_s=60",
    b"state=failed\nended_at=1\nnotify_at=5\nnotify_attempts=2\nnotify_error=x\nnotified_at=",
    # These failed once.
    b"state=n",
    b"ended_at=t",
    b"free_at=r",
    b"notify_attempts=x\nnotify_error=x",
    b'progress={"fraction": "x"}',
    b'progress={"status": 5, "trouble": 5}',
    b'state=failed\nended_at=1\noutcome={"error": 5}',
]
TOKENS = [b"\n", b"=", b"null", b"[]", b"{}", b"1e308", b"-1", b"\xff", b"[" * 50, b'"x"', b"NaN"]
TOKENS += [column.encode("ascii") + b"=" for column in COLUMNS]
_place: List[str] = []


def prepare() -> None:
    """Make a ledger with one job."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "jobs.db")
    with Ledger(path) as ledger:
        ledger.add(["job"])
    _place[:] = [path]


def check(data: bytes, rng: random.Random, is_thorough: bool) -> str:
    """Read and claim a job whose row was changed: it works, or raises a PollkitError."""
    path = _place[0]
    refused = _change(path, data)
    outcome = "refused" if refused else "changed"
    try:
        with Ledger(path) as ledger:
            rows = list(ledger.jobs())
            now = ledger.clock.wall()
            headline(ledger.summary(), [], now)
            deadlines = Deadlines()
            for row in rows:
                job_cells(row, [], deadlines, now)
            for claim in ledger._leases.claim(1):
                state = claim.resume("http://127.0.0.1:9/", WaitSettings(), now)
                outcome += ", " + type(next_action(state, now)).__name__
    except PollkitError as error:
        return "%s, %s" % (outcome, type(error).__name__)
    return outcome


def _change(path: str, data: bytes) -> bool:
    """Change the row; whether SQLite refused that."""
    db = sqlite3.connect(path)
    try:
        db.execute("DELETE FROM jobs")
        db.execute("DELETE FROM outcomes")
        db.execute(
            "INSERT INTO jobs (key, id, state, added_at, free_at, due_at) "
            "VALUES (1, 'job', 'waiting', 0, 0, 0)"
        )
        for column, value in _values(data):
            if column == "outcome":
                db.execute("INSERT OR REPLACE INTO outcomes VALUES (1, ?)", (value,))
            else:
                db.execute("UPDATE jobs SET %s = ?" % column, (value,))
        db.commit()
        return False
    except sqlite3.Error:
        db.commit()
        return True
    finally:
        db.close()


def _values(data: bytes) -> List[Tuple[str, Any]]:
    found = []
    for line in data.split(b"\n"):
        name, _, raw = line.partition(b"=")
        column = name.decode("latin-1")
        if column in COLUMNS:
            found.append((column, _value(raw)))
    return found


def _value(raw: bytes) -> Any:
    text = raw.decode("utf-8", "replace")
    try:
        return float(text)
    except ValueError:
        return text or None


TARGET = Target("rows of a ledger that no pollkit has written", CORPUS, TOKENS, prepare, check)
