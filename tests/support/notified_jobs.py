"""Finished jobs for the tests of the notifier, and what became of their notifications."""

import os

import ledger_shell
from ledger_host import poll_job
from pollkit.core.reading.verdict import Verdict


def finish_jobs(ledger, *jobs, **reading):
    """Add jobs that have just finished."""
    ledger.add(jobs)
    for claim in ledger._leases.claim(len(jobs)):
        verdict = Verdict.FAILED if claim.job.id.startswith("bad") else Verdict.DONE
        poll_job(ledger, claim, verdict, **reading)


def script(place, text, name="notify"):
    return ledger_shell.script(text, os.path.join(place, name))


def notified(ledger):
    return {row.job.id: row.notified_at is not None for row in ledger.jobs()}
