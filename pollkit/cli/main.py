"""Find and run a command; turn every error into one line and an exit code.

Only `sys` and `typing` are imported at the top, so that --help and --version start quickly.
"""

import sys
from typing import TYPE_CHECKING, Any, List, Optional

from .. import __version__

if TYPE_CHECKING:
    from .parser import Parser

# Every command, in the order of the help text. Its module is in cli/commands.
COMMANDS = {
    "wait": "wait for one job and print its outcome",
    "batch": "wait for many jobs; print each outcome as the job finishes",
    "add": "put jobs in a ledger, a file from which they are polled later",
    "run": "poll the jobs of a ledger: until all have finished, once, or for a while (cron)",
    "status": "show the jobs of a ledger and their outcomes",
    "retry": "wait again for finished jobs of a ledger",
    "forget": "remove jobs from a ledger",
    "simulate": "compare paces in virtual time with the theoretical optimum",
    "history": "show or clear the durations that adaptive paces have learned",
    "profiles": "list the profiles, show one, check a file, or suggest one for an API",
    "doctor": "check the way to a job step by step: DNS, proxy, TLS, credential, one poll",
    "unpack": "unpack pollkit.pyz into a folder, from which it starts faster",
    "demo": "start a job API on this host and poll it, live",
    "completion": "print the script with which bash, zsh or fish completes commands and flags",
    "help": "show the longer documentation: help TOPIC, or help COMMAND",
}

HEAD = """\
usage: pollkit COMMAND [ARGUMENTS]

pollkit waits for asynchronous jobs over HTTP, from hosts where nothing may be installed.
"""

TAIL = """
  pollkit COMMAND --help explains a command, with examples; pollkit --version prints the version.

Exit codes: 0 all done, 1 a job failed, 2 usage or configuration, 3 a job timed out, 4 a job was
unreachable, 5 jobs still wait (status only), 130 or 143 interrupted, 141 output pipe closed.
"""


def main(arguments: Optional[List[str]] = None) -> int:
    """Run a command line, by default that of this process, and return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if not words or words[0] in ("--help", "-h"):
            return _print(help_text())
        if words[0] == "--version":
            return _print("pollkit %s\n" % __version__)
        from .output import existing_streams, flush_or_discard
        from .signals import stop_signals_as_exceptions

        with stop_signals_as_exceptions(is_program=arguments is None), existing_streams():
            code = _run_command(words[0], words[1:])
            sys.stdout.flush()
            flush_or_discard(sys.stderr)
            return code
    except (Exception, KeyboardInterrupt) as error:
        return report_failure(error)


def help_text() -> str:
    """The text of `pollkit --help`."""
    return HEAD + "\n" + "".join("  %-11s %s\n" % line for line in COMMANDS.items()) + TAIL


def _print(text: str) -> int:
    print(text, end="", flush=True)  # nothing, if the caller has closed stdout
    return 0


def _run_command(name: str, words: List[str]) -> int:
    from ..errors import ConfigError
    from .parser import unknown_name_error

    if name not in COMMANDS:
        problem = unknown_name_error("command", name, list(COMMANDS))
        if name.startswith("-"):
            problem = "flags come after the command, as in pollkit wait URL -v"
        raise ConfigError(problem + "; see pollkit --help")
    try:
        arguments = build_parser(name).parse_words(words)
    except SystemExit as leaving:  # --help
        return int(leaving.code or 0)
    code: int = _load(name).run(arguments)
    return code


def build_parser(name: str) -> "Parser":
    """The parser of a command's arguments."""
    from .parser import Parser

    command = _load(name)
    parser = Parser(prog="pollkit " + name, description=command.__doc__)
    command.add_arguments(parser)
    return parser


def _load(name: str) -> Any:
    """The module of a command."""
    module = "%s.commands.%s" % (__package__, name)
    __import__(module)
    return sys.modules[module]


def report_failure(error: BaseException) -> int:
    """Write one line about an error to stderr, unless it needs none; return the exit code."""
    from ..errors import PollkitError
    from .exit_codes import INTERRUPTED, OUTPUT_CLOSED, TERMINATED, USAGE
    from .output import discard, os_error_text, write_error
    from .signals import Terminated

    if isinstance(error, Terminated):
        return TERMINATED
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        discard(sys.stdout)
        discard(sys.stderr)
        return OUTPUT_CLOSED
    if isinstance(error, PollkitError):
        write_error(str(error))
    elif isinstance(error, OSError):
        write_error(os_error_text(error))
    else:
        kind = type(error).__name__
        write_error("this is a bug in pollkit: %s: %s (%s)" % (kind, error, _location(error)))
    return USAGE


def _location(error: BaseException) -> str:
    """The file and line that raised an error."""
    import os
    import traceback

    frame = traceback.extract_tb(error.__traceback__)[-1]
    return "%s, line %s" % (os.path.basename(frame.filename), frame.lineno)
