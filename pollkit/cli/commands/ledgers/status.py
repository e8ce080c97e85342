"""Show the jobs of a ledger: outages, scarce limits, counts by state, then one line per job.

The exit code is 5 while jobs wait (leased: a run is polling them). Otherwise it is that of the
outcomes, as for pollkit batch. With ids or filters, only those jobs count: --state failed exits
with 0 if no job failed, although others may still wait.

The table leaves out columns in which no job has a value and, on a narrow terminal, the less
important ones. PROBLEM is the fault of the last poll, the error of the job, or why its notification
failed. The notification of a finished job is 'pending' until a run with --exec or --outbox
delivers it. --json has everything: see pollkit help cron and pollkit help schema.

On PostgreSQL, the first line names a transaction that has been open for over 5 minutes, because it
makes claims slow.

examples:
  pollkit status jobs.db
  pollkit status jobs.db --state failed --state unreachable --rows 500
  pollkit status jobs.db job_1 --json
  pollkit status jobs.db --watch
  pollkit status jobs.db --summary --watch 1m >> status.log
"""

import argparse
import os
import sys
import time
from itertools import islice
from typing import Any, Dict, Iterator, List, Optional, Sequence

from ....core.model import State, iso_text
from ....core.scheduling.outages import Outage
from ....core.units import to_seconds
from ....edges.ledger.ledger import STATES, Ledger
from ....edges.ledger.records import LEASED, WAITING, JobRow, Summary
from ....errors import ConfigError, LedgerError
from ...arguments.argument_types import count
from ...arguments.job_deadlines import Deadlines
from ...arguments.ledger_options import add_ids, add_ledger, open_ledger
from ...arguments.save_options import missing_result_code
from ...exit_codes import WAITING as JOBS_WAIT
from ...exit_codes import combine_exit_codes, exit_code
from ...output import streams
from ...output.status_text import (
    StatusFigures,
    headline,
    job_cells,
    job_deadline,
    job_progress,
    job_table,
    last_poll_failed,
    next_poll_at,
    wrap_lines,
)
from ...output.tables import terminal_width
from ...progress.terminal import Terminal, can_draw, size_of, style_for

UNFINISHED = (WAITING, LEASED)
WATCH_S = 2.0
SHORTEST_WATCH_S = 0.1


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
        "--summary", action="store_true", help="only the outages and counts, without the jobs"
    )
    parser.add_argument(
        "--watch",
        metavar="D",
        nargs="?",
        type=_interval,
        const=WATCH_S,
        help="show it again every 2s, or after this time, until Ctrl-C; without a terminal, "
        "print the summary each time",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object with all of the jobs"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the jobs; return 5 if any of them waits, otherwise the code of the outcomes."""
    if arguments.json and arguments.watch is not None:
        raise ConfigError("--watch shows text: leave out --json, or call status --json repeatedly")
    with open_ledger(arguments) as ledger:
        _check_filters(arguments, ledger)
        view = _StatusView(arguments, ledger)
        if arguments.watch is not None:
            view.watch(arguments.watch)
        summary = view.summary()
        if arguments.json:
            view.print_json(summary)
        else:
            streams.write("\n".join(view.lines(summary, terminal_width())) + "\n")
        present = [state for state, number in summary.states.items() if number]
        if any(state in UNFINISHED for state in present):
            return JOBS_WAIT
        codes = [exit_code(State(state) for state in present)]
        if State.DONE.value in present:
            codes += view.missing_result_codes()
    return combine_exit_codes(codes)


def _interval(text: str) -> float:
    try:
        interval = to_seconds(text)
    except ConfigError as error:
        raise ConfigError("%s; if it is the ledger, write it before --watch" % error) from None
    if interval < SHORTEST_WATCH_S:
        raise ConfigError("%s is too short: write 100ms or more" % text)
    return interval


def _check_filters(arguments: argparse.Namespace, ledger: Ledger) -> None:
    """Raise ConfigError if an id, the profile or the label is not in the ledger."""
    kind = {"profile": arguments.profile, "label": arguments.label}
    kind = {name: value for name, value in kind.items() if value is not None}
    if kind and any(ledger.jobs(outcomes=False)) and not any(ledger.jobs(outcomes=False, **kind)):
        names = ["%s %s" % pair for pair in kind.items()]
        raise ConfigError("no job in the ledger has " + " and ".join(names))
    if arguments.ids:
        known = {row.job.id for row in ledger.jobs(ids=arguments.ids, outcomes=False)}
        missing = [name for name in dict.fromkeys(arguments.ids) if name not in known]
        if missing:
            raise ConfigError("not in the ledger: " + streams.join_names(missing))


class _StatusView:
    """Reads the jobs that the arguments select, and formats them."""

    def __init__(self, arguments: argparse.Namespace, ledger: Ledger) -> None:
        self._arguments = arguments
        self._ledger = ledger
        self._deadlines = Deadlines()
        self._figures = StatusFigures(ledger)

    def summary(self) -> Summary:
        """The counts of the jobs that the ids and filters select."""
        arguments = self._arguments
        if not arguments.ids:
            return self._ledger.summary(arguments.state, arguments.profile, arguments.label)
        rows = list(self._rows(outcomes=False))
        counts = dict.fromkeys(STATES, 0)
        for row in rows:
            counts[row.state] += 1
        added_at = [row.added_at for row in rows if row.ended_at is None]
        return Summary(
            counts,
            max(0.0, time.time() - min(added_at)) if added_at else None,
            sum(_notified(row) == "no" and row.ended_at is not None for row in rows),
            sum(row.gave_up_notifying for row in rows),
            sum(last_poll_failed(row) for row in rows),
        )

    def missing_result_codes(self) -> List[int]:
        """The exit codes for the selected jobs that are done, but whose result is missing."""
        arguments = self._arguments
        jobs = self._ledger._storage.jobs
        ids = jobs.ids_with_missing_results(arguments.profile, arguments.label)
        if arguments.ids:
            selected = set(arguments.ids)
            ids = [job_id for job_id in ids if job_id in selected]
        if not ids:
            return []  # without ids, `jobs` would return all
        errors = [(row.outcome or {}).get("error") for row in self._ledger.jobs(ids=ids)]
        return [missing_result_code(error["code"]) for error in errors if error is not None]

    def lines(
        self, summary: Summary, width: Optional[int], most: Optional[int] = None
    ) -> List[str]:
        """The outages, the counts and the table; at most so many lines."""
        now = time.time()
        outages = self._ledger.outages()
        lines = self._headline(summary, outages, now, width)
        if any(summary.states.values()):
            lines += self._figure_lines(now, width)
        if self._arguments.summary:
            return lines[:most]
        rows_shown = self._arguments.rows
        if most is not None:
            rows_shown = max(0, min(rows_shown, most - len(lines) - 3))
        # Only the cells are kept: the result of a job may be large.
        rows = islice(self._rows(), rows_shown)
        cells = [job_cells(row, outages, self._deadlines, now) for row in rows]
        if cells:
            lines += [""] + job_table(cells, width)
        more = sum(summary.states.values()) - len(cells)
        if more > 0:
            lines.append("... and %d more: --rows N shows more, --json all" % more)
        return lines[:most]

    def _headline(
        self, summary: Summary, outages: Sequence[Outage], now: float, width: Optional[int] = None
    ) -> List[str]:
        """The lines before the figures: what slows down the server, outages, limits, counts."""
        lines = headline(summary, outages, now, width, self._ledger.shadow_prices())
        return wrap_lines(self._server_lines(), width) + lines

    def _server_lines(self) -> List[str]:
        """The line about an old transaction, in the words of pollkit doctor."""
        try:
            oldest_s = self._ledger.oldest_transaction_s()
        except LedgerError:
            return []  # the user may not read pg_stat_activity
        if oldest_s == 0:
            return []  # as always with a file
        from ....drivers.doctor.ledger_findings import vacuum_finding  # late: seldom needed

        finding = vacuum_finding(oldest_s)
        return [] if finding is None else ["%s; %s" % (finding.text, finding.advice)]

    def _figure_lines(self, now: float, width: Optional[int]) -> List[str]:
        """The figures of the whole ledger, unless only some of its jobs are shown."""
        arguments = self._arguments
        if arguments.ids or arguments.state or arguments.profile or arguments.label:
            return []
        found = self._figures.lines(now, style_for(sys.stdout, os.environ).unicode)
        return wrap_lines(found, width)

    def watch(self, every_s: float) -> None:
        """Show the status again and again, until a signal raises KeyboardInterrupt."""
        if can_draw(sys.stdout, os.environ):
            self._redraw(every_s)
        while True:
            now = time.time()
            lines = self._headline(self.summary(), self._ledger.outages(), now)
            streams.write("%s %s\n" % (iso_text(now), "; ".join(lines)))
            sys.stdout.flush()
            time.sleep(every_s)

    def _redraw(self, every_s: float) -> None:
        """Draw in place, at the present size of the terminal; the last drawing stays."""
        terminal = Terminal(sys.stdout)
        lines: List[str] = []
        try:
            while True:
                size = size_of(sys.stdout)
                lines = self.lines(self.summary(), size.columns - 1, size.lines - 1)
                terminal.draw([streams.make_encodable(line) for line in lines])
                time.sleep(every_s)
        finally:
            terminal.clear()
            streams.write("".join(line + "\n" for line in lines))

    def print_json(self, summary: Summary) -> None:
        """Print one object, job by job: all of them may not fit into memory."""
        outages = self._ledger.outages()
        head = {"summary": summary.states, "outages": [_outage_as_dict(one) for one in outages]}
        rows = self._rows()
        if self._arguments.summary:
            rows = iter(())
        sys.stdout.write(streams.as_json(head).rstrip("\n")[:-1] + ', "jobs": [')
        separator = "\n "
        for row in rows:
            job = job_as_dict(row, outages, self._deadlines)
            sys.stdout.write(separator + streams.as_json(job).rstrip("\n"))
            separator = ",\n "
        sys.stdout.write("]}\n")

    def _rows(self, outcomes: bool = True) -> Iterator[JobRow]:
        arguments = self._arguments
        ids = list(dict.fromkeys(arguments.ids))
        return self._ledger.jobs(arguments.state, arguments.profile, arguments.label, ids, outcomes)


def job_as_dict(row: JobRow, outages: Sequence[Outage], deadlines: Deadlines) -> Dict[str, Any]:
    """A job as JSON data."""
    job = row.job
    progress = job_progress(row)
    return {
        "id": job.id,
        "profile": job.profile,
        "label": job.label,
        "metadata": job.metadata,
        "state": row.state,
        "status": progress["status"],
        "progress": progress["progress"],
        "polls": progress["polls"],
        "faults": progress["faults"],
        "last_fault": row.last_fault,
        "added_at": iso_text(row.added_at),
        "deadline": _iso_or_none(job_deadline(row, deadlines)),
        "next_poll_at": _iso_or_none(next_poll_at(row, outages)),
        # The same instant as in the notification: with the id, it identifies the outcome.
        "ended_at": (row.outcome or {}).get("ended_at") or _iso_or_none(row.ended_at),
        "outcome": row.outcome,
        "notified": _notified(row),
        "notify_error": row.notify_error,
    }


def _outage_as_dict(outage: Outage) -> Dict[str, Any]:
    return {
        "origin": outage.origin,
        "since": iso_text(outage.began_at),
        "last_fault": outage.last_fault,
    }


def _notified(row: JobRow) -> str:
    if row.notified_at is not None:
        return "yes"
    return "gave_up" if row.gave_up_notifying else "no"


def _iso_or_none(at: Optional[float]) -> Optional[str]:
    return None if at is None else iso_text(at)
