"""Ask the API to cancel jobs of a ledger.

The profile of a job says how (cancel_url). The API may take a while, or refuse: the next polls of
pollkit run show it. A job that was cancelled finishes as cancelled. One that was done or failed
before finishes as that.

examples:
  pollkit cancel jobs.db job_1 job_2
  pollkit cancel jobs.db job_1 --token-env API_TOKEN
"""

import argparse
from typing import Iterator, List, Tuple

from ....core.model import Job
from ....drivers.endpoints.cancelling import send_cancel
from ....drivers.endpoints.client import Client
from ....edges.ledger.ledger import Ledger
from ....edges.ledger.records import LEASED, WAITING
from ....errors import ConfigError, PollkitError
from ...arguments import options
from ...arguments.ledger_options import add_ids, add_ledger, open_ledger
from ...arguments.profile_options import profile_from
from ...exit_codes import ALL_DONE, UNREACHABLE
from ...output.streams import count_text, join_names, write_message


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_ledger(parser)
    add_ids(parser, "the ids of the jobs")
    options.add_polling_options(parser, many_jobs=True, from_ledger=True)
    parser.add_argument("--quiet", action="store_true", help="don't print what was asked for")


def run(arguments: argparse.Namespace) -> int:
    """Ask the API to cancel each job; return the exit code."""
    if not arguments.ids:
        raise ConfigError("give the jobs' ids: see pollkit cancel --help")
    with open_ledger(arguments) as ledger:
        jobs = _waiting_jobs(ledger, arguments.ids)
        client = Client(
            profile_from(arguments),
            clock=ledger.clock,
            bucket=options.bucket_from(arguments, arguments.limit),
            shared_bucket_for=ledger.bucket,
            **options.overrides_from(arguments),
        )
        sent = []
        code = ALL_DONE
        for job, problem in _cancel(client, jobs):
            if problem:
                write_message(problem)
                code = UNREACHABLE
            else:
                ledger.mark_cancel_requested([job.id])
                sent.append(job.id)
        client.close()
    if sent and not arguments.quiet:
        write_message("asked the API to cancel %s; pollkit run shows the result" % join_names(sent))
    return code


def _waiting_jobs(ledger: Ledger, ids: List[str]) -> List[Job]:
    """The jobs, all of them or none: a ConfigError names those that can't be cancelled."""
    rows = list(ledger.jobs(ids=list(dict.fromkeys(ids)), outcomes=False))
    known = {row.job.id for row in rows}
    missing = [name for name in ids if name not in known]
    if missing:
        raise ConfigError("not in the ledger, so nothing was sent: " + join_names(missing))
    finished = [row.job.id for row in rows if row.state not in (WAITING, LEASED)]
    if finished:
        raise ConfigError(
            "%s already, so nothing was sent: %s"
            % (count_text(len(finished), "job") + " finished", join_names(finished))
        )
    unsubmitted = [row.job.id for row in rows if row.submission is not None]
    if unsubmitted:
        raise ConfigError(
            "not submitted yet, or not confirmed by the API, so nothing was sent: %s; let pollkit "
            "run submit it first, or remove it with pollkit forget" % join_names(unsubmitted)
        )
    return [row.job for row in rows]


def _cancel(client: Client, jobs: List[Job]) -> Iterator[Tuple[Job, str]]:
    """Send the requests; yield each job, and the problem if there was one."""
    targets = [client.locate(job) for job in jobs]
    for target in targets:
        try:
            target.endpoint.cancel_request(target.job, target.url)
        except ConfigError as error:
            raise ConfigError("%s; pollkit forget stops polling it" % error) from None
    for job, target in zip(jobs, targets):
        try:
            send_cancel(target, client.clock)
            yield job, ""
        except PollkitError as error:
            yield job, str(error)
