"""Show what is in a ledger: counts by state, then a line for each job.

The exit code is 5 while jobs wait (leased: some run has them just now). Otherwise it is that of
the outcomes, as for pollkit batch. With ids or filters, only those jobs count.

A job's end is 'to be told' until a run with --exec or --outbox has told it.

examples:
  pollkit status jobs.db
  pollkit status jobs.db --state failed --state unreachable --rows 500
  pollkit status jobs.db job_1 --json
"""

import argparse
import sys
import time
from itertools import islice
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from ...core.model import State, iso_text, one_line
from ...core.units import NEVER, duration_text, percent
from ...edges.ledger import ledger as words
from ...edges.ledger.ledger import LEASED, JobRow, Ledger, Summary
from ...errors import ConfigError
from .. import options as flags
from .. import output
from ..exit_codes import WAITING, exit_code
from ..ledger_arguments import add_ids, add_ledger, listed, open_ledger

STATES = [words.WAITING, LEASED] + [state.value for state in State]
HEADS = ("ID", "STATE", "STATUS", "PROGRESS", "POLLS", "WHEN", "TOLD")
_WIDEST = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger(parser)
    add_ids(parser, "only these jobs")
    parser.add_argument(
        "--state",
        metavar="S",
        action="append",
        default=[],
        choices=STATES,
        help="only those in this state: %s; may be repeated" % ", ".join(STATES),
    )
    parser.add_argument("--profile", metavar="NAME", help="only those of this profile")
    parser.add_argument("--label", metavar="L", help="only those of this label")
    parser.add_argument(
        "--rows",
        metavar="N",
        type=flags.count,
        default=50,
        help="how many jobs to show in the table (default: 50)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object, with all of the jobs"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print it, and say by the exit code whether anything waits."""
    with open_ledger(arguments) as ledger:
        summary = _summary(arguments, ledger)
        rows = _rows(arguments, ledger)
        if arguments.json:
            _print_json(summary, rows)
        else:
            _print_table(summary, islice(rows, arguments.rows))
    return _code({state for state, count in summary.states.items() if count})


def _summary(arguments: argparse.Namespace, ledger: Ledger) -> Summary:
    """What is in the ledger; with ids or filters, of what they leave."""
    kind = {
        name: getattr(arguments, name)
        for name in ("profile", "label")
        if getattr(arguments, name) is not None
    }
    if kind and any(ledger.rows(outcomes=False)) and not any(ledger.rows(outcomes=False, **kind)):
        raise ConfigError(
            "no job in the ledger has " + " and ".join("%s %s" % pair for pair in kind.items())
        )
    if not arguments.ids:
        return ledger.summary(arguments.state, **kind)
    states, oldest_at, untold, gave_up = dict.fromkeys(STATES, 0), NEVER, 0, 0
    for row in _rows(arguments, ledger, outcomes=False):
        states[row.state] += 1
        if row.ended_at is None:
            oldest_at = min(oldest_at, row.added_at)
        untold += row.ended_at is not None and row.notified_at is None and not row.gave_up_notifying
        gave_up += row.gave_up_notifying
    return Summary(
        states, None if oldest_at == NEVER else max(0.0, time.time() - oldest_at), untold, gave_up
    )


def _rows(arguments: argparse.Namespace, ledger: Ledger, outcomes: bool = True) -> Iterator[JobRow]:
    ids = list(dict.fromkeys(arguments.ids))
    if ids:
        known = {row.job.id for row in ledger.rows(ids=ids, outcomes=False)}
        missing = [name for name in ids if name not in known]
        if missing:
            raise ConfigError("not in the ledger: " + listed(missing))
    return ledger.rows(arguments.state, arguments.profile, arguments.label, ids, outcomes)


def _code(states: Set[str]) -> int:
    if states & {words.WAITING, LEASED}:
        return WAITING
    return exit_code(State(state) for state in states)


def _headline(summary: Summary) -> str:
    counts = ["%d %s" % (count, _words(state)) for state, count in summary.states.items() if count]
    text = ", ".join(counts) or "no jobs"
    if summary.oldest_s is not None:
        text += "; the oldest waits for %s" % _age(summary.oldest_s)
    if summary.pending_notifications:
        text += "; %d end%s to be told" % (
            summary.pending_notifications,
            "s" * (summary.pending_notifications > 1),
        )
    if summary.gave_up_notifying:
        text += "; %d end%s could not be told" % (
            summary.gave_up_notifying,
            "s" * (summary.gave_up_notifying > 1),
        )
    return text + "\n"


def _print_table(summary: Summary, rows: Iterator[JobRow]) -> None:
    now = time.time()
    shown = [_cells(row, now) for row in rows]  # and not the rows, with their results
    output.write(_headline(summary))
    if shown:
        output.write("\n" + _table([HEADS] + shown))
    more = sum(summary.states.values()) - len(shown)
    if more > 0:
        output.write("... and %d more: --rows N shows more, --json all\n" % more)


def _table(cells: List[Tuple[str, ...]]) -> str:
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADS))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() + "\n"
        for line in cells
    )


def _cells(row: JobRow, now: float) -> Tuple[str, ...]:
    about = _about(row)
    fraction, status, error = about["progress"], about["status"], about["error"]
    if row.ended_at is not None:
        when = _age(now - row.ended_at) + " ago"
    else:
        when = "now" if row.due_at is None or row.due_at <= now else "in " + _age(row.due_at - now)
    status = status or ""
    if error and row.state != State.DONE.value:
        status += (": " if status else "") + str(error.get("message") or error.get("code") or "")
    return (
        _cut(row.job.id),
        _words(row.state),
        _cut(status) or "-",
        "-" if fraction is None else "%d%%" % percent(fraction),
        str(about["polls"]),
        when,
        _told(row),
    )


def _told(row: JobRow) -> str:
    if row.ended_at is None:
        return "-"
    if row.notified_at is not None:
        return "yes"
    text = "gave up" if row.gave_up_notifying else "to be told"
    return text + (
        " (try %d: %s)" % (row.notify_attempts, _cut(row.notify_error)) if row.notify_error else ""
    )


def _about(row: JobRow) -> Dict[str, Any]:
    """What is known of a job, whether its wait is under way or over."""
    if row.outcome is not None:
        return {field: row.outcome.get(field) for field in ("status", "progress", "polls", "error")}
    saved = row.progress
    return {
        "status": saved.get("status"),
        "progress": saved.get("fraction"),
        "polls": saved.get("polls", 0),
        "error": None,
    }


def _print_json(summary: Summary, rows: Iterator[JobRow]) -> None:
    head = output.as_json(
        {
            "states": summary.states,
            "oldest_s": summary.oldest_s,
            "untold": summary.pending_notifications,
            "gave_up_telling": summary.gave_up_notifying,
        }
    ).rstrip("\n")
    sys.stdout.write(head[:-1] + ', "jobs": [')
    for number, row in enumerate(rows):
        sys.stdout.write((",\n " if number else "\n ") + output.as_json(_as_dict(row)).rstrip("\n"))
    sys.stdout.write("]}\n")


def _as_dict(row: JobRow) -> Dict[str, Any]:
    job, about = row.job, _about(row)
    return {
        "id": job.id,
        "url": job.url,
        "profile": job.profile,
        "label": job.label,
        "size": job.size,
        "metadata": job.metadata,
        "state": row.state,
        "status": about["status"],
        "progress": about["progress"],
        "polls": about["polls"],
        "added_at": iso_text(row.added_at),
        "due_at": _iso(row.due_at),
        # With the id it names an end, so it is the one that was told.
        "ended_at": (row.outcome or {}).get("ended_at") or _iso(row.ended_at),
        "told_at": _iso(row.notified_at),
        "tells": row.notify_attempts,
        "tell_error": row.notify_error,
        "gave_up_telling": row.gave_up_notifying,
        "outcome": row.outcome,
    }


def _iso(at: Optional[float]) -> Optional[str]:
    return None if at is None else iso_text(at)


def _words(state: str) -> str:
    return state.replace("_", " ")


def _age(age_s: float) -> str:
    """Roughly how long: days, or the two largest units."""
    age_s = max(0.0, age_s)
    if age_s >= 2 * 86400:
        return "%dd" % (age_s // 86400)
    return duration_text(float(int(age_s // 60 * 60 if age_s >= 3600 else age_s)))


def _cut(text: Optional[str]) -> str:
    return one_line(text or "", _WIDEST)
