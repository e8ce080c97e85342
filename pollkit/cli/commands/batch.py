"""Wait for many jobs; print one JSON outcome per line as they finish.

FILE (or - for standard input) has one id or URL per line, or JSON lines such as
{"id": "job_1", "label": "small"}, with the fields id, url, profile, label, size, metadata, timeout.
Empty lines and lines that begin with # are skipped. The whole file is read before the first poll.

A job's own timeout ({"id": "job_1", "timeout": "10m"}) takes precedence over --timeout.

examples:
  pollkit batch jobs.txt --profile knowhere > outcomes.jsonl
  pollkit batch - --profile model-tasks --base-url https://api.internal --limit 60/m < jobs.jsonl
"""

import argparse
import sys
from collections import Counter
from typing import List

from ...core.model import State, display_id
from ...drivers.batch import BatchPoller
from .. import options
from ..argument_types import path
from ..exit_codes import exit_code
from ..job_lists import read_jobs
from ..output import as_json, count_text, join_names
from ..profile_options import profile_from
from ..progress.display import add_progress_options, display_from
from ..progress.terminal import is_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", metavar="FILE|-", type=path, help="the jobs; - for standard input")
    options.add_workers(parser)
    options.add_polling_options(parser, many_jobs=True)
    add_progress_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Wait for the jobs and print each outcome; return the exit code for all of them."""
    profile = profile_from(arguments)
    if arguments.file == "-" and not arguments.quiet and is_terminal(sys.stdin):
        sys.stderr.write("pollkit: type one id or URL per line; Ctrl-D ends the list\n")
    jobs = read_jobs(arguments.file, arguments, profile, will_poll=True)
    display = display_from(arguments, batch=True, limit=profile.limit)
    states: List[State] = []
    # A count, because URLs that differ only in a secret are shown alike.
    unfinished = Counter(map(display_id, jobs))
    with options.history_from(arguments, display.write_line) as history, display:
        try:
            with BatchPoller(
                profile,
                workers=arguments.workers,
                on_event=display.on_event,
                history=history,
                bucket=options.bucket_from(arguments, options.limit_from(arguments, profile, jobs)),
                **options.overrides_from(arguments),
            ) as batch:
                display.follow(batch, len(jobs))
                for outcome in batch.as_completed(jobs):
                    display.write_data(as_json(outcome.as_dict()))
                    states.append(outcome.state)
                    unfinished[outcome.id] -= 1
        except KeyboardInterrupt:
            names = list(unfinished.elements())
            display.write_line(
                "pollkit: interrupted: %d of %d jobs have not finished: %s"
                % (len(names), len(jobs), join_names(names))
            )
            raise
        if not arguments.quiet:
            display.write_line(summary(states, batch.stats.polls, batch.stats.rate_limited))
        options.warn_about_secrets(arguments, display.write_line)
    return exit_code(states)


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
