"""Wait for many jobs; print an outcome a line, as JSON, as they end.

FILE (or - for standard input) has ids or URLs, one a line, or JSON lines such as
{"id": "job_1", "label": "small"}, with id, url, profile, label, size, metadata, timeout. Empty
lines and those that begin with # are skipped. All of it is read before anything is asked.

A job's own timeout ({"id": "job_1", "timeout": "10m"}) takes precedence over --timeout.

examples:
  pollkit batch jobs.txt --profile knowhere > outcomes.jsonl
  pollkit batch - --profile model-tasks --base-url https://api.internal --limit 60/m < jobs.jsonl
"""

import argparse
import sys
from collections import Counter
from typing import List

from ...core.model import Job, State, display_id
from ...core.profile import Profile
from ...drivers.batch import BatchPoller
from ...edges.history_file import History
from .. import options as flags
from ..exit_codes import exit_code
from ..job_lists import read_jobs
from ..output import as_json
from ..progress import display
from ..progress.terminal import is_terminal
from ..progress.views import Numbers
from ..running import Terminated

_LISTED = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "file", metavar="FILE|-", type=flags.path, help="the jobs; - for standard input"
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=lambda text: flags.count(text, 1000),
        default=8,
        help="requests under way at once (default: 8)",
    )
    flags.add_arguments(parser, one_job=False)
    flags.add_bucket(parser)
    flags.add_history(parser)
    display.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Wait for all of them, print each, and say by the exit code how it went."""
    profile = flags.profile_from(arguments)
    if arguments.file == "-" and not arguments.quiet and is_terminal(sys.stdin):
        sys.stderr.write("pollkit: type the jobs, an id or a URL a line; Ctrl-D ends the list\n")
    jobs = read_jobs(arguments.file, arguments, profile, will_poll=True)
    shown = display.display_from(arguments, batch=True, limit=profile.limit)
    states: List[State] = []
    left = Counter(map(display_id, jobs))  # a count: URLs that differ in a secret are shown alike
    with flags.history_from(arguments, shown.say) as history, shown:
        try:
            _poll(profile, jobs, arguments, shown, history, states, left)
        except (KeyboardInterrupt, Terminated):
            shown.say(_left(list(left.elements()), len(jobs)))
            raise
        flags.warn(arguments, shown.say)
    return exit_code(states)


def _poll(
    profile: Profile,
    jobs: List[Job],
    arguments: argparse.Namespace,
    shown: display.Display,
    history: History,
    states: List[State],
    left: "Counter[str]",
) -> None:
    with BatchPoller(
        profile,
        workers=arguments.workers,
        on_event=shown.on_event,
        history=history,
        bucket=flags.bucket_from(arguments, flags.limit_from(arguments, profile, jobs)),
        **flags.options_from(arguments),
    ) as batch:
        shown.numbers = lambda: Numbers(len(jobs), batch.stats.polls, batch.stats.rate_limited)
        for outcome in batch.as_completed(jobs):
            shown.out(as_json(outcome.as_dict()))
            states.append(outcome.state)
            left[outcome.id] -= 1
        if not arguments.quiet:
            shown.say(summary(states, batch.stats.polls, batch.stats.rate_limited))


def summary(ended: List[State], polls: int, rate_limited: int) -> str:
    """How jobs ended, and what it took, in a line."""
    counts = [
        "%d %s" % (ended.count(state), str(state).replace("_", " "))
        for state in State
        if state in ended
    ]
    text = "%s; %s" % (
        ": ".join(filter(None, [_several(len(ended), "job"), ", ".join(counts)])),
        _several(polls, "poll"),
    )
    return text + (", %d of them answered with 429" % rate_limited if rate_limited else "")


def _left(ids: List[str], total: int) -> str:
    names = ", ".join(ids[:_LISTED]) + (", ..." if len(ids) > _LISTED else "")
    return "pollkit: interrupted: %d of %d jobs had not ended: %s" % (len(ids), total, names)


def _several(number: int, word: str) -> str:
    return "%d %s%s" % (number, word, "" if number == 1 else "s")
