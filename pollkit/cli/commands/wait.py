"""Wait for one job and print its outcome: a short text on a terminal, JSON otherwise.

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
from .. import options
from ..exit_codes import exit_code
from ..outcome_text import add_output_option, outcome_summary, wants_text, whole_result
from ..output import as_json
from ..profile_options import profile_from
from ..progress.display import Display, add_progress_options, display_from


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "job", metavar="URL|ID", help="the URL of the job, or its id if a profile has the URL"
    )
    parser.add_argument(
        "--result", action="store_true", help="print only the result; if it is text, without quotes"
    )
    add_output_option(parser)
    options.add_polling_options(parser)
    add_progress_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Wait for the job; return the exit code for its outcome."""
    profile = profile_from(arguments)
    job = options.job_from(arguments, arguments.job, profile)
    title = redact_url(job.id)
    display = display_from(arguments, title=title, limit=profile.limit)
    # The history is saved last: the outcome matters more.
    with options.history_from(arguments, display.write_line) as history:
        with Poller(
            profile,
            headers=dict(arguments.header),
            on_event=display.on_event,
            bucket=options.bucket_from(arguments, profile.limit),
            history=history,
        ) as poller, display:
            try:
                outcome = poller.poll(job)
            except KeyboardInterrupt:
                display.write_line("pollkit: interrupted: %s has not finished" % title)
                raise
            options.warn_about_secrets(arguments, display.write_line)
        _print(outcome, arguments, display)
    return exit_code([outcome.state])


def _print(outcome: Outcome, arguments: argparse.Namespace, display: Display) -> None:
    if arguments.result and outcome.state is State.DONE:
        display.write_data(whole_result(outcome.result))
    elif arguments.result:
        display.write_line("pollkit: " + outcome.summary())
    elif wants_text(arguments):
        display.write_data(outcome_summary(outcome))
    else:
        display.write_data(as_json(outcome.as_dict()))
