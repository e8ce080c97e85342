"""run --dry-run: prints a preview of a run, and changes nothing."""

import argparse
import os
from typing import Iterator, Optional, Union

from ...core.profiles.profile import Profile
from ...core.units import Limit, rounded_duration
from ...core.waiting.wait_settings import LEDGER_DEFAULTS
from ...drivers.endpoints.client import Client
from ...drivers.ledger.run_preview import DueJobs, RunPreview, preview_run
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.opening import open_storage
from ...edges.ledger.places import is_database
from ...edges.limits.shared_bucket import copy_bucket
from ...edges.limits.token_bucket import TokenBucket
from ..arguments import options
from ..exit_codes import USAGE
from ..output.streams import count_text, write
from .outages import down_text


def dry_run(
    arguments: argparse.Namespace, ledger: Ledger, profile: Profile, limit: Union[Limit, str, None]
) -> int:
    """Print a preview of the run with these arguments; return the exit code."""
    client = Client(
        profile,
        bucket=_bucket(arguments, ledger, limit),
        shared_bucket_for=lambda limit, name: copy_bucket(
            ledger._storage, limit, name, ledger.clock
        ),
        clock=ledger.clock,
        defaults=LEDGER_DEFAULTS,
        **options.overrides_from(arguments),
    )
    preview = preview_run(ledger, client, arguments.for_s, arguments.once)
    lines = [_jobs_text(preview)]
    lines += [_due_text(group, ledger.clock.wall()) for group in preview.due]
    lines += ["can't be polled: %s" % reason for reason in preview.unpollable]
    lines += _notification_lines(arguments, ledger)
    write("\n".join(lines) + "\n")
    return USAGE if preview.unpollable else 0


def _bucket(
    arguments: argparse.Namespace, ledger: Ledger, limit: Union[Limit, str, None]
) -> Optional[TokenBucket]:
    """A copy of the limit in the file of --bucket."""
    if arguments.bucket is None:
        return None
    if not is_database(arguments.bucket) and not os.path.exists(arguments.bucket):
        return TokenBucket(limit, clock=ledger.clock)
    storage = open_storage(arguments.bucket, ledger.clock, create=False)
    try:
        return copy_bucket(storage, limit, "default", ledger.clock)
    finally:
        storage.close()


def _jobs_text(preview: RunPreview) -> str:
    jobs = preview.waiting + preview.leased
    if jobs == 0:
        return "no job waits"
    due = sum(group.jobs for group in preview.due)
    due += sum(reason.jobs for reason in preview.unpollable)
    text = "%s %s: %d due now" % (count_text(jobs, "job"), "waits" if jobs == 1 else "wait", due)
    if preview.leased:
        text += ", %d polled by other runs" % preview.leased
    if preview.next_due_in_s is not None:
        text += ", the next one in " + rounded_duration(preview.next_due_in_s)
    return text


def _due_text(group: DueJobs, now: float) -> str:
    text = group.origin
    if group.profile is not None:
        text += " (profile %s)" % group.profile
    text += ": %d due, " % group.jobs
    if group.outage is not None:
        probe_in_s = max(0.0, group.outage.next_probe_at - now)
        text += "held back, because it " + down_text(group.outage, now)
        return text + "; the next probe is in " + rounded_duration(probe_in_s)
    held_back = group.jobs - group.polled
    if held_back:
        return text + "%d would be polled; the rate limit holds back %d" % (group.polled, held_back)
    return text + "%d would be polled" % group.polled


def _notification_lines(arguments: argparse.Namespace, ledger: Ledger) -> Iterator[str]:
    pending = ledger.summary().pending_notifications
    next_at = ledger._notifications.next_at()
    if next_at is None:
        return
    in_s = max(0.0, next_at - ledger.clock.now())
    when = "in " + rounded_duration(in_s) if in_s else "now"
    text = "%s pending, the first is due %s" % (count_text(pending, "notification"), when)
    if arguments.program is None and arguments.outbox is None:
        text += "; a run without --exec and --outbox sends none"
    yield text
