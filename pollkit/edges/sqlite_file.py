"""An SQLite file that many threads and processes use at once, for a moment each.

Each process has one connection, behind a lock: writes take turns anyway, and a transaction here
takes less than a millisecond. No transaction is open while its process waits for something else.

With a write-ahead log (WAL) the kernel has the data when a commit returns: a process that is
killed loses nothing. A machine that loses power may lose the last commits, but never the file:
then some jobs are polled again, and some notifications are delivered again. WAL needs memory that
all users of the file share, which network file systems don't have. There SQLite uses its ordinary
journal, and syncs every commit.

A forked child must not use its parent's connections. SQLite counts the users of a file per
process, and a child that inherits the count takes no lock; when the parent closes the file, it
deletes the log, and the writes of the child are lost. So before a child opens a file, it closes
its copies of all connections, which is safe because none was in use.
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
from typing import Any, Callable, Dict, Optional, Tuple, TypeVar

from ..errors import ConfigError, LedgerError, PollkitError
from .file_system import has_locks, has_shared_memory, is_on_network
from .files import check_companion, check_links
from .shortages import can_open_files

BUSY_S = 1.0  # how long SQLite waits for a lock at each attempt
PATIENCE_S = 30.0  # how long we keep trying
HURRY_S = 5.0  # how long `hurry` lasts
COMPANIONS = ("-wal", "-shm", "-journal")  # files that SQLite creates beside its own
FILES = 4  # that SQLite opens at once: the database, its log, the log's index, a directory
LOG_BYTES = 4 << 20  # the size to which SQLite truncates the write-ahead log

_TOO_MANY_FILES = "%s can't be opened, too many open files: raise the limit (ulimit -n)"
_EXPLANATIONS = {  # parts of SQLite's messages; the first that matches counts
    "not a database": "is not a ledger, nor a file of --bucket: name another",
    "malformed": "is damaged: move it away with its -wal and -shm, then restore a backup or add "
    "the jobs again",
    "readonly": "can't be written: check the owner and mode of the file and its directory",
    "read-only": "can't be written: check the owner and mode of the file and its directory",
    "full": "can't grow, the disk is full: make room and run again; all that was written is safe",
    "disk I/O": "can't be read or written (disk I/O error): is the disk full, or failing? All that "
    "was written is safe",
    "unable to open": "can't be opened: check its directory, owner and mode",
}
# Values of a damaged file, which no pollkit has written, cause these.
SIGNS_OF_DAMAGE = (TypeError, ValueError, LookupError, OverflowError, AttributeError)
_T = TypeVar("_T")
log = logging.getLogger("pollkit")

Connection = sqlite3.Connection
Cursor = sqlite3.Cursor
Work = Callable[[Connection], _T]
_files: "weakref.WeakSet[SqliteFile]" = weakref.WeakSet()  # all of this process, inherited or not


class SqliteFile:
    """A file with tables of a known schema.

    When the file is opened, `is_current` checks the tables: it returns False if `prepare`, which
    runs in a transaction, has to create or migrate them, and raises a LedgerError if the file
    can't be used at all.
    """

    def __init__(
        self,
        path: str,
        is_current: Work[bool],
        prepare: Work[None],
        create: bool = True,
        warn: Optional[Callable[[str], object]] = None,
    ) -> None:
        self.path = _real_path(path)
        self._is_current = is_current
        self._prepare = prepare
        self._create = create
        self._warn = warn or log.warning
        self._lock = threading.RLock()
        self._is_in_use = False
        self._hurried_until = 0.0
        self._db: Optional[Connection] = None
        self._identity: Optional[Tuple[int, int]] = None
        # The write-ahead log and its index, and the identities of these files.
        self._companions: Dict[str, Optional[Tuple[int, int]]] = {}
        self._pid = os.getpid()
        _close_inherited()
        _files.add(self)
        self.read(lambda db: None)  # raises an error now if the file can't be used

    def read(self, work: Work[_T]) -> _T:
        """The result of `work(db)`, which only reads."""
        return self._retry_while_locked(lambda: work(self._connection()))

    def write(self, work: Work[_T], is_synced: bool = False) -> _T:
        """The result of `work(db)`, run in a transaction; it may run more than once.

        With `is_synced`, the disk has the data when this returns: a power failure loses nothing.
        """

        def attempt() -> _T:
            db = self._connection()
            self._check_identity()
            if is_synced:
                return self._run_synced(db, work)
            return self._run_transaction(db, work)

        return self._retry_while_locked(attempt)

    def close(self) -> None:
        """Close the file; it is opened again when it is next used."""
        with self._lock:
            db = self._db
            self._db = None
            if db is not None:
                db.close()

    def hurry(self) -> None:
        """Wait for no lock in the next few seconds; see Storage."""
        self._hurried_until = time.monotonic() + HURRY_S

    def __del__(self) -> None:
        if getattr(self, "_db", None) is not None and os.getpid() == self._pid:
            self.close()

    def _retry_while_locked(self, attempt: Callable[[], _T]) -> _T:
        """Repeat an attempt while another process has the file locked; other errors are final."""
        if os.getpid() != self._pid:
            _close_inherited()
        with self._lock:
            self._is_in_use = True
            began_at = time.monotonic()
            is_first = True
            try:
                while True:
                    try:
                        return attempt()
                    except sqlite3.Error as error:
                        if not _is_locked(error):
                            self.close()  # its state is unknown
                            raise explain_error(self.path, error) from error
                        problem = self._problem_with_lock(is_first, began_at)
                        if problem:
                            raise LedgerError(self.path + problem) from error
                        is_first = False
                    except SIGNS_OF_DAMAGE as error:
                        raise self.explain_value(error) from error
                    # A random delay, so that processes do not collide again.
                    time.sleep(random.uniform(0.001, 0.02))
            finally:
                self._is_in_use = False

    def _run_synced(self, db: Connection, work: Work[_T]) -> _T:
        level = _query_value(db, "PRAGMA synchronous")
        db.execute("PRAGMA synchronous=FULL")
        try:
            return self._run_transaction(db, work)
        finally:
            if self._db is db:  # otherwise an error has closed it
                db.execute("PRAGMA synchronous=%s" % level)

    def _problem_with_lock(self, is_first: bool, began_at: float) -> str:
        """Why it is of no use to wait until the file is not locked any more; '' if it is."""
        if is_first and not has_locks(os.path.dirname(self.path)):
            return " is on a file system without locks: put it on a local disk"
        now = time.monotonic()
        if now < self._hurried_until or now > began_at + PATIENCE_S:
            return (
                ": another program has kept it locked for %.0f s: is one stopped or stuck in the "
                "middle of a write?" % (now - began_at)
            )
        return ""

    def explain_value(self, error: Exception) -> Exception:
        """The error for a value that could not be used; an error of pollkit as it is."""
        if isinstance(error, PollkitError):
            return error
        if isinstance(error, UnicodeEncodeError):  # of an argument: stored values are text
            return ConfigError("%.80r is not text" % error.object)
        return LedgerError(
            "%s is damaged, or another program has changed it: it holds values that no pollkit "
            "has written (%s: %.80s)" % (self.path, type(error).__name__, error)
        )

    def _run_transaction(self, db: Connection, work: Work[_T]) -> _T:
        try:
            db.execute("BEGIN IMMEDIATE")  # Ctrl-C may come right after it
            result = work(db)
            db.execute("COMMIT")
            return result
        except BaseException:
            try:
                if db.in_transaction:
                    db.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()  # which rolls back
            raise

    def _close_copy(self) -> None:
        """Close the connection if this process inherited it when it was forked."""
        if os.getpid() == self._pid:
            return
        if self._is_in_use:  # by another thread at the time of the fork
            raise LedgerError(
                "%s was in use while the process forked: open it anew after a fork" % self.path
            )
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self.close()

    def _connection(self) -> Connection:
        if self._db is None:
            self._check_file()
            db = connect(self.path)
            try:
                self._set_up(db)
            except BaseException:
                db.close()
                raise
            companions = [self.path + suffix for suffix in COMPANIONS[:2]]
            self._identity = _identity(self.path)
            self._companions = {name: _identity(name) for name in companions}
            self._db = db
            self._create = False  # a ledger that is removed later must not reappear empty
        return self._db

    def _check_identity(self) -> None:
        """Raise a LedgerError if the file was removed or replaced: writes to it would be lost."""
        if _identity(self.path) == self._identity:
            return
        # SQLite would take the log of the old file for that of the new one.
        left = [
            os.path.basename(name)
            for name, identity in self._companions.items()
            if identity is not None and _identity(name) == identity
        ]
        advice = ""
        if left:
            advice = (
                "before anything else, remove %s beside it: left by the old file, of no use, and "
                "harmful to a new one; then " % " and ".join(left)
            )
        raise LedgerError(
            "%s was removed or replaced while it was in use: nothing more is written to it; "
            "%srun again" % (self.path, advice)
        )

    def _check_file(self) -> None:
        """Create the file if necessary, for its owner only, and check that SQLite can use it.

        SQLite gives the same mode to the files beside it. An existing file is not opened here: a
        process that closes a file loses all its locks on it.
        """
        folder = os.path.dirname(self.path)
        no_folder = "%s: there is no such directory" % folder
        if not stat.S_ISDIR(_file_mode(folder, no_folder)):
            raise LedgerError(no_folder)
        try:
            for suffix in COMPANIONS:
                check_companion(self.path, suffix)
        except OSError as error:
            raise LedgerError("%s can't be opened: %s" % (self.path, error.strerror)) from None
        try:
            if self._create:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise LedgerError("%s can't be created: %s" % (self.path, error.strerror)) from None
        mode = _file_mode(
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
        mode = _query_value(db, "PRAGMA journal_mode")
        if not is_current and mode != "wal":
            can_share = has_shared_memory(os.path.dirname(self.path))
            if can_share and not is_on_network(self.path):
                mode = _query_value(db, "PRAGMA journal_mode=WAL")
            if mode != "wal" and not can_open_files(FILES):
                raise LedgerError(_TOO_MANY_FILES % self.path)
            if mode != "wal":
                self._warn(
                    "%s: no write-ahead log on this file system: slower, and for one host at a time"
                    % self.path
                )
        db.execute("PRAGMA synchronous=%s" % ("NORMAL" if mode == "wal" else "FULL"))
        db.execute("PRAGMA journal_size_limit=%d" % LOG_BYTES)
        if not is_current:
            self._run_transaction(db, self._prepare)


def _close_inherited() -> None:
    """After a fork, close the child's copies of all connections."""
    for file in list(_files):
        file._close_copy()


def _real_path(path: Any) -> str:
    """The path without links, or a ConfigError if it is not a path at all."""
    try:
        path = os.fspath(path)
    except TypeError:
        path = None
    if not isinstance(path, str) or not path:
        raise ConfigError("a ledger needs the path of its file, such as 'jobs.db'")
    try:
        check_links(path)
    except OSError as error:
        raise LedgerError("%s can't be opened: %s" % (path, error.strerror)) from None
    return os.path.realpath(path)


def _file_mode(path: str, missing: str) -> int:
    """The type and mode of a file; `missing` is the error message if there is none."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise LedgerError(missing) from None
    except PermissionError:
        raise LedgerError(
            "%s can't be reached: no permission to enter its directory: check its mode, and which "
            "user runs this" % path
        ) from None
    except OSError as error:  # a link to itself, a name that is too long
        raise LedgerError("%s can't be opened: %s" % (path, error.strerror)) from None


def _identity(path: str) -> Optional[Tuple[int, int]]:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connect(path: str) -> Connection:
    """A connection that begins no transaction implicitly."""
    if sys.version_info < (3, 7):  # it takes only text, and encodes it as UTF-8
        try:
            path = os.fsencode(path).decode("utf-8")
        except UnicodeDecodeError:
            raise LedgerError(
                "%s: Python 3.6 opens a ledger only if its path is UTF-8: name another" % path
            ) from None
    return sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _query_value(db: Connection, statement: str) -> object:
    return db.execute(statement).fetchone()[0]


def _is_locked(error: sqlite3.Error) -> bool:
    """Whether the only problem is that another process has the file locked."""
    text = str(error)
    mentions_lock = "locked" in text or "locking protocol" in text
    return mentions_lock and isinstance(error, sqlite3.OperationalError)


def explain_error(path: str, error: sqlite3.Error) -> LedgerError:
    """An error of SQLite with its remedy."""
    text = str(error)
    if "unable to open" in text and not can_open_files(FILES):
        return LedgerError(_TOO_MANY_FILES % path)
    for part, explanation in _EXPLANATIONS.items():
        if part in text:
            return LedgerError("%s %s" % (path, explanation))
    return LedgerError("%s can't be used: SQLite says %r" % (path, text))
