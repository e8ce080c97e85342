"""submit --ledger: puts a job in a ledger, submits it, and leaves the wait to pollkit run."""

import argparse
import time
from typing import Any, Optional

from ...core.model import Job, one_line
from ...core.profiles.profile import Profile
from ...core.submitting.intent import Stage
from ...core.submitting.request import data_to_text
from ...core.waiting.wait_settings import LEDGER_DEFAULTS
from ...drivers.endpoints.client import Client
from ...drivers.ledger.submissions import LONGEST_REQUEST_S, LedgerSubmitter, Submitted
from ...drivers.submitter import Submitter
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.rows import job_to_row
from ..arguments import options
from ..arguments.job_deadlines import Deadlines, deadlines_text
from ..arguments.ledger_options import open_ledger
from ..commands.ledgers.status import job_as_dict
from ..exit_codes import ALL_DONE, exit_code
from ..output.outcome_text import wants_text
from ..output.streams import as_json, write, write_message

LONGEST_HOLD_S = 30.0  # if the rate limit delays the request for longer, pollkit run sends it


def submit_to_ledger(arguments: argparse.Namespace, profile: Profile, job: Job, data: Any) -> int:
    """Put a job in the ledger and submit it; return the exit code."""
    text = data_to_text(data)
    _check(arguments, profile, job, text)  # before a ledger is created
    with open_ledger(arguments, create=True) as ledger:
        bucket = options.bucket_from(arguments, profile.limit)
        client = Client(
            profile,
            headers=dict(arguments.header),
            bucket=bucket,
            shared_bucket_for=ledger.bucket,
            clock=ledger.clock,
            defaults=LEDGER_DEFAULTS,
            longest_request_s=LONGEST_REQUEST_S,
            profiles=arguments.profiles,
            save=arguments.save,
        )
        new_job, intent, endpoint = Submitter(client).new_intent(job, text, arguments.url)
        submitter = LedgerSubmitter(ledger, client)
        claim = ledger._intents.add(job_to_row(new_job), intent)
        try:
            attempt = submitter.prepare(claim)
            submitted = submitter.submit(claim, attempt, longest_hold_s=LONGEST_HOLD_S)
        except KeyboardInterrupt:
            write_message("interrupted: " + _after_interrupt(new_job, endpoint.profile))
            raise
        finally:
            client.close()
        _report(arguments, ledger, submitted)
    options.warn_about_secrets(arguments, write_message)
    return ALL_DONE if submitted.outcome is None else exit_code([submitted.outcome.state])


def _after_interrupt(job: Job, profile: Profile) -> str:
    if profile.idempotency_header is not None or profile.submit_lookup is not None:
        return "pollkit run completes the submission of " + job.id
    return "%s may have been submitted: pollkit run submits it only if no request was sent" % job.id


def _check(arguments: argparse.Namespace, profile: Profile, job: Job, text: Optional[str]) -> None:
    """Raise a ConfigError if the job can't be submitted, or can't be stored."""
    headers = dict(arguments.header)
    client = Client(profile, headers=headers, profiles=arguments.profiles, save=arguments.save)
    new_job, _, _ = Submitter(client).new_intent(job, text, arguments.url)
    job_to_row(new_job._replace(url=arguments.url))  # it may have a secret in it


def _report(arguments: argparse.Namespace, ledger: Ledger, submitted: Submitted) -> None:
    """Print the job: as JSON for programs, and in a sentence for people."""
    if not wants_text(arguments):
        (row,) = ledger.jobs(ids=[submitted.job.id])
        write(as_json(job_as_dict(row, ledger.outages(), Deadlines(arguments.profiles))))
    if arguments.quiet:
        return
    write_message(_sentence(submitted, Deadlines(arguments.profiles)))


def _sentence(submitted: Submitted, deadlines: Deadlines) -> str:
    job = submitted.job
    outcome = submitted.outcome
    if outcome is not None:
        return outcome.summary()
    intent = submitted.intent
    if intent.stage is Stage.KNOWN:
        now = time.time()
        when = deadlines_text([deadlines.deadline(job, now)], now)
        return "%s was submitted; %s" % (one_line(job.id), when)
    reason = one_line(intent.last_fault or "the rate limit delays it")
    if intent.stage is Stage.WRITTEN:
        return "%s is not submitted yet: %s; pollkit run will try again" % (job.id, reason)
    return "%s is perhaps submitted: %s; pollkit run will find out" % (job.id, reason)
