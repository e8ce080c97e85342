"""Poll the jobs of a ledger until none waits any more; any number of runs may share one.

Without a terminal it is silent while all is well: a line for each job that did not end well, and
no more, as cron mails what is printed; -v logs everything. --once and --for leave jobs waiting, and
exit with 0 if nothing else is to be told.

--exec PROGRAM [ARGS...] runs a program for each job that ended, up to four at once, without a
shell: the outcome as JSON on its stdin; POLLKIT_ID, POLLKIT_STATE, POLLKIT_TRY and, if there is
any, POLLKIT_METADATA in its environment. Variables that credentials come from (--token-env, or
env:NAME in auth) are not passed on, unless --exec-env NAME says so for one. --exec must be the last
flag: what follows is the program's.
Told is what it exits with 0 for; the rest is tried again, by this or a later run, for a day.
--outbox appends outcomes to a file. Both tell at least once, so the same end may come twice: id
and ended_at name it. A run with neither leaves ends for a later one to tell.

examples:
  pollkit run jobs.db --for 55s --outbox outcomes.jsonl
  pollkit run jobs.db --once --profile knowhere --token-file /etc/knowhere.key
  pollkit run jobs.db --processes 4 --limit 10/s --profile knowhere
  pollkit run jobs.db --for 55s --metrics /var/lib/node_exporter/pollkit.prom --exec /usr/local/bin/notify -v
"""

import argparse
import os
import re
import sys
from contextlib import ExitStack
from typing import Optional, Set, Union

from ...core.model import Outcome, State, one_line
from ...core.profile import Profile
from ...core.units import Limit
from ...drivers.ledger_runner import LedgerRunner
from ...drivers.notifier import Notifier
from ...edges.ledger.ledger import LEASED, WAITING, Ledger
from ...edges.ledger.notifications import Notification
from ...edges.notify.program import Program
from ...errors import ConfigError
from .. import options as flags
from ..exit_codes import USAGE, exit_code
from ..ledger_arguments import add_ledger, open_ledger, say
from ..metrics import MetricsFile, check_path, write_metrics
from ..progress import display
from ..progress.terminal import can_draw
from ..running import Terminated


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger(parser)
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument(
        "--once",
        action="store_true",
        help="look at what is due now, and no more: not at what a limit holds back for over 10s",
    )
    how_long.add_argument(
        "--for",
        metavar="D",
        dest="for_s",
        type=flags.duration,
        help="poll for so long at the most, such as 55s: for cron",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=lambda text: flags.count(text, 1000),
        default=8,
        help="requests under way at once, in each process (default: 8)",
    )
    parser.add_argument(
        "--processes",
        metavar="N",
        type=lambda text: flags.count(text, 64),
        default=1,
        help="share the work between so many processes (default: 1)",
    )
    flags.add_arguments(parser, one_job=False, of_jobs=False)
    flags.add_bucket(parser)
    group = parser.add_argument_group("telling of ends")
    group.add_argument(
        "--outbox",
        metavar="FILE",
        type=flags.path,
        help="append each outcome to it, as a line of JSON",
    )
    group.add_argument(
        "--exec",
        dest="program",
        nargs=argparse.REMAINDER,
        help="PROGRAM [ARGS...]: run it for each end, see above; must be the last flag",
    )
    group.add_argument(
        "--exec-timeout",
        metavar="D",
        type=flags.duration,
        default=60.0,
        help="how long the program may take before it is killed (default: 60s)",
    )
    group.add_argument(
        "--exec-env",
        metavar="NAME",
        action="append",
        default=[],
        type=_variable,
        help="let the program inherit this variable, though a credential comes "
        "from it; may be repeated",
    )
    group.add_argument(
        "--metrics",
        metavar="FILE",
        type=flags.path,
        help="write figures for Prometheus' node_exporter to this file (.prom)",
    )
    display.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Poll, tell, and say by the exit code how it went."""
    profile = flags.profile_from(arguments)
    if arguments.program is not None:
        Program(arguments.program, arguments.exec_timeout)  # complains if it must
    elif arguments.exec_env:
        raise ConfigError("--exec-env is of no use without --exec PROGRAM")
    if arguments.metrics is not None:
        check_path(arguments.metrics)
    _check_files(arguments)
    with open_ledger(arguments) as ledger:  # closed again before anything forks
        _check_flags(arguments, ledger)
        there = os.stat(arguments.ledger)
        limit = flags.limit_from(
            arguments, profile, (row.job for row in ledger.rows([WAITING, LEASED], outcomes=False))
        )
    if arguments.processes == 1:
        return _Run(arguments, profile, limit).run()
    if arguments.progress in ("auto", "bar"):  # they would paint over each other
        arguments.progress = "log" if arguments.progress == "bar" else "none"
    from ..processes import in_processes

    code = in_processes(
        arguments.processes, lambda number: _Run(arguments, profile, limit, number == 0).run()
    )
    # One that was put in its place, as the processes have said, would be damaged by the log of the old one.
    if arguments.metrics is not None and _is_still(arguments.ledger, there):
        with open_ledger(arguments) as ledger:
            write_metrics(arguments.metrics, ledger, os.path.realpath(arguments.ledger))
    return code


class _Run:
    """One process at work; the first one does what is to be done once."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        profile: Profile,
        limit: Union[Limit, str, None],
        is_first: bool = True,
    ) -> None:
        self._arguments, self._profile, self._limit, self._is_first = (
            arguments,
            profile,
            limit,
            is_first,
        )
        if (
            arguments.progress == "auto"
            and not arguments.log_json
            and not can_draw(sys.stderr, os.environ)
        ):
            arguments.progress = "none"  # cron mails whatever is printed
        self._shown = display.display_from(arguments, batch=True, limit=limit)
        self._teller: Optional[Notifier] = None
        self._said: Set[str] = set()

    def run(self) -> int:
        """Poll, and tell of what ended; the exit code."""
        arguments, shown = self._arguments, self._shown
        with open_ledger(arguments) as ledger, shown, ExitStack() as stack:
            if arguments.metrics is not None and self._is_first:
                stack.enter_context(
                    MetricsFile(arguments.metrics, ledger, os.path.realpath(arguments.ledger))
                )
            if arguments.program is not None or arguments.outbox is not None:
                program = self._program(ledger)
                self._teller = Notifier(ledger, program, arguments.outbox, self._not_told)
            try:
                code = self._poll(ledger)
            except (KeyboardInterrupt, Terminated):
                if self._is_first:
                    shown.say("pollkit: interrupted: %s; run it again" % self._left(ledger))
                raise
            if self._is_first:
                flags.warn(arguments, shown.say)
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

    def _left(self, ledger: Ledger) -> str:
        waiting, untold = (
            _waiting(ledger),
            0 if self._teller is None else ledger.summary().pending_notifications,
        )
        return ("1 job still waits" if waiting == 1 else "%d jobs still wait" % waiting) + (
            ", and %d end%s still to be told" % (untold, " is" if untold == 1 else "s are")
            if untold
            else ""
        )

    def _poll(self, ledger: Ledger) -> int:
        arguments, shown, teller = self._arguments, self._shown, self._teller
        polling = LedgerRunner(
            ledger,
            on_unpollable=self._trouble,
            on_finished=self._ended,
            may_add_jobs=lambda: teller is not None and teller.may_add,
            profile=self._profile,
            workers=arguments.workers,
            on_event=shown.on_event,
            bucket=flags.bucket_from(arguments, self._limit),
            **flags.options_from(arguments),
        )
        if shown.on_event is not None:
            from ..progress.views import Numbers  # late: cron watches no bar

            total = _waiting(ledger)
            shown.numbers = lambda: Numbers(total, polling.stats.polls, polling.stats.rate_limited)
        try:
            if teller is not None:
                teller.start(polling.fail, polling.wake)
            finished = polling.run(arguments.for_s, arguments.once)
            if teller is not None:
                teller.finish(arguments.exec_timeout)
        except BaseException:
            if teller is not None:
                teller.stop()
            raise
        if shown.on_event is not None and arguments.processes == 1:
            from .batch import summary

            shown.say(
                "%s; %d still wait"
                % (
                    summary(finished, polling.stats.polls, polling.stats.rate_limited),
                    _waiting(ledger),
                )
            )
        return USAGE if polling.unpollable else exit_code(finished)

    def _trouble(self, text: str) -> None:
        self._shown.say("pollkit: " + text)

    def _ended(self, outcome: Outcome) -> None:
        if self._teller is not None:
            self._teller.wake()
        if (
            outcome.state is not State.DONE
            and not self._arguments.quiet
            and not self._shown.logs_ends
        ):
            why = ": " + one_line(outcome.error.message) if outcome.error is not None else ""
            self._shown.say(
                "pollkit: %s: %s%s" % (outcome.id, str(outcome.state).replace("_", " "), why)
            )

    def _not_told(self, telling: Notification, error: str, again: bool) -> None:
        """Said of the first try and of the last, and not for each job where it is the same."""
        arguments = self._arguments
        if again and (
            arguments.quiet
            or ((telling.attempt > 1 or error in self._said) and not arguments.verbose)
        ):
            return
        self._said.add(error)
        self._shown.say(
            "pollkit: %s: its end could not be told (try %d): %s%s"
            % (
                telling.id,
                telling.attempt,
                error,
                "" if again else "; that was the last try: see pollkit status",
            )
        )


def _variable(text: str) -> str:
    if not re.fullmatch(r"[\w.-]+", text):
        raise argparse.ArgumentTypeError(
            "give the name of an environment variable, and nothing else"
        )
    return text


def _check_files(arguments: argparse.Namespace) -> None:
    """What is written over or appended to must be no file of the run's own: that would be lost, or the ledger."""
    taken = []
    for what, path in (("the ledger", arguments.ledger), ("--bucket", arguments.bucket)):
        if (
            path is not None
        ):  # SQLite keeps the others beside the file itself, and not beside a link to it
            taken += [
                (what, os.path.realpath(path) + more) for more in ("", "-wal", "-shm", "-journal")
            ]
    for flag, path in (("--outbox", arguments.outbox), ("--metrics", arguments.metrics)):
        if path is not None:
            for what, other in taken:
                if _is_same_file(path, other):
                    raise ConfigError(
                        "%s: %s is the file of %s, or belongs to it: name another"
                        % (flag, path, what)
                    )
            taken.append((flag, path))


def _is_same_file(path: str, other: str) -> bool:
    try:
        return os.path.realpath(path) == os.path.realpath(other) or os.path.samefile(path, other)
    except OSError:  # one is not there yet
        return False


def _is_still(path: str, there: os.stat_result) -> bool:
    try:
        return os.path.samestat(there, os.stat(path))
    except OSError:  # it was taken away
        return False


def _check_flags(arguments: argparse.Namespace, ledger: Ledger) -> None:
    """A limit or a credential that would silently count for none of the jobs is a mistake."""
    given = flags.for_one_profile(arguments)
    if given and arguments.profile is not None:
        if (
            next(ledger.rows(profile=arguments.profile, outcomes=False), None) is None
            and not arguments.quiet
        ):
            say(
                "warning: %s counts for nothing: no job in the ledger has profile %s"
                % (" and ".join(given), arguments.profile)
            )
    elif given:
        name = next(
            (
                row.job.profile
                for row in ledger.rows([WAITING, LEASED], outcomes=False)
                if row.job.profile is not None
            ),
            None,
        )
        if name is not None:
            raise ConfigError(
                "%s would not count for the jobs of profile %s: give --profile %s, too"
                % (" and ".join(given), name, name)
            )


def _waiting(ledger: Ledger) -> int:
    states = ledger.summary().states
    return states[WAITING] + states[LEASED]
