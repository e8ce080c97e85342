"""Wait for many jobs; print each outcome as the job finishes: JSON lines, or text on a terminal.

The jobs are ids or URLs, or one FILE (- for standard input) with one id or URL per line, or JSON
lines such as {"id": "job_1", "label": "small"}, with the fields id, url, profile, label, size,
metadata, timeout. Empty lines and lines that begin with # are skipped. The whole file is read
before the first poll. A single argument is a file if a file of that name exists.

A job's own timeout ({"id": "job_1", "timeout": "10m"}) takes precedence over --timeout.

--resume OUT continues an interrupted batch: it skips the jobs that OUT, the JSON lines of earlier
runs, has as done or failed. A done job whose result could not be fetched or saved is polled again.
Only new outcomes are printed, so append them to OUT. The exit code covers the jobs of this run.

examples:
  pollkit batch jobs.txt --profile knowhere > outcomes.jsonl
  pollkit batch job_1 job_2 job_3 --profile knowhere
  pollkit batch jobs.txt --profile knowhere --save 'results/{id}.json' > outcomes.jsonl
  pollkit batch jobs.txt --profile knowhere --resume outcomes.jsonl >> outcomes.jsonl
  pollkit batch - --profile model-tasks --base-url https://api.internal --limit 60/m < jobs.jsonl
"""

import argparse
import sys
from collections import Counter
from typing import List, Set

from ...core.model import Job, State
from ...core.profiles.profile import Profile
from ...drivers.batch import BatchPoller
from ...errors import ConfigError
from ..arguments import options
from ..arguments.argument_types import path
from ..arguments.profile_options import profile_from
from ..arguments.save_options import add_save_option, result_code, warn_about_result
from ..exit_codes import ALL_DONE, combine_exit_codes, exit_code
from ..inputs.batch_resume import Resumed, describe_unfinished, resume, unfinished_jobs
from ..inputs.job_lists import HOW_TO, jobs_of_batch
from ..output.outcome_text import add_output_option, line_formatter, wants_text
from ..output.streams import count_text, write_message
from ..progress.display import add_progress_options, display_from
from ..progress.terminal import is_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "jobs",
        metavar="FILE|-|ID",
        nargs="*",
        help="a file with the jobs; - for standard input; or the ids or URLs of the jobs",
    )
    parser.add_argument(
        "--resume",
        metavar="FILE",
        type=path,
        help="skip the jobs that are done or failed in this file of outcomes (JSON lines)",
    )
    add_save_option(parser)
    add_output_option(parser)
    options.add_workers(parser)
    options.add_polling_options(parser, many_jobs=True)
    add_progress_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Wait for the jobs and print each outcome; return the exit code for all of them."""
    profile = profile_from(arguments)
    jobs, notes, needs_line_break = _read(arguments, profile)
    if not arguments.quiet:
        for note in notes:
            write_message(note)
    if not jobs:
        return ALL_DONE
    if needs_line_break and not wants_text(arguments):
        sys.stdout.write("\n")
    return _poll(jobs, arguments, profile)


def _read(arguments: argparse.Namespace, profile: Profile) -> Resumed:
    """The jobs to poll, without those that --resume skips."""
    if not arguments.jobs:
        raise ConfigError(
            "there are no jobs: give a file, - for standard input, or ids and URLs; "
            "see pollkit batch --help"
        )
    if arguments.jobs == ["-"] and not arguments.quiet and is_terminal(sys.stdin):
        sys.stderr.write("pollkit: type one id or URL per line; Ctrl-D ends the list\n")
    jobs = jobs_of_batch(arguments.jobs, arguments, profile)
    if not jobs:
        name = "standard input" if arguments.jobs == ["-"] else arguments.jobs[0]
        return Resumed([], ["no jobs in %s: %s" % (name, HOW_TO)])
    if arguments.resume is None:
        return Resumed(jobs, [])
    return resume(arguments.resume, jobs, profile.name)


def _poll(jobs: List[Job], arguments: argparse.Namespace, profile: Profile) -> int:
    """Wait for the jobs and print each outcome; return the exit code."""
    display = display_from(arguments, batch=True, limit=profile.limit)
    format_outcome = line_formatter(arguments, jobs)
    states: List[State] = []
    result_codes: Set[int] = set()
    # A count, because URLs that differ only in a secret are shown alike.
    finished: "Counter[str]" = Counter()
    with options.history_from(arguments, display.write_line) as history, display:
        try:
            with BatchPoller(
                profile,
                workers=arguments.workers,
                on_event=display.on_event,
                history=history,
                save=arguments.save,
                bucket=options.bucket_from(arguments, options.limit_from(arguments, profile, jobs)),
                **options.overrides_from(arguments),
            ) as batch:
                display.follow(batch, len(jobs))
                for outcome in batch.as_completed(jobs):
                    display.write_data(format_outcome(outcome))
                    states.append(outcome.state)
                    result_codes.add(result_code(outcome))
                    if not arguments.quiet:
                        warn_about_result(outcome, display.write_line)
                    finished[outcome.id] += 1
        except KeyboardInterrupt:
            unfinished = unfinished_jobs(jobs, finished)
            display.write_line("pollkit: " + describe_unfinished(unfinished, len(jobs)))
            raise
        if not arguments.quiet:
            display.write_line(summary(states, batch.stats.polls, batch.stats.rate_limited))
        options.warn_about_secrets(arguments, display.write_line)
    return combine_exit_codes([exit_code(states), *result_codes])


def summary(states: List[State], polls: int, rate_limited: int) -> str:
    """One line with the number of jobs by state, and of requests."""
    counts = Counter(states)
    by_state = [
        "%d %s" % (counts[state], str(state).replace("_", " ")) for state in State if counts[state]
    ]
    text = count_text(len(states), "job")
    if by_state:
        text += ": " + ", ".join(by_state)
    text += "; " + count_text(polls, "poll")
    if rate_limited:
        text += ", %d of them answered with 429" % rate_limited
    return text
