"""The notifications of a run: its options, and the lines about failures."""

import argparse
import re
from typing import Callable, Dict, List, Set

from ...core.model import one_line
from ...core.units import to_seconds
from ...core.waiting.retry_policy import RetryPolicy
from ...drivers.ledger.notifier import Failure
from ...edges.notify.program import Program
from ...errors import ConfigError
from ..arguments import argument_types
from ..output.streams import count_text, join_names

USUAL_TIMEOUT_S = 60.0  # of a program
MOST_REASONS = 2  # in one line
MOST_NAMES = 3
LONGEST_NAME = 40
LONGEST_REASON = 120


def add_notification_options(group: "argparse._ActionsContainer") -> None:
    group.add_argument(
        "--outbox",
        metavar="FILE",
        type=argument_types.path,
        help="append each outcome to this file, as one line of JSON",
    )
    _add_exec_options(group)
    group.add_argument(
        "--metrics",
        metavar="FILE",
        type=argument_types.path,
        help="write metrics for Prometheus' node_exporter to this file (.prom)",
    )


def _add_exec_options(group: "argparse._ActionsContainer") -> None:
    group.add_argument(
        "--exec",
        dest="program",
        nargs=argparse.REMAINDER,
        help="PROGRAM [ARGS...]: run it for each finished job, see above; must be the last flag",
    )
    group.add_argument(
        "--exec-timeout",
        metavar="D",
        type=to_seconds,
        default=USUAL_TIMEOUT_S,
        help="kill the program after this time (default: 60s)",
    )
    group.add_argument(
        "--exec-env",
        metavar="NAME",
        action="append",
        default=[],
        type=_variable,
        help="let the program inherit this variable, although it holds a credential; "
        "may be repeated",
    )
    group.add_argument(
        "--exec-retry",
        metavar="SPEC",
        type=RetryPolicy.parse,
        help="when to repeat failed notifications, of --outbox, too: 'fixed 1m for 2h', "
        "'fixed 10s attempts=5', none (default: 'backoff 10s..1h x2 for 1d')",
    )


def check_notification_options(arguments: argparse.Namespace) -> None:
    """Raise ConfigError if the program can't be run, or if an option has nothing to apply to."""
    if arguments.program is not None:
        Program(arguments.program, arguments.exec_timeout)
    elif arguments.exec_env:
        raise ConfigError("--exec-env needs --exec PROGRAM")
    notifies = arguments.program is not None or arguments.outbox is not None
    if arguments.exec_timeout != USUAL_TIMEOUT_S and not notifies:
        raise ConfigError("--exec-timeout needs --exec PROGRAM or --outbox FILE")
    if arguments.exec_retry is not None and not notifies:
        raise ConfigError("--exec-retry needs --exec PROGRAM or --outbox FILE")
    if arguments.keep is not None and not notifies:
        raise ConfigError(
            "--keep removes only jobs that were notified: give --exec or --outbox, too, "
            "or remove jobs with pollkit forget --finished --older-than D"
        )


class FailureReport:
    """Writes lines about failed notifications.

    cron mails everything that a run prints, and a notification may fail for a day. So a run
    mentions a failure only if it is the first of its job or the first for this reason, or if it
    was the last attempt: in one line at its end, for all jobs. -v logs each attempt. A run without
    --for and --once may last for days, so it also writes a line at once for each new reason.
    """

    def __init__(self, arguments: argparse.Namespace, write_line: Callable[[str], object]) -> None:
        self._ledger = arguments.ledger
        self._is_quiet = arguments.quiet
        self._is_verbose = bool(arguments.verbose)
        self._may_last = not arguments.once and arguments.for_s is None
        self._write_line = write_line
        self._reasons: Set[str] = set()  # each has a line already

    def on_failure(self, failure: Failure) -> None:
        """Write a line now if the options ask for it."""
        is_news = failure.is_new and failure.reason not in self._reasons
        is_wanted = self._is_verbose or (self._may_last and is_news)
        if self._is_quiet or not is_wanted:
            return
        self._reasons.add(failure.reason)
        text = "pollkit: %s: notification failed (attempt %d): %s"
        self._write_line(text % (failure.id, failure.attempt, failure.error))

    def finish(self, failures: List[Failure]) -> None:
        """Write the lines at the end of the run."""
        retried = [failure for failure in failures if failure.will_retry]
        new = [failure for failure in retried if failure.is_new]
        if new and not self._is_quiet:
            text = count_text(len(retried), "notification") + " failed"
            if len(new) < len(retried):
                text += ", %d of them for the first time" % len(new)
            whom = "it" if len(retried) == 1 else "them"
            remedy = "a later run retries %s (pollkit status %s)" % (whom, self._ledger)
            self._write_line("pollkit: %s: %s; %s" % (text, _reasons_text(new), remedy))
        given_up = [failure for failure in failures if not failure.will_retry]
        if given_up:
            text = count_text(len(given_up), "notification") + " failed for the last time"
            remedy = "see pollkit status " + self._ledger
            self._write_line("pollkit: %s: %s; %s" % (text, _reasons_text(given_up), remedy))


def _reasons_text(failures: List[Failure]) -> str:
    """The first reasons, each after the first of its jobs."""
    by_reason: Dict[str, List[Failure]] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure)
    texts = []
    for group in list(by_reason.values())[:MOST_REASONS]:
        names = [one_line(failure.id, LONGEST_NAME) for failure in group]
        error = one_line(group[0].error, LONGEST_REASON)
        texts.append("%s: %s" % (join_names(names, MOST_NAMES), error))
    if len(by_reason) > MOST_REASONS:
        texts.append("...")
    return "; ".join(texts)


def _variable(text: str) -> str:
    if not re.fullmatch(r"[\w.-]+", text):
        raise ConfigError("give only the name of an environment variable")
    return text
