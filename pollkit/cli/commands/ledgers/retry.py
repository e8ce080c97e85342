"""Wait again for finished jobs, from the beginning.

Jobs keep their own timeouts, and every timeout counts from now. Their outcomes are deleted, and
their next outcomes are notified again.

A job that the API refused when it was submitted is submitted again. If the API may have accepted
it (error code submit-ambiguous), only --resubmit submits it again: find out first, or there may be
two.

examples:
  pollkit retry jobs.db job_1
  pollkit retry jobs.db --state unreachable
  pollkit retry jobs.db submit-3f2a91c0d4e7 --resubmit
"""

import argparse

from ....core.model import State
from ....errors import ConfigError
from ...arguments.ledger_options import add_ids, add_ledger, open_ledger
from ...exit_codes import ALL_DONE
from ...output.streams import join_names, write_message


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_ledger(parser)
    add_ids(parser, "the ids of the jobs")
    parser.add_argument(
        "--state",
        metavar="S",
        action="append",
        default=[],
        choices=[state.value for state in State],
        help="all jobs in this state: failed, timed_out, unreachable, ...; may be repeated",
    )
    parser.add_argument(
        "--resubmit",
        action="store_true",
        help="submit the jobs again, even if the API may have accepted them",
    )
    parser.add_argument("--quiet", action="store_true", help="don't print how many wait again")


def run(arguments: argparse.Namespace) -> int:
    """Let the jobs wait again."""
    if bool(arguments.ids) == bool(arguments.state):
        raise ConfigError("give either the jobs' ids or --state S: see pollkit retry --help")
    with open_ledger(arguments) as ledger:
        rows = list(ledger.jobs(states=arguments.state, ids=arguments.ids, outcomes=False))
        known = dict.fromkeys(row.job.id for row in rows)  # an id may be given twice
        missing = [name for name in arguments.ids if name not in known]
        if missing:
            raise ConfigError("not in the ledger, so nothing was changed: " + join_names(missing))
        submitted = [row.job.id for row in rows if row.submission is None]
        if arguments.resubmit and submitted:
            raise ConfigError(
                "--resubmit is for jobs whose submission failed, so nothing was changed: %s"
                % join_names(submitted)
            )
        retried = ledger.retry(known, arguments.resubmit)
    if not arguments.quiet:
        text = "1 waits again" if len(retried) == 1 else "%d wait again" % len(retried)
        unfinished = len(known) - len(retried)
        if unfinished:
            text += ", %d had not finished" % unfinished
        write_message(text)
    return ALL_DONE
