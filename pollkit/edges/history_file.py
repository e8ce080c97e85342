"""History: what ended jobs teach, kept in a small file from one command to the next.

Any number of processes share the file. Each replaces it as a whole, so that whoever reads it sees
one version or the next. Who writes holds a lock on it, reads it again, and adds what it has learned
itself: so nobody's durations are lost. The lock is on the file that is replaced, hence a look, once
it is had, at whether that is still the file of that name.

House rules: nothing that may be wrong with the file is worth a job's outcome. It is told, once, and
the command goes on without; and nobody is waited for longer than a moment. In the file are names of
profiles and labels, origins where no profile is named, and seconds: no ids, paths, queries or secrets.
"""

import json
import os
import stat
import threading
import time
from contextlib import contextmanager
from errno import EAGAIN, EINVAL
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ..core.learning.completions import StartOrder
from ..core.learning.durations import RECENT, Completion, Durations
from ..errors import ConfigError
from .files import open_file

VERSION = 1
MOST_KINDS = 100  # those that were taught last
LONGEST_NAME = 300  # of a profile and its label together; what is longer is not kept
LARGEST_BYTES = 1 << 21  # of a file that is read; so many kinds come to less
PATIENCE_S = 0.5  # for others who write
PAUSE_S = 0.005
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # for whoever is at the other end of a pipe


class Kind(NamedTuple):
    """Jobs that are alike: of a profile, or of an origin where none is named, and of a label."""

    profile: str
    label: Optional[str] = None


class History:
    """What is known of each kind of job; kept in a file, if one is given.

    `on_damage` hears that the file could not be understood and was set aside, `on_trouble` why it
    can't be used, once. Whoever makes a History saves it: leaving a `with` block does.

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
        self._path, self._on_damage, self._on_trouble = path, on_damage, on_trouble
        self._lock = threading.RLock()
        self._kinds: Optional[Dict[Kind, Any]] = None  # the file, as it was found
        self._durations: Dict[Kind, Durations] = {}
        self._orders: Dict[Kind, StartOrder] = {}
        self._noted: Dict[Kind, List[Completion]] = {}

    def durations(self, kind: Kind) -> Durations:
        """What is known of a kind: by the file at first, and then by what this process adds to it."""
        with self._lock:
            found = self._durations.get(kind)
            if found is None:
                found = self._durations[kind] = self._from_file(kind)
            return found

    def begin(self, kind: Kind) -> Optional[int]:
        """The wait for a job of that kind begins; its turn to be learned from, None if nobody does."""
        if self._path is None and kind not in self._durations:
            return None
        with self._lock:
            return self._orders.setdefault(kind, StartOrder()).begin()

    def end(
        self, kind: Kind, turn: Optional[int], began: float, between: Optional[Tuple[float, float]]
    ) -> None:
        """It is over, its job having ended between these ages, if that is known: to be learned in its turn."""
        if turn is None:
            return
        with self._lock:
            for lesson in self._orders[kind].end(turn, began, between):
                if kind in self._durations:
                    self._durations[kind].record_between(*lesson)
                self.note(kind, lesson)

    def note(self, kind: Kind, lesson: Completion) -> None:
        """A job of that kind has ended: to be saved."""
        if (
            self._path is not None
            and kind.profile
            and len(kind.profile + (kind.label or "")) <= LONGEST_NAME
        ):
            with self._lock:
                noted = self._noted.setdefault(kind, [])
                noted.append(lesson)
                noted.sort(key=_began)  # which takes no time: there is one that may be out of place
                del noted[:-RECENT]

    def save(self) -> None:
        """Add to the file what was noted since it was last saved; if that can't be, it is forgotten."""
        with self._lock:
            noted, self._noted = self._noted, {}
        if self._path is None or not noted:
            return
        try:
            os.makedirs(os.path.dirname(self._path) or ".", 0o700, exist_ok=True)
            with _locked(self._path) as is_alone:
                kinds = self._sound(self._path, noted)
                for kind, lessons in noted.items():
                    durations = _learned(kinds, kind)
                    durations.record_all(lessons)
                    kinds.pop(kind, None)
                    kinds[kind] = (
                        durations.as_dict()
                    )  # at the end: those that come first are let go first
                _write(self._path, dict(list(kinds.items())[-MOST_KINDS:]), is_alone)
        except (OSError, ValueError) as error:
            self._tell_trouble(error)

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.save()

    def _from_file(self, kind: Kind) -> Durations:
        if self._path is None:
            return Durations()
        try:
            if self._kinds is None:
                self._kinds = {}
                self._kinds = _read(self._path)
            return _learned(self._kinds, kind)
        except _Damaged:
            return _learned(self._mended(self._path, kind), kind)
        except (OSError, ValueError) as error:
            self._tell_trouble(error)
            return Durations()

    def _mended(self, path: str, kind: Kind) -> Dict[Kind, Any]:
        self._kinds = {}
        try:
            with _locked(path):
                self._kinds = self._sound(path, [kind])
        except (OSError, ValueError) as error:
            self._tell_trouble(error)
        return self._kinds

    def _sound(self, path: str, wanted: Iterable[Kind]) -> Dict[Kind, Any]:
        """The kinds in the file; none, and the file set aside, where it or one of those wanted is damaged."""
        try:
            kinds = _read(path)
            for kind in wanted:
                _learned(kinds, kind)
            return kinds
        except _Damaged as damage:
            os.replace(path, path + ".damaged")
            if self._on_damage is not None:
                self._on_damage(
                    "%s was damaged (%s): it is %s.damaged now, and what jobs teach is gathered anew"
                    % (path, damage, os.path.basename(path))
                )
            return {}

    def _tell_trouble(self, error: Exception) -> None:
        tell, self._on_trouble = self._on_trouble, None
        if tell is not None:
            tell(
                "what jobs teach can't be kept in %s: %s"
                % (self._path, getattr(error, "strerror", None) or error)
            )


def default_path() -> Optional[str]:
    """Where the history is unless told otherwise; None where there is no home to have it in."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        home = os.environ.get("HOME") or os.environ.get("USERPROFILE") or ""
        if not (os.path.isabs(home) and os.path.isdir(home)):
            return None  # a home that is not there is not made, either
        state = os.path.join(home, ".local", "state")
    return os.path.join(state, "pollkit", "history.json")


class _Damaged(Exception):
    """The file is not what was written."""


def _read(path: str) -> Dict[Kind, Any]:
    """What is in the file, by kind, the one that was taught last at the end."""
    try:
        number = _opened(path, os.O_RDONLY)
    except FileNotFoundError:
        return {}
    with os.fdopen(number, "rb") as file:
        data = file.read(LARGEST_BYTES + 1)
    if not data:
        return {}  # made by somebody who was about to write it
    if data.startswith(b"SQLite format 3"):
        raise OSError(
            EINVAL, "it is a database"
        )  # somebody's ledger, named by mistake: not ours to set aside
    if len(data) > LARGEST_BYTES:
        raise _Damaged("it is too large")
    try:
        found = json.loads(data.decode("utf-8"))
        if found["version"] > VERSION:
            raise OSError(EINVAL, "it is from a newer pollkit")
        return {_kind(one["profile"], one["label"]): one["learned"] for one in found["kinds"]}
    except (ValueError, LookupError, TypeError, RecursionError):
        raise _Damaged("it has something else than a history in it") from None


def _kind(profile: Any, label: Any) -> Kind:
    if not isinstance(profile, str) or not (label is None or isinstance(label, str)):
        raise TypeError("names are text")
    return Kind(profile, label)


def _began(lesson: Completion) -> float:
    return lesson.started_at


def _learned(kinds: Dict[Kind, Any], kind: Kind) -> Durations:
    try:
        return Durations.from_dict(kinds[kind], time.time()) if kind in kinds else Durations()
    except ConfigError as error:
        raise _Damaged(str(error)) from None


def _write(path: str, kinds: Dict[Kind, Any], is_alone: bool) -> None:
    text = json.dumps(
        {
            "version": VERSION,
            "kinds": [
                {"profile": kind.profile, "label": kind.label, "learned": learned}
                for kind, learned in kinds.items()
            ],
        },
        separators=(",", ":"),
    )
    # One name, where nobody else can have it now: then what a killed process left behind goes, too.
    temporary = "%s.%snew" % (path, "" if is_alone else "%d." % os.getpid())
    _remove(temporary)
    try:
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
        ) as file:
            file.write(text.encode("ascii"))
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


@contextmanager
def _locked(path: str) -> Iterator[bool]:
    """With the file locked, and made if need be; whether locks are to be had here at all."""
    try:
        import fcntl
    except ImportError:
        yield False
        return
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        number = _opened(path, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_had = True
            except BlockingIOError:
                is_had = False
            except OSError:  # some network file systems have none
                yield False
                return
            if is_had and _is_still(number, path):
                yield True
                return
        finally:
            os.close(number)
        if time.monotonic() >= give_up_at:
            raise OSError(EAGAIN, "another process has kept it locked for too long")
        time.sleep(PAUSE_S)


def _is_still(number: int, path: str) -> bool:
    """Whether an open file is the one of that name; who had the lock before may have replaced it."""
    try:
        return os.path.samestat(os.fstat(number), os.stat(path))
    except FileNotFoundError:
        return False


def _opened(path: str, flags: int) -> int:
    number = open_file(path, flags | _NO_WAITING)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(EINVAL, "it is not a file")
    return number


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
