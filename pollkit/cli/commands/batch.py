"""Wait for many jobs; print an outcome a line, as JSON, as they end.

FILE (or - for standard input) has ids or URLs, one a line, or JSON lines such as
{"id": "job_1", "label": "small"}, with id, url, profile, label, size, metadata. Empty lines and
those that begin with # are passed over.

examples:
  pollkit batch jobs.txt --profile knowhere > outcomes.jsonl
  pollkit batch - --profile model-tasks --base-url https://api.internal --limit 60/m < jobs.jsonl
"""
import argparse
from typing import Dict, List

from ...core.model import Job, State
from ...core.profile import Profile
from ...drivers.batch import BatchPoller
from .. import display, flags
from ..drawing import Numbers
from ..exits import exit_code
from ..job_lists import read_jobs
from ..output import as_json
from ..running import Terminated

_LISTED = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", metavar="FILE|-", help="the jobs; - for standard input")
    parser.add_argument("--workers", metavar="N", type=flags.count, default=8,
                        help="requests under way at once (default: 8)")
    flags.add_arguments(parser, one_job=False)
    display.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Wait for all of them, print each, and say by the exit code how it went."""
    profile = flags.profile_from(arguments)
    jobs = read_jobs(arguments.file, arguments)
    shown = display.display_from(arguments, batch=True, limit=profile.limit)
    states: Dict[str, State] = {}
    with shown:
        flags.warn(arguments, shown.say)
        try:
            _poll(profile, jobs, arguments, shown, states)
        except (KeyboardInterrupt, Terminated):
            shown.say(_left([job.id for job in jobs if job.id not in states], len(jobs)))
            raise
    return exit_code(states.values())


def _poll(profile: Profile, jobs: List[Job], arguments: argparse.Namespace, shown: display.Display,
          states: Dict[str, State]) -> None:
    with BatchPoller(profile, workers=arguments.workers, headers=flags.headers_from(arguments),
                     on_event=shown.on_event, profiles=arguments.profiles) as batch:
        shown.numbers = lambda: Numbers(len(jobs), batch.stats.polls, batch.stats.rate_limited)
        for outcome in batch.as_completed(jobs):
            states[outcome.id] = outcome.state
            shown.out(as_json(outcome.as_dict()))
        if not arguments.quiet:
            shown.say(_summary(states, batch.stats.polls, batch.stats.rate_limited))


def _summary(states: Dict[str, State], polls: int, rate_limited: int) -> str:
    ended = list(states.values())
    counts = ["%d %s" % (ended.count(state), str(state).replace("_", " ")) for state in State if state in ended]
    return "%d jobs: %s; %d polls%s" % (
        len(ended), ", ".join(counts), polls, ", %d of them answered with 429" % rate_limited if rate_limited else "")


def _left(ids: List[str], total: int) -> str:
    names = ", ".join(ids[:_LISTED]) + (", ..." if len(ids) > _LISTED else "")
    return "interrupted: %d of %d jobs had not ended: %s" % (len(ids), total, names)
