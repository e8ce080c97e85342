"""The lines about outages at the end of a run: one while it lasts, and one when it is over."""

import time
from typing import Iterator, List

from ...core.scheduling.outages import Outage
from ...core.units import rounded_duration
from ...edges.ledger.records import OutageReport
from ..output.streams import count_text


def outage_lines(reports: List[OutageReport], now: float) -> Iterator[str]:
    """One line per outage; `now` is wall-clock time."""
    for outage, jobs in reports:
        if outage.ended_at is None:
            text = "%s %s" % (outage.origin, down_text(outage, now))
            if jobs:
                text += "; %s %s" % (count_text(jobs, "job"), "waits" if jobs == 1 else "wait")
            yield text
        else:
            lasted = rounded_duration(outage.ended_at - outage.began_at)
            began = _time_text(outage.began_at, now)
            ended = _time_text(outage.ended_at, now)
            text = "%s is up again; it was down for %s, from %s to %s UTC"
            yield text % (outage.origin, lasted, began, ended)


def down_text(outage: Outage, now: float) -> str:
    """How long an origin has been down, and why."""
    began = _time_text(outage.began_at, now)
    lasted = rounded_duration(max(1.0, now - outage.began_at))
    return "has been down since %s UTC (%s): %s" % (began, lasted, outage.last_fault)


def _time_text(at: float, now: float) -> str:
    """The time of day in UTC, as `status` has it; with the date if it is not today."""
    moment = time.gmtime(at)
    is_today = time.gmtime(now)[:3] == moment[:3]
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", moment)
