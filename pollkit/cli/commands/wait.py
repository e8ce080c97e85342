"""Wait for one job; print its outcome as JSON.

examples:
  pollkit wait https://api.internal/v1/jobs/42
  pollkit wait job_1 --profile knowhere --size 25
  pollkit wait job_1 --profile knowhere --timeout 10m --result > result.json
  pollkit wait https://api.internal/v1/jobs/42 --token-env API_TOKEN --pace 'fixed 5s'
"""

import argparse

from ...core.model import Outcome, State
from ...core.urls import redact_url
from ...drivers.single import Poller
from .. import options as flags
from ..exit_codes import exit_code
from ..output import as_json, as_text
from ..progress import display
from ..running import Terminated


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "job", metavar="URL|ID", help="the job's own URL, or its id if a profile says where to ask"
    )
    parser.add_argument(
        "--result", action="store_true", help="print the result alone, as it is if it is text"
    )
    flags.add_arguments(parser)
    flags.add_bucket(parser)
    flags.add_history(parser)
    display.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Wait, print, and say by the exit code how it ended."""
    profile = flags.profile_from(arguments)
    job = flags.job_from(arguments, arguments.job, profile)
    shown = display.display_from(arguments, title=redact_url(job.id), limit=profile.limit)
    with flags.history_from(
        arguments, shown.say
    ) as history:  # saved last: the outcome matters more
        with Poller(
            profile,
            headers=flags.headers_from(arguments),
            on_event=shown.on_event,
            bucket=flags.bucket_from(arguments, profile.limit),
            history=history,
        ) as poller, shown:
            try:
                outcome = poller.poll(job)
            except (KeyboardInterrupt, Terminated):
                shown.say("pollkit: interrupted: %s had not ended" % redact_url(job.id))
                raise
            flags.warn(arguments, shown.say)
        _print(outcome, arguments.result, shown)
    return exit_code([outcome.state])


def _print(outcome: Outcome, is_result_alone: bool, shown: display.Display) -> None:
    if not is_result_alone:
        shown.out(as_json(outcome.as_dict()))
    elif outcome.state is State.DONE:
        shown.out(as_text(outcome.result))
    else:
        shown.say("pollkit: " + outcome.summary())
