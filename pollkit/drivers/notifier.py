"""Telling of ends, at least once: to a program, to a file of JSON lines, or to both.

An end is taken from the ledger with a lease, told, and only then written down as told: whoever is
killed in between has it told again by another run. So whoever listens must not mind hearing of the
same end twice; its id and `ended_at` together name it. What can't be told is tried again after
10 s, 20 s, 40 s and so on up to an hour, by this or by a later run, for a day.

Threads of their own do it, so that a slow program holds up no poll and no lease, and not every
other end.
"""

import errno
import json
import os
import stat
import threading
import time
from typing import IO, Any, Callable, Container, Dict, List, Mapping, Optional, Sequence, Set

from ..core.model import one_line
from ..core.units import duration_text
from ..edges.files import open_file
from ..edges.ledger.ledger import Ledger
from ..edges.ledger.statistics import Notification
from ..errors import ConfigError, LedgerError
from .futures import new_bell, ring

FIRST_RETRY_S, LAST_RETRY_S = 10.0, 3600.0
LEASE_S = 60.0
TURN_S = 5.0  # how often to look for what others have left to tell
AT_ONCE = 100  # lines that are appended with one write; fewer where they are long
LOCK_S = 5.0  # how long to wait for an outbox that somebody else has locked
PROGRAMS = 4  # that run at the same time
LAST_OUTPUT = 2000


class NotificationFailed(Exception):
    """It could not be told, and why."""


class Program:
    """A program that is run for each finished job, with the outcome on its stdin and a time limit.

    `hidden_for` gives the environment variables that it does not inherit: those with credentials.
    """

    def __init__(
        self,
        words: Sequence[str],
        timeout_s: float,
        hidden_for: Callable[[Notification], Container[str]] = lambda telling: (),
    ) -> None:
        self.timeout_s = timeout_s
        self._hidden_for = hidden_for
        self._words = list(words)
        self._running: Set[Any] = set()
        self._stopped = False
        if not timeout_s > 0:
            raise ConfigError("a program needs some time: more than %s" % duration_text(timeout_s))
        _check_program(self._words)

    def tell(self, telling: Notification) -> None:
        """Run it; NotTold unless it ends well."""
        import tempfile

        try:
            # A file and not a pipe: a program that reads nothing keeps nobody waiting.
            with tempfile.TemporaryFile() as given:
                given.write(_line(telling.outcome))
                given.seek(0)
                environ = _environment(telling, os.environ, self._hidden_for(telling))
                process = self._started(given, environ)
        except OSError as error:
            raise NotificationFailed(
                "can't make a temporary file: %s" % (error.strerror or error)
            ) from None
        self._wait_for(process, _Said(process.stdout))

    def _started(self, given: IO[bytes], environ: Mapping[Any, Any]) -> Any:
        import subprocess

        try:
            return subprocess.Popen(
                [_for_system(word) for word in self._words],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environ,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            number = getattr(error, "errno", None)
            why = (
                os.strerror(number) if number else error
            )  # its own words have the path in them, on Python 3.6
            raise NotificationFailed("can't run %s: %s" % (self._words[0], why)) from None

    def _wait_for(self, process: Any, said: "_Said") -> None:
        import subprocess

        self._running.add(process)
        try:
            if self._stopped:
                self._kill(process)
            code = process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            self._kill(process)
            process.wait()
            raise NotificationFailed(
                "%s took longer than %s%s"
                % (self._words[0], duration_text(self.timeout_s), said.last_line())
            ) from None
        finally:
            self._running.discard(process)
        if code:
            how = "exited with %d" % code if code > 0 else "was killed by signal %d" % -code
            raise NotificationFailed("%s %s%s" % (self._words[0], how, said.last_line()))

    def stop(self) -> None:
        """Kill it, wherever it is running; one that is just being started does not get far."""
        self._stopped = True
        for process in list(self._running):
            self._kill(process)

    def _kill(self, process: Any) -> None:
        if process.returncode is None:
            try:
                if os.name == "posix":
                    os.killpg(process.pid, 9)  # with all that it has started
                else:
                    process.kill()
            except OSError:
                pass  # it has just ended


def append(path: str, tellings: Sequence[Notification]) -> None:
    """Append outcomes as JSON lines, with one write, and have them on the disk before it returns.

    The file is opened each time, as it may have been taken away to be read. Where somebody was
    killed, or the disk was full, in the middle of a line, that stays as it is: a new one begins.
    """
    data = b"".join(_line(telling.outcome) for telling in tellings)
    try:
        handle = _opened(path)
        try:
            _lock(handle, path)
            about = os.fstat(handle)
            is_file = stat.S_ISREG(about.st_mode)
            if is_file and about.st_size:
                os.lseek(handle, -1, os.SEEK_END)
                data = data if os.read(handle, 1) == b"\n" else b"\n" + data
            if os.write(handle, data) != len(data):
                raise NotificationFailed("can't write all of it to %s: is the disk full?" % path)
            if is_file:
                os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        why = (
            "it is a pipe, and nobody reads it"
            if error.errno == errno.ENXIO
            else error.strerror or error
        )
        raise NotificationFailed("can't append to %s: %s" % (path, why)) from None


class Notifier:
    """Tells of a ledger's ends as they come, in a thread, or in a few where a program is run; `wake` it for an end."""

    def __init__(
        self,
        ledger: Ledger,
        program: Optional[Program],
        outbox: Optional[str],
        on_trouble: Callable[[Notification, str, bool], object],
    ) -> None:
        self._ledger, self._program, self._outbox, self._on_trouble = (
            ledger,
            program,
            outbox,
            on_trouble,
        )
        self._bell = new_bell()
        self._is_last = self._is_over = self._stopped = False
        self._in_hand: Dict[int, Notification] = {}
        self._resting: Set[int] = set()  # the threads that found nothing to tell
        self._began_at = ledger.clock.now()  # something to tell, the last time
        self._error: Optional[LedgerError] = None
        self._threads = [
            threading.Thread(target=self._serve, name="pollkit-teller", daemon=True)
            for _ in range(1 if program is None else PROGRAMS)
        ]

    def start(
        self,
        on_error: Callable[[LedgerError], object] = lambda error: None,
        on_rest: Callable[[], object] = lambda: None,
    ) -> None:
        """Begin; `on_error` is called where the ledger can't be used any more, and nothing will be told.

        `on_rest` is called, in a thread, whenever there is nothing for it to do.
        """
        self._on_error, self._on_rest = on_error, on_rest
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """There is something to tell."""
        ring(self._bell)

    @property
    def may_add(self) -> bool:
        """Whether a program runs, or is about to: it may add jobs. One that hangs is not waited for."""
        if self._program is None:
            return False
        # In this order: what is no longer to be told by now was taken by a thread that did not rest.
        next_at, now = self._ledger.next_notification_at(), self._ledger.clock.now()
        is_busy = next_at is not None and next_at <= now or len(self._resting) < len(self._threads)
        return is_busy and now < self._began_at + self._hang_s()

    def finish(self, within_s: float) -> None:
        """Tell what is due; what was not begun in this time is left for another run."""
        self._is_last = True
        self.wake()
        self._join(within_s)
        self._is_over = True
        self._join(self._hang_s())
        if (
            self._error is None
        ):  # what is left: a pipe that nobody empties, a network file system that hangs
            self._failed(list(self._in_hand.values()), "it took too long, and was broken off")
        self.stop()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Break off: what is being told is told again by another run, as soon as there is one."""
        self._stopped = self._is_last = self._is_over = True
        if self._program is not None:
            self._program.stop()
        self.wake()
        self._join(0.5)
        if self._error is None:
            try:
                self._ledger.give_back(list(self._in_hand.values()))
            except LedgerError:
                pass  # then when the lease has run out

    def _hang_s(self) -> float:
        """What takes longer to tell is a pipe that nobody empties, say."""
        return (0.0 if self._program is None else self._program.timeout_s) + 2 * LOCK_S

    def _join(self, within_s: float) -> None:
        until = time.monotonic() + within_s
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))

    def _serve(self) -> None:
        try:
            while not self._is_over:
                is_last = self._is_last  # before the look: what ended since is seen by another one
                if not self._tells_some():
                    if is_last:
                        break
                    self._rest()
        except Exception as error:
            self._error = (
                error
                if isinstance(error, LedgerError)
                else LedgerError("ends can't be told any more: %s" % _in_words(error))
            )
            self._on_error(self._error)
        self.wake()  # one wakes the other, until all are gone

    def _tells_some(self) -> bool:
        tellings = self._taken()
        if tellings:
            self.wake()  # the next thread: there may be more
            self._tell(tellings)
        return bool(tellings)

    def _taken(self) -> List[Notification]:
        if self._program is None:
            return self._ledger.pending_notifications(AT_ONCE, LEASE_S)
        return self._ledger.pending_notifications(1, self._program.timeout_s + LEASE_S)

    def _rest(self) -> None:
        clock = self._ledger.clock
        next_at, now = self._ledger.next_notification_at(), clock.now()
        thread = threading.get_ident()
        self._resting.add(thread)
        self._on_rest()
        clock.wait(
            self._bell,
            now + TURN_S if next_at is None else max(now + 0.1, min(next_at, now + TURN_S)),
        )
        self._resting.discard(thread)

    def _tell(self, tellings: List[Notification]) -> None:
        self._began_at = self._ledger.clock.now()
        self._in_hand.update((telling.key, telling) for telling in tellings)
        try:
            if self._program is not None:
                self._program.tell(tellings[0])
            if self._outbox is not None:
                append(self._outbox, tellings)
        except Exception as error:  # whatever it is, the others are still told
            if not self._stopped:  # broken off by us: that is nobody's fault
                self._failed(tellings, _in_words(error))
            return
        for telling in tellings:
            self._ledger.mark_notified(telling)
            self._in_hand.pop(telling.key, None)

    def _failed(self, tellings: List[Notification], why: str) -> None:
        for telling in tellings:
            self._in_hand.pop(telling.key, None)
            self._on_trouble(
                telling,
                why,
                self._ledger.record_notification_failure(telling, why, retry_in_s(telling.tells)),
            )


def retry_in_s(tries: int) -> float:
    """How long to wait before an end is told once more.

    >>> [retry_in_s(tries) for tries in (1, 2, 3, 10, 10000)]
    [10.0, 20.0, 40.0, 3600.0, 3600.0]
    """
    return min(FIRST_RETRY_S * 2.0 ** min(tries - 1, 20), LAST_RETRY_S)


def _line(outcome: Mapping[str, Any]) -> bytes:
    return (json.dumps(outcome) + "\n").encode("ascii")


def _in_words(error: Exception) -> str:
    return (
        str(error)
        if isinstance(error, NotificationFailed)
        else "%s: %s" % (type(error).__name__, error)
    )


def _opened(path: str) -> int:
    """A file to append to; a pipe only where somebody reads it: who reads and writes would be its own reader."""
    if not os.path.exists(path) or not stat.S_ISFIFO(os.stat(path).st_mode):
        return open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    handle = open_file(path, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    return handle


def _lock(handle: int, path: str) -> None:
    """Keep others from appending until the file is closed: half of what they write would look like a broken line."""
    try:
        import fcntl
    except ImportError:
        return  # a system without: whoever reads passes over empty lines
    until = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise NotificationFailed(
                    "can't append to %s: another program has it locked" % path
                ) from None
            time.sleep(0.02)
        except OSError:
            return  # a file system without


def _environment(
    telling: Notification, environ: Mapping[str, str], hidden: Container[str]
) -> Mapping[Any, Any]:
    found = {
        "POLLKIT_ID": telling.id,
        "POLLKIT_STATE": telling.outcome["state"],
        "POLLKIT_TRY": "%d" % telling.tells,
    }
    if telling.metadata:
        found["POLLKIT_METADATA"] = json.dumps(telling.metadata)
    others = {
        name: value
        for name, value in environ.items()
        if name != "POLLKIT_METADATA" and name not in hidden
    }
    return dict(others, **{name: _for_system(value) for name, value in found.items()})


def _for_system(text: str) -> Any:
    """Text as a program gets it: in UTF-8 also without a locale, where Python 3.6 could pass on ASCII alone."""
    return text.encode("utf-8", "surrogateescape") if os.name == "posix" else text


class _Said:
    """The end of what a program says; the rest is thrown away while it speaks.

    A child that it leaves behind may hold on to the pipe, and keeps nobody waiting.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._end = b""
        self._thread = threading.Thread(
            target=self._listen, args=(pipe,), name="pollkit-listener", daemon=True
        )
        self._thread.start()

    def last_line(self) -> str:
        """What it said last, to be shown after what became of it."""
        self._thread.join(0.2)
        lines = self._end.decode("utf-8", "replace").strip().splitlines()
        return ": " + one_line(lines[-1]) if lines else ""

    def _listen(self, pipe: IO[bytes]) -> None:
        with pipe:
            for heard in iter(lambda: os.read(pipe.fileno(), 65536), b""):
                self._end = (self._end + heard)[-LAST_OUTPUT:]


def _check_program(words: Sequence[str]) -> None:
    if not words or not words[0]:
        raise ConfigError("--exec needs a program: give it last, with its arguments")
    places = [""] if os.path.dirname(words[0]) else os.get_exec_path()
    names = [_for_system(os.path.join(place, words[0])) for place in places]
    if os.name == "posix" and not any(
        os.path.isfile(name) and os.access(name, os.X_OK) for name in names
    ):
        raise ConfigError(
            "--exec: there is no program %s that can be run: give its whole path, and chmod +x"
            % words[0]
        )
