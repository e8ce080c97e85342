"""Take jobs out of a ledger: those that are named, or those that ended long ago.

A job that waits is no longer asked about. An end that was not told is not told any more: --told
leaves those in.

examples:
  pollkit forget jobs.db job_1 job_2
  pollkit forget jobs.db --finished --told --older-than 30d
"""

import argparse

from ...errors import ConfigError
from .. import options as flags
from ..exit_codes import ALL_DONE
from ..ledger_arguments import add_ids, add_ledger, listed, open_ledger, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger(parser)
    add_ids(parser, "the jobs, by their ids")
    parser.add_argument(
        "--finished", action="store_true", help="all that have ended, however they did"
    )
    parser.add_argument(
        "--older-than",
        metavar="D",
        type=flags.duration,
        help="with --finished: those that ended so long ago, such as 30d",
    )
    parser.add_argument(
        "--told",
        action="store_true",
        help="with --finished: those alone whose end was told, or could not be",
    )
    parser.add_argument("--quiet", action="store_true", help="do not say how many there were")


def run(arguments: argparse.Namespace) -> int:
    """Take them out, and say how many."""
    if bool(arguments.ids) == arguments.finished:
        raise ConfigError(
            "give the jobs' ids, or --finished, and not both: see pollkit forget --help"
        )
    if not arguments.finished and (arguments.older_than is not None or arguments.told):
        raise ConfigError("--older-than and --told go with --finished: see pollkit forget --help")
    with open_ledger(arguments) as ledger:
        if arguments.finished:
            count, missing = (
                ledger.forget_finished(arguments.older_than or 0.0, not arguments.told),
                [],
            )
        else:
            gone = ledger.forget(arguments.ids)
            count, missing = len(gone), [name for name in arguments.ids if name not in gone]
    if not arguments.quiet:
        say(
            "%d forgotten%s" % (count, ", not in the ledger: " + listed(missing) if missing else "")
        )
    return ALL_DONE
