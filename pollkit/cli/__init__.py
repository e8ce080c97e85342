"""The command line: `main` finds the command's module, and turns what goes wrong into one line.

House rules: data goes to stdout, everything else to stderr. A command returns its exit code, or
raises ConfigError (exit code 2). Modules are imported when their command is called, and not
before: cron starts this program every minute.
"""

import sys
from typing import List, Optional

from .. import __version__

# Every command, in the order of the help text. Its module stands in cli/commands.
COMMANDS = {
    "wait": "wait for one job; print its outcome as JSON",
    "batch": "wait for many jobs; print an outcome a line as they end",
    "add": "put jobs in a ledger, a file from which they are polled later",
    "run": "poll a ledger's jobs: until none waits, once, or for a while (cron)",
    "status": "what waits in a ledger, and how the others ended",
    "retry": "let jobs of a ledger that have ended wait again",
    "forget": "take jobs out of a ledger",
    "simulate": "compare paces on a scenario in virtual time, beside the best that is possible",
    "profiles": "list the profiles; show one; check a file of your own",
    "doctor": "look at the way to a job step by step: DNS, proxy, TLS, credential, one poll",
    "demo": "an embedded job API on loopback, polled live",
    "help": "the longer documentation: help TOPIC",
}

HEAD = """\
usage: pollkit COMMAND [ARGUMENTS]

pollkit waits for asynchronous jobs over HTTP, from hosts where nothing may be installed.
"""

TAIL = """
  pollkit COMMAND --help says more, with examples; pollkit --version prints the version.

Exit codes: 0 all done, 1 a job failed, 2 usage or configuration, 3 a job timed out, 4 a job was
unreachable, 5 jobs still wait (status only), 130 or 143 interrupted.
"""


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command line, that of this process if none is given; the exit code comes back."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["--version"]:
        return _print("pollkit %s\n" % __version__)
    if not words or words[0] in ("--help", "-h"):
        return _print(help_text())
    try:
        from .running import run_command
    except KeyboardInterrupt:  # so soon
        return 130
    return run_command(words[0], words[1:], is_program=arguments is None)


def _print(text: str) -> int:
    try:
        if sys.stdout is not None:
            sys.stdout.write(text)
            sys.stdout.flush()
        return 0
    except (OSError, KeyboardInterrupt) as error:
        from .running import report_failure

        return report_failure(error)


def help_text() -> str:
    """What `pollkit --help` says."""
    return HEAD + "\n" + "".join("  %-10s %s\n" % line for line in COMMANDS.items()) + TAIL
