"""Programs of --exec: how they are run, their environment, and the last line of their output."""

import json
import os
import threading
from typing import IO, Any, Callable, Container, Dict, Mapping, Optional, Sequence, Set

from ...core.model import one_line
from ...core.units import duration_text
from ...errors import ConfigError
from ..ledger.records import Notification, NotificationFailed

KEPT_OUTPUT = 2000  # bytes at the end of a program's output


class Program:
    """A program that is run for each finished job, with the outcome on its stdin and a timeout.

    `hidden_for` returns the environment variables that it does not inherit: credentials.
    """

    def __init__(
        self,
        words: Sequence[str],
        timeout_s: float,
        hidden_for: Callable[[Notification], Container[str]] = lambda notification: (),
    ) -> None:
        if not timeout_s > 0:
            raise ConfigError(
                "a program's timeout must be above zero, not %s" % duration_text(timeout_s)
            )
        _check_program(words)
        self.timeout_s = timeout_s
        self._hidden_for = hidden_for
        self._words = list(words)
        self._running: Set[Any] = set()
        self._is_stopped = False

    def run(self, notification: Notification) -> None:
        """Run the program; NotificationFailed unless it exits with 0."""
        import tempfile

        try:
            # A file instead of a pipe: a program need not read its stdin.
            with tempfile.TemporaryFile() as stdin:
                stdin.write(notification.to_line())
                stdin.seek(0)
                process = self._start(stdin, self._environment(notification))
        except OSError as error:
            raise NotificationFailed(
                "can't make a temporary file: %s" % (error.strerror or error)
            ) from None
        self._wait_for(process)

    def stop(self) -> None:
        """Kill all running instances, and those that are just being started."""
        self._is_stopped = True
        for process in list(self._running):
            _kill(process)

    def _environment(self, notification: Notification) -> Mapping[Any, Any]:
        hidden = self._hidden_for(notification)
        environment: Dict[Any, Any] = {
            name: value
            for name, value in os.environ.items()
            if name != "POLLKIT_METADATA" and name not in hidden
        }
        environment["POLLKIT_ID"] = _encode(notification.id)
        environment["POLLKIT_STATE"] = notification.outcome["state"]
        environment["POLLKIT_TRY"] = "%d" % notification.attempt
        if notification.metadata:
            environment["POLLKIT_METADATA"] = json.dumps(notification.metadata)
        return environment

    def _start(self, stdin: IO[bytes], environment: Mapping[Any, Any]) -> Any:
        import subprocess

        try:
            return subprocess.Popen(
                [_encode(word) for word in self._words],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            number = getattr(error, "errno", None)
            # The error's own text contains the path on Python 3.6.
            why = os.strerror(number) if number else error
            raise NotificationFailed("can't run %s: %s" % (self._words[0], why)) from None

    def _wait_for(self, process: Any) -> None:
        import subprocess

        self._running.add(process)
        try:
            output = _OutputReader(process.stdout)
            if self._is_stopped:
                _kill(process)
            problem = _describe_exit(process.wait(self.timeout_s))
        except subprocess.TimeoutExpired:
            problem = "took longer than " + duration_text(self.timeout_s)
        finally:
            _kill(process)  # if it still runs, also because there can be no thread
            process.wait()
            self._running.discard(process)
        if problem is not None:
            last_line = output.last_line()
            reason = ": " + last_line if last_line else ""
            raise NotificationFailed("%s %s%s" % (self._words[0], problem, reason))


class _OutputReader:
    """Reads the output of a program in a thread, and keeps only the end of it.

    A child of the program may keep the pipe open; the thread is not waited for.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._end = b""
        self._thread = threading.Thread(
            target=self._read, args=(pipe,), name="pollkit-output", daemon=True
        )
        self._thread.start()

    def last_line(self) -> str:
        """The last line so far, flattened; '' if there is none."""
        self._thread.join(0.2)
        lines = self._end.decode("utf-8", "replace").strip().splitlines()
        return one_line(lines[-1]) if lines else ""

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            for data in iter(lambda: os.read(pipe.fileno(), 65536), b""):
                self._end = (self._end + data)[-KEPT_OUTPUT:]


def _describe_exit(code: int) -> Optional[str]:
    """The problem that an exit status signifies; None if it is 0."""
    if code < 0:
        return "was killed by signal %d" % -code
    return "exited with %d" % code if code else None


def _kill(process: Any) -> None:
    if process.returncode is not None:
        return
    try:
        if os.name == "posix":
            os.killpg(process.pid, 9)  # with all processes that it has started
        else:
            process.kill()
    except OSError:
        pass  # it has just exited


def _encode(text: str) -> Any:
    """Text for a program: UTF-8 even without a locale, where Python 3.6 would pass only ASCII."""
    return text.encode("utf-8", "surrogateescape") if os.name == "posix" else text


def _check_program(words: Sequence[str]) -> None:
    if not words or not words[0]:
        raise ConfigError("--exec needs a program: give it last, with its arguments")
    if os.name != "posix":
        return
    folders = [""] if os.path.dirname(words[0]) else os.get_exec_path()
    for folder in folders:
        path = _encode(os.path.join(folder, words[0]))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return
    raise ConfigError(
        "--exec: there is no program %s that can be run: give its whole path, and chmod +x"
        % words[0]
    )
