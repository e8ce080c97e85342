"""History: how long jobs took, kept in a small file from one command to the next.

Any number of processes share the file. Each replaces it as a whole, so that a reader sees one
version or the next. A writer locks the file, reads it again, and adds its own completions, so that
no durations are lost. The lock is on the file that is replaced; so after getting it, a writer
checks that the name still refers to the same file.

House rules: no problem with the file may cost a job its outcome. A problem is reported once, and
the command continues without the file; no command waits for another one longer than a moment. The
file contains names of profiles and labels, origins of jobs without a profile, and seconds: no ids,
paths, queries or secrets.
"""

import json
import os
import stat
import threading
import time
from contextlib import contextmanager
from errno import EAGAIN, EINVAL
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ..core.learning.durations import RECENT, Completion, Durations
from ..errors import ConfigError
from .files import SQLITE_HEADER, has_name, open_file, remove_if_possible

VERSION = 2  # version 1 had other evidence of drift; both can be read
MOST_KINDS = 100  # those that were updated last
LONGEST_NAME = 300  # of a profile and its label together; longer ones are not saved
LARGEST_BYTES = 1 << 21  # of a file that is read; MOST_KINDS need less
PATIENCE_S = 0.5  # how long to wait while another process writes
PAUSE_S = 0.005
_BEGINNING = b'{"version"'
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # opening a pipe must not wait for its other end


class Kind(NamedTuple):
    """Jobs that are alike: of the same profile, or origin if they have none, and label."""

    profile: str
    label: Optional[str] = None


class History:
    """The durations of each kind of job; in a file if a path is given, else only in memory.

    `on_damage` is called with a text if the file was unreadable and has been renamed, and
    `on_trouble`, once, if it can't be used. `save` writes the file, and so does leaving a `with`
    block.

    >>> history = History()
    >>> history.durations(Kind("https://api.internal")).record(40)
    True
    >>> len(history.durations(Kind("https://api.internal")))
    1
    """

    def __init__(
        self,
        path: Optional[str] = None,
        on_damage: Optional[Callable[[str], object]] = None,
        on_trouble: Optional[Callable[[str], object]] = None,
    ) -> None:
        self._path = path
        self._on_damage = on_damage
        self._on_trouble = on_trouble
        self._lock = threading.RLock()
        self._kinds: Optional[Dict[Kind, Any]] = None  # the file as it was read
        self._durations: Dict[Kind, Durations] = {}
        self._unsaved: Dict[Kind, List[Completion]] = {}

    def durations(self, kind: Kind) -> Durations:
        """The durations of a kind: from the file, and those that this process has added."""
        with self._lock:
            if kind not in self._durations:
                self._durations[kind] = self._load(kind)
            return self._durations[kind]

    def begin(self, kind: Kind, began_at: float) -> Optional[float]:
        """Note that a wait begins; the start that names it. None if nothing is recorded."""
        if self._path is None and kind not in self._durations:
            return None
        with self._lock:
            durations = self._durations.get(kind)
            return began_at if durations is None else durations.begin(began_at)

    def finish(self, kind: Kind, start: float, ages: Optional[Tuple[float, float]]) -> None:
        """Note that a wait is over; its job finished between these ages, if they are known."""
        with self._lock:
            if kind in self._durations:
                self._durations[kind].end(start, ages)
            if ages is not None:
                self.record(kind, Completion(*ages, started_at=start))

    def record(self, kind: Kind, completion: Completion) -> None:
        """Keep a completion to be saved to the file."""
        is_long = len(kind.profile + (kind.label or "")) > LONGEST_NAME
        if self._path is None or not kind.profile or is_long:
            return
        with self._lock:
            unsaved = self._unsaved.setdefault(kind, [])
            unsaved.append(completion)
            unsaved.sort(key=lambda each: each.started_at)  # quick: at most one is out of place
            del unsaved[:-RECENT]

    def save(self) -> None:
        """Add the completions since the last save to the file; if that fails, discard them."""
        with self._lock:
            unsaved = self._unsaved
            self._unsaved = {}
        if self._path is None or not unsaved:
            return
        try:
            os.makedirs(os.path.dirname(self._path) or ".", 0o700, exist_ok=True)
            with _lock_file(self._path) as is_locked:
                kinds = self._read_or_set_aside(self._path, unsaved)
                for kind, completions in unsaved.items():
                    durations = _parse_durations(kinds, kind)
                    durations.record_all(completions)
                    kinds.pop(kind, None)  # to the end: the first ones are deleted first
                    kinds[kind] = durations.as_dict()
                _write(self._path, dict(list(kinds.items())[-MOST_KINDS:]), is_locked)
        except (OSError, ValueError) as error:
            self._report_trouble(error)

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.save()

    def _load(self, kind: Kind) -> Durations:
        if self._path is None:
            return Durations()
        try:
            if self._kinds is None:
                self._kinds = {}
                self._kinds = _read(self._path)
            return _parse_durations(self._kinds, kind)
        except _Damaged:
            return self._load_again(self._path, kind)
        except (OSError, ValueError) as error:
            self._report_trouble(error)
            return Durations()

    def _load_again(self, path: str, kind: Kind) -> Durations:
        """Read a damaged file again, with the lock, and set it aside if it is still damaged."""
        self._kinds = {}
        try:
            with _lock_file(path):
                self._kinds = self._read_or_set_aside(path, [kind])
        except (OSError, ValueError) as error:
            self._report_trouble(error)
        return _parse_durations(self._kinds, kind)

    def _read_or_set_aside(self, path: str, wanted: Iterable[Kind]) -> Dict[Kind, Any]:
        """The kinds in the file; if it or a wanted kind is damaged, rename it and return none."""
        try:
            kinds = _read(path)
            for kind in wanted:
                _parse_durations(kinds, kind)
            return kinds
        except _Damaged as damage:
            os.replace(path, path + ".damaged")
            if self._on_damage is not None:
                self._on_damage(
                    "%s was damaged (%s): it was renamed to %s.damaged, and a new history begins"
                    % (path, damage, os.path.basename(path))
                )
            return {}

    def _report_trouble(self, error: Exception) -> None:
        report = self._on_trouble
        self._on_trouble = None
        if report is not None:
            report(str(_unusable(self._path or "", error)))


def read_history(path: str) -> Dict[Kind, Durations]:
    """All durations in a file, the kind that was updated last at the end; none without a file."""
    try:
        kinds = _read(path)
        return {kind: _parse_durations(kinds, kind) for kind in kinds}
    except (OSError, ValueError, _Damaged) as error:
        raise _unusable(path, error) from None


def remove_kinds(path: str, is_removed: Callable[[Kind], bool]) -> List[Kind]:
    """Remove the durations of some kinds from a file; a damaged file is left as it is."""
    if not os.path.exists(path):
        return []  # the lock would create it
    try:
        with _lock_file(path) as is_locked:
            kinds = _read(path)
            removed = [kind for kind in kinds if is_removed(kind)]
            if removed:
                kept = {kind: kinds[kind] for kind in kinds if kind not in removed}
                _write(path, kept, is_locked)
            return removed
    except (OSError, ValueError, _Damaged) as error:
        raise _unusable(path, error) from None


def _unusable(path: str, error: Exception) -> ConfigError:
    why = getattr(error, "strerror", None) or error
    return ConfigError("can't use the duration history in %s: %s" % (path, why))


def default_path() -> Optional[str]:
    """The usual path of the history; None if there is no home directory."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        home = os.environ.get("HOME") or os.environ.get("USERPROFILE") or ""
        if not (os.path.isabs(home) and os.path.isdir(home)):
            return None  # a missing home directory is not created
        state = os.path.join(home, ".local", "state")
    return os.path.join(state, "pollkit", "history.json")


class _Damaged(Exception):
    """The file does not contain a history."""


def _read(path: str) -> Dict[Kind, Any]:
    """The kinds in the file, the one that was updated last at the end."""
    try:
        number = _open(path, os.O_RDONLY)
    except FileNotFoundError:
        return {}
    with os.fdopen(number, "rb") as file:
        data = file.read(LARGEST_BYTES + 1)
    if not data:
        return {}  # another process has created it and is about to write
    if data.startswith(SQLITE_HEADER):
        # Perhaps a ledger, named by mistake: don't rename it.
        raise OSError(EINVAL, "it is a database")
    if not _may_be_history(data):
        raise OSError(EINVAL, "it is not a history: name another file")
    if len(data) > LARGEST_BYTES:
        raise _Damaged("it is too large")
    try:
        content = json.loads(data.decode("utf-8"))
        if content["version"] > VERSION:
            raise OSError(EINVAL, "it is from a newer pollkit")
        return {
            _parse_kind(entry["profile"], entry["label"]): entry["learned"]
            for entry in content["kinds"]
        }
    except (ValueError, LookupError, TypeError, RecursionError):
        raise _Damaged("it does not contain a history") from None


def _may_be_history(data: bytes) -> bool:
    """Whether pollkit may have written a file, which may be damaged; otherwise it is the user's."""
    is_filled_with_zeros = b"\0" in data  # in parts, after a crash of the host
    return is_filled_with_zeros or data[: len(_BEGINNING)] == _BEGINNING[: len(data)]


def _parse_kind(profile: Any, label: Any) -> Kind:
    if not isinstance(profile, str) or not (label is None or isinstance(label, str)):
        raise TypeError("names are text")
    return Kind(profile, label)


def _parse_durations(kinds: Dict[Kind, Any], kind: Kind) -> Durations:
    if kind not in kinds:
        return Durations()
    try:
        return Durations.from_dict(kinds[kind], time.time())
    except ConfigError as error:
        raise _Damaged(str(error)) from None


def _write(path: str, kinds: Dict[Kind, Any], is_locked: bool) -> None:
    content = {
        "version": VERSION,
        "kinds": [
            {"profile": kind.profile, "label": kind.label, "learned": learned}
            for kind, learned in kinds.items()
        ],
    }
    data = json.dumps(content, separators=(",", ":")).encode("ascii")
    # With the lock, always the same name: so a file that a killed process has left is removed.
    temporary = path + ".new" if is_locked else "%s.%d.new" % (path, os.getpid())
    remove_if_possible(temporary)
    try:
        number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        remove_if_possible(temporary)
        raise


@contextmanager
def _lock_file(path: str) -> Iterator[bool]:
    """Lock the file, and create it if necessary; False if the system has no locks."""
    try:
        import fcntl
    except ImportError:
        yield False
        return
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        number = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_locked = True
            except BlockingIOError:
                is_locked = False
            except OSError:  # some network file systems have no locks
                yield False
                return
            if is_locked and has_name(number, path):
                yield True
                return
        finally:
            os.close(number)
        if time.monotonic() >= give_up_at:
            raise OSError(EAGAIN, "another process has kept it locked for too long")
        time.sleep(PAUSE_S)


def _open(path: str, flags: int) -> int:
    number = open_file(path, flags | _NO_WAITING)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(EINVAL, "it is not a file")
    return number
