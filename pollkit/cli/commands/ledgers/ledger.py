"""Copy a ledger to another file or database, or upgrade the tables of one.

copy takes all jobs with their progress, outcomes and notifications, and the statistics. Then it
compares each job with its copy. No run may use FROM meanwhile. A copy that was interrupted
continues when the command is repeated. FROM does not change: remove it when the runs use TO.

migrate upgrades the tables after an update of pollkit. A file is upgraded by any command; a
database only by this one, because other hosts may still have the older pollkit.

examples:
  pollkit ledger copy jobs.db postgresql://me@db.internal/jobs
  pollkit ledger copy postgresql://me@db.internal/jobs jobs.db
  pollkit ledger migrate postgresql://me@db.internal/jobs
"""

import argparse

from ....edges.clock import Clock
from ....edges.ledger.ledger import Ledger
from ....edges.ledger.places import is_database
from ....errors import ConfigError
from ...arguments.argument_types import path
from ...exit_codes import ALL_DONE
from ...output.streams import count_text, write_message


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("action", metavar="copy|migrate", help="what to do with the ledger")
    parser.add_argument("ledger", metavar="LEDGER", type=path, help="the ledger; for copy: FROM")
    parser.add_argument(
        "target", metavar="TO", nargs="?", type=path, help="for copy: the other ledger"
    )


def run(arguments: argparse.Namespace) -> int:
    """Copy or migrate."""
    action = arguments.action
    if action not in ("copy", "migrate"):
        raise ConfigError("a ledger has no %r: pollkit ledger copy FROM TO, or migrate" % action)
    if (action == "copy") != (arguments.target is not None):
        raise ConfigError("write pollkit ledger copy FROM TO, or pollkit ledger migrate LEDGER")
    if action == "copy":
        _copy(arguments.ledger, arguments.target)
    else:
        _migrate(arguments.ledger)
    return ALL_DONE


def _copy(source_name: str, target_name: str) -> None:
    from ....drivers.ledger.copier import copy_ledger

    with Ledger(source_name, create=False) as source, Ledger(target_name) as target:
        if source.name == target.name:
            raise ConfigError("FROM and TO are the same ledger: name another")
        copied = copy_ledger(source, target)
        write_message(
            "%s copied and compared, %d of them now; use %s from here on, and remove %s"
            % (count_text(copied.total, "job"), copied.new, target.name, source.name)
        )


def _migrate(name: str) -> None:
    if not is_database(name):
        Ledger(name, create=False).close()
        write_message("%s has the newest tables" % name)
        return
    from ....edges.ledger.postgres.connection.database import migrate_database

    before, after = migrate_database(name, Clock())
    if before == after:
        write_message("the tables are the newest already: version %d" % after)
    else:
        write_message("migrated from version %d to %d" % (before, after))
