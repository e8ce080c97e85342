"""Poll the jobs of a ledger until all have finished; any number of runs may share one.

Without a terminal, it prints only problems, because cron mails everything that is printed: one line
for each job that was not done or can't be polled, for each failed notification, and for warnings.
--progress log also logs changes, and -v every poll. --once and --for leave jobs waiting; the exit
code is 0 if there is nothing else to report.

--exec PROGRAM [ARGS...] runs a program for each finished job, up to four at once, without a shell.
The program gets the outcome as JSON on stdin, and POLLKIT_ID, POLLKIT_STATE, POLLKIT_TRY and, if
the job has metadata, POLLKIT_METADATA in its environment. Variables that hold credentials
(--token-env, or env:NAME in auth) are removed, unless --exec-env NAME keeps one. --exec must be the
last flag: everything after it belongs to the program.
Exit status 0 marks the job as notified; any other status is retried, by this or a later run, for
one day. --outbox appends outcomes to a file. Both notify at least once, so an outcome may come
twice: id and ended_at identify it. A run with neither leaves notifications to a later one.

examples:
  pollkit run jobs.db --for 55s --outbox outcomes.jsonl
  pollkit run jobs.db --once --profile knowhere --token-file /etc/knowhere.key
  pollkit run jobs.db --processes 4 --limit 10/s --profile knowhere
  pollkit run jobs.db --for 55s --metrics /var/lib/node_exporter/pollkit.prom
  pollkit run jobs.db --for 55s -v --exec ./notify
"""

import argparse
import os
import re
import sys
from contextlib import ExitStack
from typing import List, Optional, Set, Union

from ...core.model import Outcome, State, one_line
from ...core.profile import Profile
from ...core.units import Limit, to_seconds
from ...drivers.ledger_runner import LedgerRunner
from ...drivers.notifier import Notifier
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import LEASED, WAITING, Notification
from ...edges.notify.program import Program
from ...errors import ConfigError
from .. import argument_types, options
from ..exit_codes import USAGE, exit_code
from ..ledger_options import add_ledger, open_ledger
from ..metrics import MetricsFile, check_path, write_metrics
from ..output import write_message
from ..profile_options import options_for_one_profile, profile_from
from ..progress.display import add_progress_options, display_from
from ..progress.terminal import can_draw


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_ledger(parser)
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument(
        "--once",
        action="store_true",
        help="poll the jobs that are due now, then exit; "
        "skip jobs that the rate limit would delay by more than 10s",
    )
    how_long.add_argument(
        "--for",
        metavar="D",
        dest="for_s",
        type=to_seconds,
        help="poll for at most this long, such as 55s: for cron",
    )
    options.add_workers(parser, where=", in each process")
    parser.add_argument(
        "--processes",
        metavar="N",
        type=lambda text: argument_types.count(text, 64),
        default=1,
        help="share the work between this many processes (default: 1)",
    )
    parser.add_argument(
        "--keep",
        metavar="D",
        type=to_seconds,
        help="at the end, remove jobs that finished this long ago and were notified, such as 30d",
    )
    options.add_polling_options(parser, many_jobs=True, from_ledger=True)
    _add_notification_options(parser.add_argument_group("notifications and metrics"))
    add_progress_options(parser, without_terminal="only problems")


def _add_notification_options(group: "argparse._ActionsContainer") -> None:
    group.add_argument(
        "--outbox",
        metavar="FILE",
        type=argument_types.path,
        help="append each outcome to this file, as one line of JSON",
    )
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
        default=60.0,
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
        "--metrics",
        metavar="FILE",
        type=argument_types.path,
        help="write metrics for Prometheus' node_exporter to this file (.prom)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Poll the ledger in one process or in several; return the exit code."""
    profile = profile_from(arguments)
    if arguments.program is not None:
        Program(arguments.program, arguments.exec_timeout)  # raises ConfigError if it can't be run
    elif arguments.exec_env:
        raise ConfigError("--exec-env needs --exec PROGRAM")
    if arguments.keep is not None and arguments.program is None and arguments.outbox is None:
        raise ConfigError(
            "--keep removes only jobs that were notified: give --exec or --outbox, too, "
            "or remove jobs with pollkit forget --finished --older-than D"
        )
    if arguments.metrics is not None:
        check_path(arguments.metrics)
    _check_files(arguments)
    with open_ledger(arguments) as ledger:  # closed again before any process is forked
        _check_options_apply(arguments, ledger)
        identity = os.stat(arguments.ledger)
        unfinished = ledger.rows([WAITING, LEASED], outcomes=False)
        limit = options.limit_from(arguments, profile, (row.job for row in unfinished))
    if arguments.processes == 1:
        return _Run(arguments, profile, limit).run()
    if arguments.progress in ("auto", "bar"):  # several live displays would overwrite each other
        arguments.progress = "log" if arguments.progress == "bar" else "none"
    from ..processes import run_in_processes

    code = run_in_processes(
        arguments.processes, lambda number: _Run(arguments, profile, limit, number == 0).run()
    )
    # If the ledger was replaced meanwhile (the processes report that), don't open the new file:
    # the write-ahead log of the old one would damage it.
    if arguments.metrics is not None and _is_same_inode(arguments.ledger, identity):
        with open_ledger(arguments) as ledger:
            write_metrics(arguments.metrics, ledger, os.path.realpath(arguments.ledger))
    return code


class _Run:
    """The work of one process; the first process also writes the metrics and the warnings."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        profile: Profile,
        limit: Union[Limit, str, None],
        is_first: bool = True,
    ) -> None:
        self._arguments = arguments
        self._profile = profile
        self._limit = limit
        self._is_first = is_first
        wants_display = arguments.progress == "auto" and not arguments.log_json
        if wants_display and not can_draw(sys.stderr, os.environ):
            arguments.progress = "none"  # cron would mail the log
        self._display = display_from(arguments, batch=True, limit=limit)
        self._notifier: Optional[Notifier] = None
        self._reported_errors: Set[str] = set()

    def run(self) -> int:
        """Poll and notify; return the exit code."""
        arguments = self._arguments
        with open_ledger(arguments) as ledger, self._display, ExitStack() as stack:
            if arguments.metrics is not None and self._is_first:
                name = os.path.realpath(arguments.ledger)
                stack.enter_context(MetricsFile(arguments.metrics, ledger, name))
            if arguments.program is not None or arguments.outbox is not None:
                self._notifier = Notifier(
                    ledger, self._program(ledger), arguments.outbox, self._on_notification_failed
                )
            try:
                code = self._poll(ledger)
            except KeyboardInterrupt:
                if self._is_first:
                    text = self._remaining_work(ledger)
                    self._display.write_line("pollkit: interrupted: %s; run it again" % text)
                raise
            if self._is_first:
                options.warn_about_secrets(arguments, self._display.write_line)
        return code

    def _program(self, ledger: Ledger) -> Optional[Program]:
        arguments = self._arguments
        if arguments.program is None:
            return None
        from ...edges.notify.environment import CredentialVariables  # late: it reads profiles

        variables = CredentialVariables(
            self._profile, ledger.profiles_in_use(), arguments.profiles, arguments.exec_env
        )
        return Program(arguments.program, arguments.exec_timeout, variables.hidden_for)

    def _remaining_work(self, ledger: Ledger) -> str:
        waiting = _count_unfinished(ledger)
        text = "1 job still waits" if waiting == 1 else "%d jobs still wait" % waiting
        pending = ledger.summary().pending_notifications
        if self._notifier is not None and pending:
            text += ", %d notification%s pending" % (pending, "" if pending == 1 else "s")
        return text

    def _poll(self, ledger: Ledger) -> int:
        arguments = self._arguments
        display = self._display
        notifier = self._notifier
        runner = LedgerRunner(
            ledger,
            self._profile,
            workers=arguments.workers,
            keep=arguments.keep,
            on_event=display.on_event,
            on_finished=self._on_finished,
            on_unpollable=lambda text: display.write_line("pollkit: " + text),
            # A program that is still running may add jobs to the ledger.
            may_add_jobs=lambda: notifier is not None and notifier.may_add,
            bucket=options.bucket_from(arguments, self._limit),
            **options.overrides_from(arguments),
        )
        if display.on_event is not None:
            display.follow(runner, _count_unfinished(ledger))
        finished = self._run_to_end(runner)
        if display.on_event is not None and arguments.processes == 1:
            from .batch import summary

            text = summary(finished, runner.stats.polls, runner.stats.rate_limited)
            display.write_line("%s; %d still wait" % (text, _count_unfinished(ledger)))
        return USAGE if runner.unpollable else exit_code(finished)

    def _run_to_end(self, runner: LedgerRunner) -> List[State]:
        """Poll and notify until the options say stop; if interrupted, stop the notifier, too."""
        arguments = self._arguments
        notifier = self._notifier
        try:
            if notifier is not None:
                notifier.start(runner.fail, runner.wake)
            finished = runner.run(arguments.for_s, arguments.once)
            if notifier is not None:
                notifier.finish(arguments.exec_timeout)
            return finished
        except BaseException:
            if notifier is not None:
                notifier.stop()
            raise

    def _on_finished(self, outcome: Outcome) -> None:
        if self._notifier is not None:
            self._notifier.wake()
        needs_line = not self._arguments.quiet and not self._display.logs_outcomes
        if outcome.state is State.DONE or not needs_line:
            return
        text = "%s: %s" % (outcome.id, str(outcome.state).replace("_", " "))
        if outcome.error is not None:
            text += ": " + one_line(outcome.error.message)
        self._display.write_line("pollkit: " + text)

    def _on_notification_failed(
        self, notification: Notification, error: str, will_retry: bool
    ) -> None:
        """Log the first and the last failure of a job, but an error of many jobs only once."""
        is_repeated = notification.attempt > 1 or error in self._reported_errors
        is_hidden = self._arguments.quiet or (is_repeated and not self._arguments.verbose)
        if will_retry and is_hidden:
            return
        self._reported_errors.add(error)
        text = "%s: notification failed (attempt %d): %s" % (
            notification.id,
            notification.attempt,
            error,
        )
        if not will_retry:
            text += "; that was the last attempt: see pollkit status"
        self._display.write_line("pollkit: " + text)


def _variable(text: str) -> str:
    if not re.fullmatch(r"[\w.-]+", text):
        raise ConfigError("give only the name of an environment variable")
    return text


def _check_files(arguments: argparse.Namespace) -> None:
    """Raise ConfigError if the outbox or the metrics would overwrite another file of this run."""
    used = []
    for owner, path in (("the ledger", arguments.ledger), ("--bucket", arguments.bucket)):
        if path is not None:
            # SQLite creates its other files next to the real file, not next to a link.
            for suffix in ("", "-wal", "-shm", "-journal"):
                used.append((owner, os.path.realpath(path) + suffix))
    for flag, path in (("--outbox", arguments.outbox), ("--metrics", arguments.metrics)):
        if path is not None:
            for owner, other in used:
                if _is_same_file(path, other):
                    raise ConfigError("%s: %s is a file of %s: name another" % (flag, path, owner))
            used.append((flag, path))


def _is_same_file(path: str, other: str) -> bool:
    try:
        return os.path.realpath(path) == os.path.realpath(other) or os.path.samefile(path, other)
    except OSError:  # one of them does not exist yet
        return False


def _is_same_inode(path: str, identity: os.stat_result) -> bool:
    try:
        return os.path.samestat(identity, os.stat(path))
    except OSError:  # it was removed
        return False


def _check_options_apply(arguments: argparse.Namespace, ledger: Ledger) -> None:
    """Report options, such as --limit or --token-env, that would apply to none of the jobs."""
    given = " and ".join(options_for_one_profile(arguments))
    if not given:
        return
    if arguments.profile is None:
        for row in ledger.rows([WAITING, LEASED], outcomes=False):
            if row.job.profile is not None:
                raise ConfigError(
                    "%s would not apply to the jobs of profile %s: give --profile %s, too"
                    % (given, row.job.profile, row.job.profile)
                )
    elif not any(ledger.rows(profile=arguments.profile, outcomes=False)) and not arguments.quiet:
        write_message(
            "warning: %s has no effect: no job in the ledger has profile %s"
            % (given, arguments.profile)
        )


def _count_unfinished(ledger: Ledger) -> int:
    states = ledger.summary().states
    return states[WAITING] + states[LEASED]
