"""Remove jobs from a ledger: the named ones, or those that finished long ago.

A removed job is no longer polled, and its pending notification is dropped. With --notified, jobs
whose notification is pending stay in the ledger.

examples:
  pollkit forget jobs.db job_1 job_2
  pollkit forget jobs.db --finished --notified --older-than 30d
"""

import argparse

from ....core.units import to_seconds
from ....errors import ConfigError
from ...arguments.ledger_options import add_ids, add_ledger, open_ledger
from ...exit_codes import ALL_DONE
from ...output.streams import join_names, write_message


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_ledger(parser)
    add_ids(parser, "the ids of the jobs")
    parser.add_argument("--finished", action="store_true", help="all finished jobs")
    parser.add_argument(
        "--older-than",
        metavar="D",
        type=to_seconds,
        help="with --finished: only jobs that finished this long ago, such as 30d",
    )
    parser.add_argument(
        "--notified",
        action="store_true",
        help="with --finished: only jobs whose notification was delivered or given up",
    )
    parser.add_argument("--quiet", action="store_true", help="don't print how many were removed")


def run(arguments: argparse.Namespace) -> int:
    """Remove the jobs."""
    if bool(arguments.ids) == arguments.finished:
        raise ConfigError("give either the jobs' ids or --finished: see pollkit forget --help")
    if not arguments.finished and (arguments.older_than is not None or arguments.notified):
        raise ConfigError("--older-than and --notified need --finished: see pollkit forget --help")
    with open_ledger(arguments) as ledger:
        if arguments.finished:
            count = ledger.forget_finished(arguments.older_than or 0.0, not arguments.notified)
            text = "%d forgotten" % count
        else:
            forgotten = set(ledger.forget(arguments.ids))
            missing = [name for name in arguments.ids if name not in forgotten]
            text = "%d forgotten" % len(forgotten)
            if missing:
                text += ", not in the ledger: " + join_names(missing)
    if not arguments.quiet:
        write_message(text)
    return ALL_DONE
