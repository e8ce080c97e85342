"""Wait for one job and print its outcome: a short text on a terminal, JSON otherwise.

examples:
  pollkit wait https://api.internal/v1/jobs/42
  pollkit wait job_1 --profile knowhere --size 25
  pollkit wait job_1 --profile knowhere --timeout 10m --result > result.json
  pollkit wait job_1 --profile knowhere --save 'results/{id}.json'
  pollkit wait https://api.internal/v1/jobs/42 --token-env API_TOKEN --pace 'fixed 5s'
"""

import argparse

from ...core.urls import redact_url
from ...drivers.single import Poller
from ..arguments import options
from ..arguments.profile_options import profile_from
from ..arguments.save_options import add_save_option
from ..output.outcome_text import add_output_option
from ..progress.display import add_progress_options
from ..single_wait import WriteLine, wait_and_print


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "job", metavar="URL|ID", help="the URL of the job, or its id if a profile has the URL"
    )
    parser.add_argument(
        "--result", action="store_true", help="print only the result; if it is text, without quotes"
    )
    add_save_option(parser, "result.json")
    parser.add_argument(
        "--cancel-on-interrupt",
        action="store_true",
        help="on Ctrl-C, ask the API to cancel the job (cancel_url in the profile)",
    )
    add_output_option(parser)
    options.add_polling_options(parser)
    add_progress_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Wait for the job; return the exit code for its outcome."""
    profile = profile_from(arguments)
    job = options.job_from(arguments, arguments.job, profile)
    if arguments.cancel_on_interrupt:
        from ..interrupts import check_cancel_url  # late: few waits cancel their job

        check_cancel_url(profile, job)
    title = redact_url(job.id)

    def on_interrupt(poller: Poller, write_line: WriteLine) -> None:
        write_line("pollkit: interrupted: %s has not finished" % title)
        if arguments.cancel_on_interrupt:
            from ..interrupts import cancel_at_exit

            cancel_at_exit(poller, job, write_line)

    return wait_and_print(arguments, profile, title, lambda poller: poller.poll(job), on_interrupt)
