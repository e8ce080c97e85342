"""Let jobs that have ended wait again, from the beginning.

Jobs keep their own timeouts, and every timeout counts from now. Their outcomes are forgotten; how
they end next is told anew.

examples:
  pollkit retry jobs.db job_1
  pollkit retry jobs.db --state unreachable
"""

import argparse

from ...core.model import State
from ...errors import ConfigError
from ..exit_codes import ALL_DONE
from ..ledger_arguments import add_ids, add_ledger, listed, open_ledger, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger(parser)
    add_ids(parser, "the jobs, by their ids")
    parser.add_argument(
        "--state",
        metavar="S",
        action="append",
        default=[],
        choices=[state.value for state in State],
        help="all that ended like this: failed, timed_out, unreachable, ...; may be repeated",
    )
    parser.add_argument("--quiet", action="store_true", help="do not say how many there were")


def run(arguments: argparse.Namespace) -> int:
    """Let them wait, and say how many."""
    if bool(arguments.ids) == bool(arguments.state):
        raise ConfigError(
            "give the jobs' ids, or --state S, and not both: see pollkit retry --help"
        )
    with open_ledger(arguments) as ledger:
        known = [
            row.job.id
            for row in ledger.rows(states=arguments.state, ids=arguments.ids, outcomes=False)
        ]
        missing = [name for name in arguments.ids if name not in known]
        if missing:
            raise ConfigError("not in the ledger, so nothing was changed: " + listed(missing))
        again = ledger.retry(known)
    if not arguments.quiet:
        waiting = len(known) - len(again)
        say(
            "%d wait%s again%s"
            % (
                len(again),
                "s" * (len(again) == 1),
                ", %d had not ended" % waiting if waiting else "",
            )
        )
    return ALL_DONE
