"""Resuming a batch after an interruption.

`--resume OUT` skips the jobs that OUT, the output of an earlier batch, has as done or failed, but
not a done job whose result could not be fetched or saved. An interrupted batch names the jobs that
have not finished, or writes them to a file if there are many.
"""

import json
import os
import sys
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Optional, Set

from ...core.model import Job, State, display_id
from ...core.urls import redact_url
from ...errors import ConfigError
from ..output.streams import count_text, join_names

LONGEST_NAMES = 400  # characters of names in a message; more of them go to a file


class EarlierOutcomes:
    """The jobs that a file of outcomes has as done or failed.

    `damaged` is the number of lines that are no outcomes, such as a last line that a killed process
    left half-written. `ends_within_a_line` if that line has no line break.
    """

    def __init__(self, path: str) -> None:
        self.damaged = 0
        self.ends_within_a_line = False
        self._profiles: Dict[str, Set[Optional[str]]] = {}  # of the finished jobs, by id
        self._ids_without_profile: Set[str] = set()
        try:
            with open(path, "rb") as file:
                for line in file:
                    self._read_line(line)
        except FileNotFoundError:
            pass  # the first of several batches
        except OSError as error:
            raise ConfigError("--resume: can't read %s: %s" % (path, error.strerror)) from None

    def has(self, job: Job, default_profile: Optional[str]) -> bool:
        """Whether the job is done or failed."""
        name = display_id(job)
        profiles = self._profiles.get(name, set())
        return (job.profile or default_profile) in profiles or name in self._ids_without_profile

    def _read_line(self, line: bytes) -> None:
        self.ends_within_a_line = not line.endswith(b"\n")
        if not line.strip():
            return
        outcome = parse_outcome(line)
        if outcome is None:
            self.damaged += 1
        elif not _is_finished(outcome):
            return
        elif "profile" in outcome:
            self._profiles.setdefault(outcome["id"], set()).add(outcome["profile"])
        else:
            self._ids_without_profile.add(outcome["id"])


def _is_finished(outcome: Dict[str, Any]) -> bool:
    """Whether there is nothing left to do; a done job with an error lacks its result."""
    if outcome["state"] == State.DONE.value:
        return outcome.get("error") is None
    return bool(outcome["state"] == State.FAILED.value)


def parse_outcome(line: bytes) -> Optional[Dict[str, Any]]:
    """The outcome in a line, or None if it has none."""
    try:
        outcome: Any = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(outcome, dict):
        return None
    has_names = all(isinstance(outcome.get(name), str) for name in ("id", "state"))
    has_profile = isinstance(outcome.get("profile"), (str, type(None)))
    return outcome if has_names and has_profile else None


class Resumed(NamedTuple):
    """The jobs that are left to poll, and lines for the user."""

    jobs: List[Job]
    notes: List[str]
    needs_line_break: bool = False  # stdout continues a file that ends within a line


def resume(path: str, jobs: List[Job], default_profile: Optional[str]) -> Resumed:
    """Leave out the jobs that the file has as done or failed."""
    is_stdout = _is_stdout(path)
    if is_stdout and not _is_stdout_appended():
        raise ConfigError(
            "--resume: '> %s' empties the file before pollkit can read it: write '>> %s'"
            % (path, path)
        )
    earlier = EarlierOutcomes(path)
    # URLs that differ only in a secret look alike in the file: poll all of them.
    counts = Counter(map(display_id, jobs))
    left = [
        job for job in jobs if counts[display_id(job)] > 1 or not earlier.has(job, default_profile)
    ]
    notes = []
    if earlier.damaged:
        lines = count_text(earlier.damaged, "line")
        notes.append("warning: skipped %s of %s: not an outcome, or damaged" % (lines, path))
    skipped = count_text(len(jobs) - len(left), "job")
    notes.append("%s skipped: done or failed in %s; %d to poll" % (skipped, path, len(left)))
    return Resumed(left, notes, is_stdout and earlier.ends_within_a_line)


def _is_stdout(path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(sys.stdout.fileno()), os.stat(path))
    except (OSError, ValueError):
        return False


def _is_stdout_appended() -> bool:
    """Whether stdout was opened with >>; also True on systems that can't say."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    return bool(fcntl.fcntl(sys.stdout.fileno(), fcntl.F_GETFL) & os.O_APPEND)


def unfinished_jobs(jobs: List[Job], finished: "Counter[str]") -> List[Job]:
    """The jobs without those that have finished; `finished` counts the ids as they are shown."""
    left = []
    remaining = Counter(finished)
    for job in jobs:
        name = display_id(job)
        if remaining[name] > 0:
            remaining[name] -= 1
        else:
            left.append(job)
    return left


def describe_unfinished(unfinished: List[Job], total: int) -> str:
    """The message about an interrupted batch, which names the unfinished jobs or their file."""
    text = "interrupted: %d of %d jobs have not finished: " % (len(unfinished), total)
    names = [display_id(job) for job in unfinished]
    if len(", ".join(names)) <= LONGEST_NAMES:
        return text + ", ".join(names)
    try:
        path = _write_jobs(unfinished)
    except OSError:  # for example, a full disk
        return text + join_names(names)
    return text + (
        "%s lists them. To go on: pollkit batch %s with the same flags "
        "(or --resume OUT, if OUT has the outcomes so far)" % (path, path)
    )


def _write_jobs(jobs: List[Job]) -> str:
    """Write jobs to a new file that `pollkit batch` can read, and return its path."""
    import tempfile  # late: only an interrupted batch needs it

    handle, path = tempfile.mkstemp(prefix="pollkit-unfinished-", suffix=".jsonl")
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.writelines(_job_line(job) + "\n" for job in jobs)
    return path


def _job_line(job: Job) -> str:
    has_secret = display_id(job) != job.id or redact_url(job.url or "") != (job.url or "")
    if has_secret:
        return "# its URL has a secret: %s" % json.dumps(display_id(job))
    return json.dumps({name: value for name, value in job._asdict().items() if value is not None})
