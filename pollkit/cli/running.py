"""Runs one command, and turns whatever goes wrong into one line and an exit code."""

import argparse
import errno
import os
import re
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional

from ..errors import ConfigError, PollkitError
from . import COMMANDS
from .exit_codes import INTERRUPTED, NOBODY_READS, TERMINATED, USAGE
from .progress.terminal import size_of

if TYPE_CHECKING:
    from typing import NoReturn  # early releases of 3.6 have none

IMPATIENCE_S = 1.0
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_LONG_WORD = re.compile(r"(\S{80})\S{120,}")


class Terminated(BaseException):
    """SIGTERM came, or SIGHUP."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line that says what to do."""

    _words: List[str] = []

    def error(self, message: str) -> "NoReturn":
        if "arguments are required" in message and self._strange(self._words):
            raise ConfigError(self.surplus(self._words))  # it may well be why something is missing
        raise ConfigError("%s; see %s --help" % (re.sub("^argument ", "", message), self.prog))

    def print_help(self, file: Any = None) -> None:
        # argparse's own would say nothing of a full disk or a broken pipe.
        sys.stdout.write(self.format_help())
        sys.stdout.flush()

    def _get_option_tuples(self, option_string: str) -> List[Any]:
        # No abbreviations; but -vv, which allow_abbrev=False forbids, too, before Python 3.8.
        return [] if option_string.startswith("--") else super()._get_option_tuples(option_string)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # What follows a flag that takes the rest belongs to it, also '--' and flags like ours.
        words = list(args)
        rest = [
            action
            for action in self._actions
            if action.nargs == argparse.REMAINDER and action.option_strings
        ]
        at = next(
            (i for i, word in enumerate(words) if rest and word in rest[0].option_strings),
            len(words),
        )
        self._words = self._joined(words[:at])
        found, surplus = super().parse_known_args(self._words, namespace)
        if at < len(words):
            setattr(found, rest[0].dest, words[at + 1 :])
        # argparse takes a list of words as ended where the first flag comes: what stands behind it belongs to it, too.
        lists = [
            action.dest
            for action in self._actions
            if action.nargs == "*" and not action.option_strings
        ]
        end = surplus.index("--") if "--" in surplus else len(surplus)
        if lists and surplus and not any(word.startswith("-") for word in surplus[:end]):
            setattr(found, lists[0], getattr(found, lists[0]) + surplus[:end] + surplus[end + 1 :])
            surplus = []
        return found, surplus

    def surplus(self, words: List[str]) -> str:
        """What to say of words that mean nothing here. Values are not repeated: one may be a secret."""
        strange = self._strange(words)
        known = [flag for flag in self._option_string_actions if flag.startswith("--")]
        what = (
            unknown_name_error("flag", strange[0], known)
            if strange
            else "unrecognized arguments, from %r on" % words[0]
        )
        return "%s; see %s --help" % (what, self.prog)

    def _strange(self, words: List[str]) -> List[str]:
        """Flags that there are none of, up to where flags end."""
        flags = [
            word.partition("=")[0] if word.startswith("--") else word[:2]
            for word in words[: _flags_end(words)]
            if word[:1] == "-" and word != "-"
        ]
        return [flag for flag in flags if flag not in self._option_string_actions]

    def _joined(self, words: List[str]) -> List[str]:
        """The words with '--limit -1/m' as '--limit=-1/m': argparse would take -1/m for a flag."""
        joined: List[str] = []
        end = _flags_end(words)
        for word in words[:end]:
            action = (
                self._option_string_actions.get(joined[-1])
                if joined and joined[-1][:2] == "--"
                else None
            )
            if action is not None and action.nargs is None and re.match(r"-[.0-9]", word):
                joined[-1] += "=" + word
            else:
                joined.append(word)
        return joined + words[end:]


def _flags_end(words: List[str]) -> int:
    return words.index("--") if "--" in words else len(words)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal; argparse would import shutil, bz2 and lzma to know, for every flag it adds."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() else 0
        super().__init__(prog, width=(width or size_of(sys.stdout).columns) - 2)


def run_command(name: str, words: List[str], is_program: bool = False) -> int:
    """Run a command with its arguments; the exit code comes back. A program ends with it."""
    try:
        with _prepared(is_program):
            code = _run(name, words)
            sys.stdout.flush()
            _settle(sys.stderr)
            return code
    except (Exception, KeyboardInterrupt, Terminated) as error:
        return report_failure(error)


def report_failure(error: BaseException) -> int:
    """The exit code for what went wrong, and a line that says it."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, Terminated):
        return TERMINATED
    if isinstance(error, BrokenPipeError):
        return _nobody_reads()
    if isinstance(error, PollkitError):
        return complain(str(error))
    if isinstance(error, OSError):
        return complain(os_error_text(error))
    return complain(
        "this is a bug in pollkit: %s: %s (%s)" % (type(error).__name__, error, _place(error))
    )


def complain(message: str) -> int:
    """One line on stderr; the exit code for usage and configuration."""
    from ..core.model import one_line

    if sys.stderr is not None:
        try:
            sys.stderr.write("pollkit: %s\n" % one_line(_LONG_WORD.sub(r"\1...", message), 600))
        except (OSError, ValueError):
            pass  # nobody reads stderr: the exit code must do
        _settle(sys.stderr)
    return USAGE


def os_error_text(error: OSError) -> str:
    """What the operating system says, in one line."""
    what = error.strerror or str(error) or type(error).__name__
    if error.filename is None and error.errno in _FULL:
        _to_nowhere(sys.stdout)  # or Python would try again at its exit
        return "can't write to standard output: %s" % what
    return "%s: %s" % (error.filename, what) if error.filename is not None else what


@contextmanager
def _prepared(is_program: bool) -> Iterator[None]:
    """Signals as exceptions, and somewhere to write to; afterwards all is as it was found.

    A program's exit code is decided then: a signal that comes later must not make it another.
    """
    streams = sys.stdout, sys.stderr
    before = _listen()
    with open(os.devnull, "w") as nowhere:
        # Closed by whoever started us, who may want the exit code alone.
        sys.stdout, sys.stderr = streams[0] or nowhere, streams[1] or nowhere
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams
            with _blocked(before):
                for number, handler in before.items():
                    signal.signal(number, signal.SIG_IGN if is_program else handler)


@contextmanager
def _blocked(numbers: Iterable[int]) -> Iterator[None]:
    """Block signals while their handlers change: Python complains of one that arrives just then."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


def _listen() -> Dict[int, Any]:
    """Make SIGTERM and SIGHUP an exception, as SIGINT is; the handlers that were there before.

    Another signal within a second is passed over: whoever is impatient must not spoil the tidying up.
    """
    heard = [float("-inf")]

    def hear(number: int, frame: object) -> None:
        now = time.monotonic()
        if now >= heard[0] + IMPATIENCE_S:
            heard[0] = now
            raise KeyboardInterrupt() if number == signal.SIGINT else Terminated()

    if threading.current_thread() is not threading.main_thread():
        return {}  # whoever called us minds the signals
    # One that is ignored, as in the background of a script, or minded by our caller stays so.
    usual = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        getattr(signal, "SIGHUP", signal.SIGTERM): signal.SIG_DFL,
    }
    return {
        number: signal.signal(number, hear)
        for number, handler in usual.items()
        if signal.getsignal(number) == handler
    }


def _run(name: str, words: List[str]) -> int:
    if name not in COMMANDS:
        what = (
            "flags come after the command, as in pollkit wait URL -v"
            if name.startswith("-")
            else unknown_name_error("command", name, list(COMMANDS))
        )
        raise ConfigError(what + "; see pollkit --help")
    __import__("%s.commands.%s" % (__package__, name))
    command: Any = sys.modules["%s.commands.%s" % (__package__, name)]
    parser = Parser(prog="pollkit " + name, description=command.__doc__, formatter_class=_Help)
    command.add_arguments(parser)
    try:
        arguments, rest = parser.parse_known_args([_as_typed(word) for word in words])
    except SystemExit as leaving:  # --help
        return int(leaving.code or 0)
    if rest:
        raise ConfigError(parser.surplus(rest))
    result: int = command.run(arguments)
    return result


def _as_typed(word: str) -> str:
    """A word of the command line; without a locale, as in cron, Python 3.6 takes UTF-8 for bytes of no meaning."""
    try:
        return os.fsencode(word).decode("utf-8")
    except UnicodeError:
        return word


def unknown_name_error(kind: str, name: str, known: List[str]) -> str:
    """There is no such thing; perhaps the nearest one was meant."""
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    return "there is no %s %s%s" % (
        kind,
        name if kind == "flag" else repr(name),
        " (did you mean %s?)" % near[0] if near else "",
    )


def _place(error: BaseException) -> str:
    """Where it happened: enough for whoever can mend it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    path = "?" if trace is None else os.path.basename(trace.tb_frame.f_code.co_filename)
    return "%s, line %d" % (path, 0 if trace is None else trace.tb_lineno)


def _nobody_reads() -> int:
    """Whoever read our output is gone: end quietly, also when Python flushes at its exit."""
    for stream in (sys.stdout, sys.stderr):
        _to_nowhere(stream)
    return NOBODY_READS


def _settle(stream: IO[str]) -> None:
    """Write what is left to write; if it can't be, Python must not try again at its exit, and fail."""
    try:
        stream.flush()
    except (OSError, ValueError):
        _to_nowhere(stream)


def _to_nowhere(stream: Optional[IO[str]]) -> None:
    try:
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass
