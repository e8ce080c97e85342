"""Show the jobs of a ledger: counts by state, then one line per job.

The exit code is 5 while jobs wait (leased: a run is polling them). Otherwise it is that of the
outcomes, as for pollkit batch. With ids or filters, only those jobs count.

The notification of a finished job is 'pending' until a run with --exec or --outbox delivers it.

examples:
  pollkit status jobs.db
  pollkit status jobs.db --state failed --state unreachable --rows 500
  pollkit status jobs.db job_1 --json
"""

import argparse
import sys
import time
from itertools import islice
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ...core.model import State, iso_text, one_line
from ...core.units import duration_text, percent
from ...edges.ledger import records as states
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import JobRow, Summary
from ...errors import ConfigError
from .. import output
from ..argument_types import count
from ..exit_codes import WAITING, exit_code
from ..ledger_options import add_ids, add_ledger, open_ledger

UNFINISHED = (states.WAITING, states.LEASED)
STATES = list(UNFINISHED) + [state.value for state in State]
HEADINGS = ("ID", "STATE", "STATUS", "PROGRESS", "POLLS", "WHEN", "NOTIFIED")
WIDEST_CELL = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_ledger(parser)
    add_ids(parser, "only these jobs")
    parser.add_argument(
        "--state",
        metavar="S",
        action="append",
        default=[],
        choices=STATES,
        help="only jobs in this state: %s; may be repeated" % ", ".join(STATES),
    )
    parser.add_argument("--profile", metavar="NAME", help="only jobs with this profile")
    parser.add_argument("--label", metavar="L", help="only jobs with this label")
    parser.add_argument(
        "--rows",
        metavar="N",
        type=count,
        default=50,
        help="how many jobs to show in the table (default: 50)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object with all of the jobs"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the jobs; return 5 if any of them waits, otherwise the code of the outcomes."""
    with open_ledger(arguments) as ledger:
        _check_filters(arguments, ledger)
        summary = _summary(arguments, ledger)
        rows = _rows(arguments, ledger)
        if arguments.json:
            _print_json(summary, rows)
        else:
            _print_table(summary, islice(rows, arguments.rows))
    present = [state for state, number in summary.states.items() if number]
    if any(state in UNFINISHED for state in present):
        return WAITING
    return exit_code(State(state) for state in present)


def _check_filters(arguments: argparse.Namespace, ledger: Ledger) -> None:
    """Raise ConfigError if an id, the profile or the label is not in the ledger."""
    kind = {"profile": arguments.profile, "label": arguments.label}
    kind = {name: value for name, value in kind.items() if value is not None}
    if kind and any(ledger.rows(outcomes=False)) and not any(ledger.rows(outcomes=False, **kind)):
        names = ["%s %s" % pair for pair in kind.items()]
        raise ConfigError("no job in the ledger has " + " and ".join(names))
    if arguments.ids:
        known = {row.job.id for row in ledger.rows(ids=arguments.ids, outcomes=False)}
        missing = [name for name in dict.fromkeys(arguments.ids) if name not in known]
        if missing:
            raise ConfigError("not in the ledger: " + output.join_names(missing))


def _rows(arguments: argparse.Namespace, ledger: Ledger, outcomes: bool = True) -> Iterator[JobRow]:
    ids = list(dict.fromkeys(arguments.ids))
    return ledger.rows(arguments.state, arguments.profile, arguments.label, ids, outcomes)


def _summary(arguments: argparse.Namespace, ledger: Ledger) -> Summary:
    """The counts of the jobs that the ids and filters select."""
    if not arguments.ids:
        return ledger.summary(arguments.state, arguments.profile, arguments.label)
    rows = list(_rows(arguments, ledger, outcomes=False))
    counts = dict.fromkeys(STATES, 0)
    for row in rows:
        counts[row.state] += 1
    added_at = [row.added_at for row in rows if row.ended_at is None]
    return Summary(
        counts,
        max(0.0, time.time() - min(added_at)) if added_at else None,
        sum(_is_pending(row) for row in rows),
        sum(row.gave_up_notifying for row in rows),
    )


def _is_pending(row: JobRow) -> bool:
    return row.ended_at is not None and row.notified_at is None and not row.gave_up_notifying


def _print_table(summary: Summary, rows: Iterator[JobRow]) -> None:
    now = time.time()
    lines = [_cells(row, now) for row in rows]  # a row's result may be large: don't keep it
    output.write(_headline(summary))
    if lines:
        output.write("\n" + _table([HEADINGS] + lines))
    more = sum(summary.states.values()) - len(lines)
    if more > 0:
        output.write("... and %d more: --rows N shows more, --json all\n" % more)


def _headline(summary: Summary) -> str:
    counts = [
        "%d %s" % (number, _state_text(state)) for state, number in summary.states.items() if number
    ]
    parts = [", ".join(counts) or "no jobs"]
    if summary.oldest_s is not None:
        parts.append("the oldest has waited for %s" % _age(summary.oldest_s))
    notifications = {
        "pending": summary.pending_notifications,
        "given up": summary.gave_up_notifying,
    }
    for state, number in notifications.items():
        if number:
            parts.append("%s %s" % (output.count_text(number, "notification"), state))
    return "; ".join(parts) + "\n"


def _table(lines: List[Tuple[str, ...]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() + "\n"
        for line in lines
    )


def _cells(row: JobRow, now: float) -> Tuple[str, ...]:
    progress = _progress(row)
    fraction = progress["progress"]
    return (
        _truncate(row.job.id),
        _state_text(row.state),
        _truncate(_status_text(row, progress)) or "-",
        "-" if fraction is None else "%d%%" % percent(fraction),
        str(progress["polls"]),
        _when_text(row, now),
        _notified_text(row),
    )


def _status_text(row: JobRow, progress: Dict[str, Any]) -> str:
    """The job's status and, unless the job is done, its error."""
    parts = [progress["status"]]
    error = progress["error"]
    if error and row.state != State.DONE.value:
        parts.append(error.get("message") or error.get("code"))
    return ": ".join(str(part) for part in parts if part)


def _when_text(row: JobRow, now: float) -> str:
    """When the job finished, or when its next poll is due."""
    if row.ended_at is not None:
        return _age(now - row.ended_at) + " ago"
    if row.due_at is None or row.due_at <= now:
        return "now"
    return "in " + _age(row.due_at - now)


def _notified_text(row: JobRow) -> str:
    if row.ended_at is None:
        return "-"
    if row.notified_at is not None:
        return "yes"
    text = "gave up" if row.gave_up_notifying else "pending"
    if row.notify_error:
        text += " (attempt %d: %s)" % (row.notify_attempts, _truncate(row.notify_error))
    return text


def _progress(row: JobRow) -> Dict[str, Any]:
    """Status, progress, polls and error of a job, whether it has finished or not."""
    if row.outcome is not None:
        return {field: row.outcome.get(field) for field in ("status", "progress", "polls", "error")}
    return {
        "status": row.progress.get("status"),
        "progress": row.progress.get("fraction"),
        "polls": row.progress.get("polls", 0),
        "error": None,
    }


def _print_json(summary: Summary, rows: Iterator[JobRow]) -> None:
    """Print one object, job by job: all of them may not fit into memory."""
    head = {
        "states": summary.states,
        "oldest_s": summary.oldest_s,
        "untold": summary.pending_notifications,
        "gave_up_telling": summary.gave_up_notifying,
    }
    sys.stdout.write(output.as_json(head).rstrip("\n")[:-1] + ', "jobs": [')
    separator = "\n "
    for row in rows:
        sys.stdout.write(separator + output.as_json(_as_dict(row)).rstrip("\n"))
        separator = ",\n "
    sys.stdout.write("]}\n")


def _as_dict(row: JobRow) -> Dict[str, Any]:
    job = row.job
    progress = _progress(row)
    return {
        "id": job.id,
        "url": job.url,
        "profile": job.profile,
        "label": job.label,
        "size": job.size,
        "metadata": job.metadata,
        "state": row.state,
        "status": progress["status"],
        "progress": progress["progress"],
        "polls": progress["polls"],
        "added_at": iso_text(row.added_at),
        "due_at": _iso_or_none(row.due_at),
        # The same instant as in the notification: with the id, it identifies the outcome.
        "ended_at": (row.outcome or {}).get("ended_at") or _iso_or_none(row.ended_at),
        "told_at": _iso_or_none(row.notified_at),
        "tells": row.notify_attempts,
        "tell_error": row.notify_error,
        "gave_up_telling": row.gave_up_notifying,
        "outcome": row.outcome,
    }


def _iso_or_none(at: Optional[float]) -> Optional[str]:
    return None if at is None else iso_text(at)


def _state_text(state: str) -> str:
    return state.replace("_", " ")


def _age(age_s: float) -> str:
    """A rounded duration: days, or the two largest units."""
    age_s = max(0.0, age_s)
    if age_s >= 2 * 86400:
        return "%dd" % (age_s // 86400)
    if age_s >= 3600:
        age_s = age_s // 60 * 60
    return duration_text(float(int(age_s)))


def _truncate(text: Optional[str]) -> str:
    return one_line(text or "", WIDEST_CELL)
