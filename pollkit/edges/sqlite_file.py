"""An SQLite file that many threads and processes use at once, for a moment each.

One connection a process, behind a lock: writes take turns anyway, and a transaction here takes
less than a millisecond. Nobody holds a transaction while waiting for anything else.

With a write-ahead log (WAL) a commit is in the kernel's hands when it returns: a process that is
killed loses nothing. A machine that loses power may lose the last commits, never the file: then
some jobs are polled and some ends are told once more. WAL needs memory that all users of the file
share, which network file systems don't have: there it is the ordinary journal, with every commit
synced.

After a fork the child must not use what the parent has open: SQLite counts the users of a file in
each process, and a child that inherits the count takes no lock of its own; then the last in the
parent deletes the log, and what the child writes is lost. So before a child opens any file it
closes its copies of all of them, which it may, as nobody was using them.
"""

import logging
import os
import random
import sqlite3
import stat
import sys
import threading
import time
import weakref
from typing import Callable, Dict, Optional, Tuple, TypeVar

from ..errors import LedgerError
from .files import check_links

BUSY_S = 1.0  # how long SQLite itself waits for a lock, each time it is asked
PATIENCE_S = 30.0  # how long we ask
LOG_BYTES = 4 << 20  # what a write-ahead log is cut to once it has been written back

_NETWORK = (
    "nfs",
    "cifs",
    "smb",
    "afs",
    "ceph",
    "lustre",
    "gfs",
    "ocfs",
    "glusterfs",
    "9p",
    "sshfs",
    "webdav",
    "davfs",
)
_T = TypeVar("_T")
log = logging.getLogger("pollkit")

Connection = sqlite3.Connection
Cursor = sqlite3.Cursor
_files: "weakref.WeakSet[SqliteFile]" = weakref.WeakSet()  # of this process, and those it inherited
Work = Callable[[Connection], _T]


class SqliteFile:
    """A file with tables of a known kind.

    When it is opened, `is_current` tells whether they are as they should be, or raises a
    LedgerError that begins with what the file is; `prepare` makes them so, in a transaction.
    """

    def __init__(
        self,
        path: str,
        is_current: Work[bool],
        prepare: Work[None],
        create: bool = True,
        warn: Optional[Callable[[str], object]] = None,
    ) -> None:
        self.path = _real_path(os.fspath(path))
        self._is_current, self._prepare, self._create = is_current, prepare, create
        self._warn = warn or log.warning
        self._lock = threading.RLock()
        self._busy = False
        self._db: Optional[Connection] = None
        self._identity: Optional[Tuple[int, int]] = None
        self._beside: Dict[
            str, Optional[Tuple[int, int]]
        ] = {}  # the log and its index, and which files they are
        self._pid = os.getpid()
        for file in list(_files):
            file._close_copy()
        _files.add(self)
        self.read(lambda db: None)  # so that what is wrong is said at once

    def read(self, work: Work[_T]) -> _T:
        """What `work` gives, which reads only."""
        return self._patiently(lambda: work(self._connection()))

    def write(self, work: Work[_T]) -> _T:
        """What `work` gives, in a transaction of its own; done wholly or not at all, perhaps after several tries."""
        return self._patiently(lambda: self._transaction(self._in_place(self._connection()), work))

    def close(self) -> None:
        """Let go of the file; it is opened again when it is used again."""
        with self._lock:
            db, self._db = self._db, None
            if db is not None:
                db.close()

    def __del__(self) -> None:
        if getattr(self, "_db", None) is not None and os.getpid() == self._pid:
            self.close()

    def _patiently(self, attempt: Callable[[], _T]) -> _T:
        """Try until nobody else is in the way; what can't be helped becomes a LedgerError."""
        self._check_process()
        with self._lock:
            self._busy, give_up_at = True, time.monotonic() + PATIENCE_S
            try:
                while True:
                    try:
                        return attempt()
                    except sqlite3.Error as error:
                        if not _is_passing(error):
                            self.close()  # whatever state it is in
                            raise explain_error(self.path, error) from error
                        if time.monotonic() > give_up_at:
                            raise LedgerError(
                                "%s: another program has kept it locked for %.0f s: is one stopped or "
                                "stuck in the middle of a write?" % (self.path, PATIENCE_S)
                            ) from error
                    time.sleep(random.uniform(0.001, 0.02))  # not all at once again
            finally:
                self._busy = False

    def _transaction(self, db: Connection, work: Work[_T]) -> _T:
        db.execute("BEGIN IMMEDIATE")
        try:
            result = work(db)
            db.execute("COMMIT")
            return result
        except BaseException:
            try:
                db.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()  # which rolls back
            raise

    def _check_process(self) -> None:
        if os.getpid() == self._pid:
            return
        for file in list(_files):
            file._close_copy()

    def _close_copy(self) -> None:
        """Close what this process inherited when it was forked off."""
        if os.getpid() == self._pid:
            return
        if (
            self._busy
        ):  # another thread was at it when this process came to be: its copy is beyond use
            raise LedgerError(
                "%s was in use while the process forked: open it anew after a fork" % self.path
            )
        self._lock, self._pid = threading.RLock(), os.getpid()
        self.close()

    def _connection(self) -> Connection:
        if self._db is None:
            self._make()
            db = connect(self.path)
            try:
                self._set_up(db)
            except BaseException:
                db.close()
                raise
            self._identity = _identity(self.path)
            self._beside = {
                name: _identity(name) for name in (self.path + "-wal", self.path + "-shm")
            }
            self._db, self._create = (
                db,
                False,
            )  # one that is taken away is not made again behind anybody's back
        return self._db

    def _in_place(self, db: Connection) -> Connection:
        """The connection, if its file is still where it was: what goes into one that was taken away is lost."""
        if _identity(self.path) != self._identity:
            # SQLite would read the log of the old file as that of the new one.
            left = [
                os.path.basename(name)
                for name, which in self._beside.items()
                if which is not None and _identity(name) == which
            ]
            raise LedgerError(
                "%s was removed or replaced while it was in use: nothing more is written to it; %srun "
                "again"
                % (
                    self.path,
                    "before anything else, remove %s beside it: left by the old file, "
                    "of no use, and harmful to a new one; then " % " and ".join(left)
                    if left
                    else "",
                )
            )
        return db

    def _make(self) -> None:
        """Make the file, for its owner alone; what SQLite puts beside it gets the same mode.

        One that is there is not opened here: a process that closes a file loses all its locks on it.
        """
        folder = os.path.dirname(self.path)
        missing = "%s: there is no such directory" % folder
        if not stat.S_ISDIR(_look_at(folder, missing)):
            raise LedgerError(missing)
        try:
            if self._create:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise LedgerError("%s can't be made: %s" % (self.path, error.strerror)) from None
        mode = _look_at(
            self.path, "%s: there is no such file ('pollkit add' makes a ledger)" % self.path
        )
        if stat.S_ISDIR(mode):
            raise LedgerError("%s is a directory: name a file in it" % self.path)
        if not stat.S_ISREG(mode):
            raise LedgerError(
                "%s is no ordinary file, but a pipe, a device or the like: name another" % self.path
            )
        if not os.access(self.path, os.R_OK | os.W_OK):
            raise LedgerError(
                "%s can't be opened for writing: check its owner and mode, and whether the disk is "
                "read-only" % self.path
            )

    def _set_up(self, db: Connection) -> None:
        is_current = self._is_current(db)
        mode = _value(db, "PRAGMA journal_mode")
        if not is_current and mode != "wal":
            if not is_on_network(self.path):
                mode = _value(db, "PRAGMA journal_mode=WAL")
            if mode != "wal":
                self._warn(
                    "%s: no write-ahead log on this file system: slower, and for one host at a time"
                    % self.path
                )
        db.execute("PRAGMA synchronous=%s" % ("NORMAL" if mode == "wal" else "FULL"))
        db.execute("PRAGMA journal_size_limit=%d" % LOG_BYTES)
        if not is_current:
            self._transaction(db, self._prepare)


def _real_path(path: str) -> str:
    try:
        check_links(path)
    except OSError as error:
        raise LedgerError("%s can't be opened: %s" % (path, error.strerror)) from None
    return os.path.realpath(path)


def _look_at(path: str, missing: str) -> int:
    """What kind of file it is."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise LedgerError(missing) from None
    except PermissionError:
        raise LedgerError(
            "%s can't be reached: no permission to enter its directory: check who may, and who runs "
            "this" % path
        ) from None
    except OSError as error:  # a link that leads to itself, a name that is too long
        raise LedgerError("%s can't be opened: %s" % (path, error.strerror)) from None


def _identity(path: str) -> Optional[Tuple[int, int]]:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connect(path: str) -> Connection:
    """A connection that begins no transaction by itself."""
    if sys.version_info < (3, 7):  # it takes text alone, and passes it on as UTF-8
        try:
            path = os.fsencode(path).decode("utf-8")
        except UnicodeDecodeError:
            raise LedgerError(
                "%s: Python 3.6 opens ledgers only where their path is UTF-8: name another" % path
            ) from None
    return sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _value(db: Connection, statement: str) -> object:
    return db.execute(statement).fetchone()[0]


def _is_passing(error: sqlite3.Error) -> bool:
    """Whether it is only that somebody else was at it."""
    text = str(error)
    return isinstance(error, sqlite3.OperationalError) and (
        "locked" in text or "locking protocol" in text
    )


def explain_error(path: str, error: sqlite3.Error) -> LedgerError:
    """An error of SQLite as a person can use it."""
    text = str(error)
    if "not a database" in text:
        why = "is not a ledger, nor any SQLite file: name another"
    elif "malformed" in text:
        why = "is damaged: move it away with its -wal and -shm, then restore a backup or add the jobs again"
    elif "readonly" in text or "read-only" in text:
        why = "can't be written: check the owner and mode of the file and its directory"
    elif "full" in text:
        why = "can't grow, the disk is full: make room and run again; what was written is safe"
    elif "disk I/O" in text:
        why = "can't be read or written (disk I/O error): is the disk full, or failing? What was written is safe"
    elif "unable to open" in text:
        why = "can't be opened: check its directory, owner and mode"
    else:
        why = "can't be used: SQLite says %r" % text
    return LedgerError("%s %s" % (path, why))


def is_on_network(path: str, mounts: str = "/proc/self/mounts") -> bool:
    """Whether a file lies on a network file system, as far as the system tells."""
    kind, longest, whole = "", -1, os.path.realpath(path)
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                fields = line.split(" ")
                point = fields[1].replace("\\040", " ").rstrip("/") + "/"
                if whole.startswith(point) and len(point) >= longest:
                    kind, longest = fields[2], len(point)
    except (OSError, IndexError):
        return False
    return kind.split(".")[-1].rstrip("234").startswith(_NETWORK)
