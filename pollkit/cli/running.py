"""Runs one command, and turns whatever goes wrong into one line and an exit code."""
import argparse
import os
import signal
import sys
from typing import IO, TYPE_CHECKING, Any, List, Optional

from ..errors import ConfigError, PollkitError
from . import COMMANDS
from .exits import INTERRUPTED, NOBODY_READS, TERMINATED, USAGE
from .terminal import size_of

if TYPE_CHECKING:
    from typing import NoReturn  # early releases of 3.6 have none


class Terminated(BaseException):
    """SIGTERM came."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line that says what to do."""

    def error(self, message: str) -> "NoReturn":
        raise ConfigError("%s; see %s --help" % (message, self.prog))


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal; argparse would import shutil, bz2 and lzma to know, for every flag it adds."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() else 0
        super().__init__(prog, width=(width or size_of(sys.stdout).columns) - 2)


def run_command(name: str, words: List[str]) -> int:
    """Run a command with its arguments; the exit code comes back."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
    except ValueError:
        pass  # not the main thread: whoever called us minds the signals
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the end
    try:
        code = _run(name, words)
        sys.stdout.flush()
        return code
    except PollkitError as error:
        return complain(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated:
        return TERMINATED
    except BrokenPipeError:
        return _nobody_reads()
    except OSError as error:
        return complain(said(error))


def complain(message: str) -> int:
    """One line on stderr; the exit code for usage and configuration."""
    from ..core.model import one_line
    try:
        sys.stderr.write("pollkit: %s\n" % one_line(message, 600))
    except (OSError, ValueError, AttributeError):
        pass  # nobody reads stderr: the exit code must do
    return USAGE


def said(error: OSError) -> str:
    """What the operating system says, in one line."""
    what = error.strerror or str(error) or type(error).__name__
    return "%s: %s" % (error.filename, what) if error.filename is not None else what


def _run(name: str, words: List[str]) -> int:
    if name not in COMMANDS:
        raise ConfigError(unknown("command", name, list(COMMANDS)) + "; pollkit --help lists the commands")
    __import__("%s.commands.%s" % (__package__, name))
    command: Any = sys.modules["%s.commands.%s" % (__package__, name)]
    parser = Parser(prog="pollkit " + name, description=command.__doc__, allow_abbrev=False,
                    formatter_class=_Help)
    command.add_arguments(parser)
    try:
        arguments = parser.parse_args(words)
    except SystemExit as leaving:  # --help
        return int(leaving.code or 0)
    result: int = command.run(arguments)
    return result


def unknown(kind: str, name: str, known: List[str]) -> str:
    """There is no such thing; perhaps the nearest one was meant."""
    import difflib
    near = difflib.get_close_matches(name, known, 1)
    return "there is no %s %r%s" % (kind, name, ": did you mean %s?" % near[0] if near else "")


def _terminate(number: int, frame: object) -> None:
    raise Terminated()


def _nobody_reads() -> int:
    """Whoever read our output is gone: end quietly, also when Python flushes at its exit."""
    for stream in (sys.stdout, sys.stderr):
        _to_nowhere(stream)
    return NOBODY_READS


def _to_nowhere(stream: Optional[IO[str]]) -> None:
    try:
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass
