"""Poll the jobs of a ledger until all have finished; any number of runs may share one.

Without a terminal, it prints only problems, because cron mails everything that is printed: one line
for each job that was not done, for each reason why jobs can't be polled, for each outage that is
not over when the run ends (and when a later run finds that it is over), for notifications that
failed for the first time, and for warnings.
--progress log also logs changes, and -v every poll. --once and --for leave jobs waiting; the exit
code is 0 if there is nothing else to report. --dry-run previews a run.

--exec PROGRAM [ARGS...] runs a program for each finished job, up to four at once, without a shell.
The program gets the outcome as JSON on stdin, and POLLKIT_ID, POLLKIT_STATE, POLLKIT_TRY and, if
the job has metadata, POLLKIT_METADATA in its environment. Variables that hold credentials
(--token-env, or env:NAME in auth) are removed, unless --exec-env NAME keeps one. --exec must be the
last flag: everything after it belongs to the program.
Exit status 0 marks the job as notified; any other status is retried, by this or a later run, as
--exec-retry says. --outbox appends outcomes to a file, before the program runs. Both notify at
least once, so an outcome may come twice: id and ended_at identify it. A run with neither leaves
notifications to a later one.

--listen ADDRESS receives callbacks: a signed POST that names a job makes pollkit poll it at once
(pollkit help callbacks).

examples:
  pollkit run jobs.db --for 55s --outbox outcomes.jsonl
  pollkit run jobs.db --for 55s --splay 20s --outbox outcomes.jsonl
  pollkit run jobs.db --for 55s --save 'results/{id}.json' --outbox outcomes.jsonl
  pollkit run jobs.db --once --dry-run
  pollkit run jobs.db --once --profile knowhere --token-file /etc/knowhere.key
  pollkit run jobs.db --processes 4 --limit 10/s --profile knowhere
  pollkit run jobs.db --for 55s --metrics /var/lib/node_exporter/pollkit.prom
  pollkit run jobs.db --listen 127.0.0.1:8099 --listen-secret env:CALLBACK_SECRET
  pollkit run jobs.db --for 55s -v --exec ./notify
  pollkit run jobs.db --for 55s --exec-retry 'fixed 1m for 2h' --exec ./notify
"""

import argparse
import random
from typing import TYPE_CHECKING, Callable, Optional, Union

from ....core.profiles.profile import Profile
from ....core.units import Limit, rounded_duration, to_seconds
from ....edges.clock import Clock
from ....edges.ledger.ledger import Ledger
from ....edges.ledger.records import LEASED, WAITING
from ....errors import ConfigError
from ...arguments import argument_types, options
from ...arguments.ledger_options import add_ledger, open_ledger
from ...arguments.profile_options import options_for_one_profile, profile_from
from ...arguments.save_options import add_save_option
from ...metrics import check_path, write_metrics
from ...output.streams import write_message
from ...progress.display import add_progress_options
from ...runs.callbacks import add_callback_options, check_callback_options, open_listener
from ...runs.files import check_files, check_outbox, file_identity, note_profile_files
from ...runs.notifications import add_notification_options, check_notification_options
from ...runs.process import ProcessRun

if TYPE_CHECKING:
    from ....drivers.listener import Listener


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_ledger(parser)
    _add_duration_options(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what a run would do now; poll, send and change nothing",
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
    add_save_option(parser)
    options.add_polling_options(parser, many_jobs=True, from_ledger=True)
    add_notification_options(parser.add_argument_group("notifications and metrics"))
    add_callback_options(parser.add_argument_group("callbacks"))
    add_progress_options(parser, without_terminal="only problems")


def _add_duration_options(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument(
        "--splay",
        metavar="D",
        type=to_seconds,
        default=0.0,
        help="begin after a random time of up to D, which counts as part of --for: "
        "for many hosts with the same crontab",
    )


def run(arguments: argparse.Namespace) -> int:
    """Poll the ledger in one process or in several; return the exit code."""
    profile = profile_from(arguments)
    _check_arguments(arguments)
    with open_ledger(arguments) as ledger:  # closed again before any process is forked
        _check_options_apply(arguments, ledger)
        identity = file_identity(arguments.ledger)
        unfinished = ledger.jobs([WAITING, LEASED], outcomes=False)
        limit = options.limit_from(arguments, profile, (row.job for row in unfinished))
        names = ledger.profiles_in_use()
        if arguments.dry_run:
            from ...runs.dry_run import dry_run  # late: cron does not need it

            return dry_run(arguments, ledger, profile, limit)
    with open_listener(arguments, profile) as listener:
        if arguments.splay:
            delay_start(arguments)
        if arguments.processes == 1:
            return ProcessRun(arguments, profile, limit, listener=listener).run()
        note_profile_files(profile, names, arguments.profiles)
        code = _run_in_processes(arguments, profile, limit, listener)
    # If the ledger was replaced meanwhile (the processes report that), don't open the new file:
    # the write-ahead log of the old one would damage it.
    if arguments.metrics is not None and file_identity(arguments.ledger) == identity:
        with open_ledger(arguments) as ledger:
            write_metrics(arguments.metrics, ledger, ledger.name)
    return code


def _run_in_processes(
    arguments: argparse.Namespace,
    profile: Profile,
    limit: Union[Limit, str, None],
    listener: "Optional[Listener]",
) -> int:
    if arguments.progress in ("auto", "bar"):  # several live displays would overwrite each other
        arguments.progress = "log" if arguments.progress == "bar" else "none"
    from ...processes import run_in_processes

    def work(number: int) -> int:
        is_first = number == 0
        if listener is not None and not is_first:
            listener.close()  # the first process alone receives callbacks
        return ProcessRun(
            arguments, profile, limit, is_first, listener=listener if is_first else None
        ).run()

    return run_in_processes(arguments.processes, work)


def _check_arguments(arguments: argparse.Namespace) -> None:
    check_notification_options(arguments)
    check_callback_options(arguments)
    has_time_limit = arguments.for_s is not None
    if has_time_limit and arguments.splay and arguments.splay >= arguments.for_s:
        raise ConfigError("--splay must be shorter than --for, or no time is left to poll")
    if arguments.outbox is not None:
        check_outbox(arguments.outbox)
    if arguments.metrics is not None:
        check_path(arguments.metrics)
    check_files(arguments)
    if arguments.save is not None:
        from ....edges.results.save_path import SavePath  # late: few runs save results

        SavePath(arguments.save)


def delay_start(
    arguments: argparse.Namespace,
    clock: Optional[Clock] = None,
    rng: Callable[[], float] = random.random,
) -> None:
    """Sleep for a random part of --splay; --for ends when it would have ended without that."""
    clock = clock or Clock()
    delay_s = arguments.splay * rng()
    if arguments.verbose:
        write_message("the run begins in %s (--splay)" % rounded_duration(delay_s))
    clock.sleep_until(clock.now() + delay_s)
    if arguments.for_s is not None:
        arguments.for_s -= delay_s


def _check_options_apply(arguments: argparse.Namespace, ledger: Ledger) -> None:
    """Report options, such as --limit or --token-env, that would apply to none of the jobs."""
    given = " and ".join(options_for_one_profile(arguments))
    if not given:
        return
    if arguments.profile is None:
        for row in ledger.jobs([WAITING, LEASED], outcomes=False):
            if row.job.profile is not None:
                raise ConfigError(
                    "%s would not apply to the jobs of profile %s: give --profile %s, too"
                    % (given, row.job.profile, row.job.profile)
                )
    elif not any(ledger.jobs(profile=arguments.profile, outcomes=False)) and not arguments.quiet:
        write_message(
            "warning: %s has no effect: no job in the ledger has profile %s"
            % (given, arguments.profile)
        )
