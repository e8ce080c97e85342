"""The work of one process of a run: poll, notify, write the metrics."""

import argparse
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, List, Optional, Set, Union

from ...core.model import Outcome, State, one_line
from ...core.profiles.profile import Profile
from ...core.units import Limit
from ...core.waiting.retry_policy import DEFAULT_RETRY
from ...drivers.ledger.notifier import Notifier
from ...drivers.ledger.runner import LedgerRunner
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import LEASED, WAITING
from ...edges.notify.program import Program
from ...errors import LedgerError
from ..arguments import options
from ..arguments.ledger_options import open_ledger
from ..arguments.save_options import result_code
from ..exit_codes import USAGE, combine_exit_codes, exit_code
from ..metrics import MetricsFile
from ..output.streams import count_text
from ..progress.display import display_from
from ..progress.terminal import can_draw
from .callbacks import secret_variables
from .notifications import FailureReport

if TYPE_CHECKING:
    from ...drivers.listener import Listener


class ProcessRun:
    """The work of one process; the first process also writes the metrics and the warnings."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        profile: Profile,
        limit: Union[Limit, str, None],
        is_first: bool = True,
        *,
        listener: "Optional[Listener]" = None,
    ) -> None:
        self._arguments = arguments
        self._profile = profile
        self._limit = limit
        self._is_first = is_first
        self._listener = listener
        wants_display = arguments.progress == "auto" and not arguments.log_json
        if wants_display and not can_draw(sys.stderr, os.environ):
            arguments.progress = "none"  # cron would mail the log
        self._display = display_from(arguments, batch=True, limit=limit)
        self._notifier: Optional[Notifier] = None
        self._result_codes: Set[int] = set()  # of done jobs
        self._failure_report = FailureReport(arguments, self._display.write_line)

    def run(self) -> int:
        """Poll and notify; return the exit code."""
        arguments = self._arguments
        with open_ledger(arguments) as ledger, self._display, ExitStack() as stack:
            if arguments.metrics is not None and self._is_first:
                stack.enter_context(MetricsFile(arguments.metrics, ledger, ledger.name))
            if arguments.program is not None or arguments.outbox is not None:
                self._notifier = Notifier(
                    ledger,
                    self._program(ledger),
                    arguments.outbox,
                    self._failure_report.on_failure,
                    retry=arguments.exec_retry or DEFAULT_RETRY,
                )
            try:
                code = self._poll(ledger)
            except KeyboardInterrupt:
                if self._is_first:
                    text = self._remaining_work(ledger)
                    self._display.write_line("pollkit: interrupted: %s; run it again" % text)
                raise
            if not arguments.quiet:
                self._report_outages(ledger)
            if arguments.processes == 1:
                options.warn_about_secrets(arguments, self._display.write_line)
        return code

    def _report_outages(self, ledger: Ledger) -> None:
        reports = ledger._outages.take_reports()
        if reports:
            from .outages import outage_lines  # late: outages are rare

            for line in outage_lines(reports, ledger.clock.wall()):
                self._display.write_line("pollkit: " + line)

    def _program(self, ledger: Ledger) -> Optional[Program]:
        arguments = self._arguments
        if arguments.program is None:
            return None
        from ...edges.notify.environment import CredentialVariables  # late: it reads profiles

        variables = CredentialVariables(
            self._profile,
            ledger.profiles_in_use(),
            arguments.profiles,
            arguments.exec_env,
            secret_variables(arguments),
        )
        return Program(arguments.program, arguments.exec_timeout, variables.hidden_for)

    def _remaining_work(self, ledger: Ledger) -> str:
        try:
            summary = ledger.summary()
        except LedgerError as error:
            return str(error)
        waiting = summary.states[WAITING] + summary.states[LEASED]
        text = "%s still %s" % (count_text(waiting, "job"), _wait_verb(waiting))
        pending = summary.pending_notifications
        if self._notifier is not None and pending:
            text += ", %s pending" % count_text(pending, "notification")
        return text

    def _poll(self, ledger: Ledger) -> int:
        arguments = self._arguments
        display = self._display
        notifier = self._notifier
        runner = LedgerRunner(
            ledger,
            self._profile,
            workers=arguments.workers,
            on_event=display.on_event,
            on_finished=self._on_finished,
            on_unpollable=lambda text: display.write_line("pollkit: " + text),
            # A program that is still running may add jobs to the ledger.
            may_add_jobs=lambda: notifier is not None and notifier.may_add,
            bucket=options.bucket_from(arguments, self._limit),
            save=arguments.save,
            **options.overrides_from(arguments),
        )
        if display.on_event is not None:
            display.follow(runner, _count_unfinished(ledger))
        finished = self._run_to_end(runner, ledger)
        if display.on_event is not None and arguments.processes == 1:
            from ..commands.batch import summary

            text = summary(finished, runner.stats.polls, runner.stats.rate_limited)
            waiting = _count_unfinished(ledger)
            display.write_line("%s; %d still %s" % (text, waiting, _wait_verb(waiting)))
        codes = [exit_code(finished), *self._result_codes]
        return USAGE if runner.unpollable else combine_exit_codes(codes)

    def _run_to_end(self, runner: LedgerRunner, ledger: Ledger) -> List[State]:
        """Poll and notify until the options say stop; if interrupted, stop the notifier, too."""
        arguments = self._arguments
        notifier = self._notifier
        try:
            if notifier is not None:
                notifier.start(runner.fail, runner.wake)
            if self._listener is not None:
                self._listener.start(runner.nudge)
                if arguments.verbose:
                    self._display.write_line(
                        "pollkit: listening on %s" % str(self._listener.address)
                    )
            finished = runner.run(arguments.for_s, arguments.once)
            if notifier is not None:
                notifier.finish(arguments.exec_timeout)
            if arguments.keep is not None:
                ledger.forget_finished(arguments.keep, pending_too=False)
            return finished
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                ledger._storage.hurry()
            if notifier is not None:
                notifier.stop()
            raise
        finally:
            if notifier is not None:
                self._failure_report.finish(notifier.failures)

    def _on_finished(self, outcome: Outcome) -> None:
        if self._notifier is not None:
            self._notifier.wake()
        self._result_codes.add(result_code(outcome))
        needs_line = not self._arguments.quiet and not self._display.logs_outcomes
        is_all_well = outcome.state is State.DONE and outcome.error is None
        if is_all_well or not needs_line:
            return
        text = "%s: %s" % (outcome.id, str(outcome.state).replace("_", " "))
        if outcome.error is not None:
            text += ": " + one_line(outcome.error.message)
        self._display.write_line("pollkit: " + text)


def _wait_verb(jobs: int) -> str:
    return "waits" if jobs == 1 else "wait"


def _count_unfinished(ledger: Ledger) -> int:
    states = ledger.summary().states
    return states[WAITING] + states[LEASED]
