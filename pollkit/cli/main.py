"""Find and run a command; turn every error into one line and an exit code.

Only `gc`, `sys` and `typing` are imported at the top, so that --help and --version start quickly.
"""

import gc
import sys
from typing import TYPE_CHECKING, Any, List, Optional

from .. import __version__

if TYPE_CHECKING:
    from .arguments.parser import Parser

# Every command, in the order of the help text. Its module is in cli/commands, or in one of FOLDERS.
COMMANDS = {
    "wait": "wait for one job and print its outcome",
    "batch": "wait for many jobs; print each outcome as the job finishes",
    "submit": "submit a job and wait for it, or leave the wait to a ledger",
    "add": "put jobs in a ledger, a file from which they are polled later",
    "run": "poll the jobs of a ledger: to the end, once, or for a while (cron)",
    "status": "show the jobs of a ledger and their outcomes",
    "report": "write or serve a page about the jobs of a ledger, for a browser",
    "retry": "wait again for finished jobs of a ledger",
    "cancel": "ask the API to cancel jobs of a ledger",
    "forget": "remove jobs from a ledger",
    "ledger": "copy a ledger to another file or database, or upgrade its tables",
    "simulate": "compare paces in virtual time with the theoretical optimum",
    "history": "show or clear the durations that adaptive paces have learned",
    "profiles": "list the profiles, show one, check a file, suggest or import some",
    "doctor": "check the way to a job: DNS, proxy, TLS, credential, one poll",
    "unpack": "unpack pollkit.pyz into a folder, from which it starts faster",
    "demo": "start a job API on this host and poll it, live",
    "completion": "print the script with which bash, zsh or fish completes commands",
    "help": "show the longer documentation: help TOPIC, or help COMMAND",
}

# The folders of cli/commands, and the commands whose modules they contain.
FOLDERS = {
    "ledgers": ("add", "run", "status", "report", "retry", "cancel", "forget", "ledger"),
    "program": ("unpack", "demo", "completion", "help"),
}

HEAD = """\
usage: pollkit COMMAND [ARGUMENTS]

pollkit waits for asynchronous jobs over HTTP, from hosts where nothing may be
installed.
"""

TAIL = """
pollkit COMMAND --help explains a command, with examples; pollkit --version
prints the version.

Exit codes: 0 all done, 1 a job failed, 2 usage or configuration, 3 a job timed
out, 4 a job was unreachable, 5 jobs still wait (status only), 130 or 143
interrupted, 141 output pipe closed.
"""


def main(arguments: Optional[List[str]] = None) -> int:
    """Run a command line, by default that of this process, and return the exit code."""
    is_program = arguments is None
    words = sys.argv[1:] if arguments is None else arguments
    if is_program:
        gc.disable()  # until everything is imported
    try:
        if not words or words[0] in ("--help", "-h"):
            return _print(_folded_help())
        if words[0] == "--version":
            return _print("pollkit %s\n" % __version__)
        from .output.streams import existing_streams, flush_or_discard
        from .signals import stop_signals_as_exceptions

        with stop_signals_as_exceptions(is_program=is_program), existing_streams():
            code = _run_command(words[0], words[1:], is_program)
            sys.stdout.flush()
            flush_or_discard(sys.stderr)
            return code
    except (Exception, KeyboardInterrupt) as error:
        try:
            return report_failure(error)
        except MemoryError as shortage:
            return report_failure(shortage)
    finally:
        if is_program:
            gc.enable()


def help_text() -> str:
    """The text of `pollkit --help`."""
    return HEAD + "\n" + "".join("  %-11s %s\n" % line for line in COMMANDS.items()) + TAIL


def _folded_help() -> str:
    from .arguments.help_folding import fold_text
    from .progress.terminal import text_width

    return fold_text(help_text(), text_width(sys.stdout))


def _print(text: str) -> int:
    print(text, end="", flush=True)  # nothing, if the caller has closed stdout
    return 0


def _run_command(name: str, words: List[str], is_program: bool) -> int:
    from ..errors import ConfigError
    from .arguments.parser import unknown_name_error

    if name not in COMMANDS:
        problem = unknown_name_error("command", name, list(COMMANDS))
        if name.startswith("-"):
            problem = "flags come after the command, as in pollkit wait URL -v"
        raise ConfigError(problem + "; see pollkit --help")
    try:
        arguments = build_parser(name).parse_words(words)
    except SystemExit as leaving:  # --help
        return int(leaving.code or 0)
    _file_warnings()  # discards those of earlier commands in this process
    if is_program:
        _collect_new_garbage_only()
    code: int = _load(name).run(arguments)
    if not getattr(arguments, "quiet", False):
        for text in _file_warnings():
            from .output.streams import write_message

            write_message("warning: " + text)
    return code


def _collect_new_garbage_only() -> None:
    """Spare the garbage collector the modules: `wait` takes 10 to 17 % less time, also to exit."""
    if hasattr(gc, "freeze"):  # since Python 3.7
        gc.freeze()
    gc.enable()


def _file_warnings() -> List[str]:
    """The warnings about files that the command has read, unless it has written them itself."""
    from ..edges.exposed_files import take_warnings

    return [str(warning) for warning in take_warnings()]


def build_parser(name: str) -> "Parser":
    """The parser of a command's arguments."""
    from .arguments.parser import Parser

    command = _load(name)
    parser = Parser(prog="pollkit " + name, description=command.__doc__)
    command.add_arguments(parser)
    return parser


def _load(name: str) -> Any:
    """The module of a command."""
    module = module_name(name)
    __import__(module)
    return sys.modules[module]


def module_name(command: str) -> str:
    """The full name of a command's module."""
    for folder, commands in FOLDERS.items():
        if command in commands:
            return "%s.commands.%s.%s" % (__package__, folder, command)
    return "%s.commands.%s" % (__package__, command)


def report_failure(error: BaseException) -> int:
    """Write one line about an error to stderr, unless it needs none; return the exit code."""
    if isinstance(error, MemoryError):  # there may be none left to import anything
        sys.stderr.write("pollkit: out of memory: is it limited (ulimit -v)?\n")
        return 2
    from ..edges.shortages import describe_shortage
    from ..errors import PollkitError
    from .exit_codes import INTERRUPTED, OUTPUT_CLOSED, TERMINATED, USAGE
    from .output.streams import discard, os_error_text, write_error
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
    elif describe_shortage(error):
        write_error(describe_shortage(error))
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
