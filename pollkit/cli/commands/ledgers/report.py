"""Write a report about the jobs of a ledger: one HTML page, with everything it needs inside.

The page opens from any folder or file share, without a network. It shows the jobs on a timeline,
the requests per minute against the limit, notice delays, durations, failures and outages. All
times are in UTC. With --serve, a browser on this host can follow a run: each visit reads the ledger
again. --from reports the outcomes that a batch has printed.

examples:
  pollkit report jobs.db -o report.html
  pollkit report jobs.db -o report.html --since 24h --label small --open
  pollkit report --from outcomes.jsonl -o report.html
  pollkit report jobs.db --serve 127.0.0.1:8099
"""

import argparse
import os
import time
from typing import Optional

from ....core.units import to_seconds
from ....edges.files import is_sqlite_file, replace_file
from ....edges.ledger.ledger import Ledger
from ....errors import ConfigError
from ...arguments import argument_types
from ...arguments.ledger_options import open_ledger
from ...exit_codes import ALL_DONE
from ...output.streams import count_text, write_message
from ...report.loading import Selection, read_ledger, read_outcomes
from ...report.page import report_page
from ...report.records import ReportData


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "ledger", metavar="LEDGER", nargs="?", type=argument_types.path, help="the ledger's file"
    )
    parser.add_argument(
        "--from",
        dest="outcomes",
        metavar="FILE|-",
        type=argument_types.path,
        help="report outcomes instead: from a file or standard input, one JSON object per line",
    )
    parser.add_argument(
        "-o", dest="page", metavar="FILE", type=argument_types.path, help="the page to write"
    )
    parser.add_argument(
        "--since",
        metavar="D",
        type=to_seconds,
        help="only jobs that waited in the last D: 90m, 24h, 7d",
    )
    parser.add_argument(
        "--label", metavar="L", type=argument_types.label, help="only jobs with this label"
    )
    parser.add_argument(
        "--serve",
        metavar="ADDRESS",
        help="serve the page to browsers on this host instead, as in 127.0.0.1:8099, until Ctrl-C",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def run(arguments: argparse.Namespace) -> int:
    """Write the page, or serve it."""
    _check(arguments)
    if arguments.serve is not None:
        from ...report.server import serve_page

        with open_ledger(arguments) as ledger:
            serve_page(
                arguments.serve,
                lambda refresh_s: report_page(_read(arguments, ledger), refresh_s),
                _open_in_browser if arguments.open else None,
            )
        return ALL_DONE
    if arguments.outcomes is not None:
        data = read_outcomes(arguments.outcomes, _selection(arguments))
    else:
        with open_ledger(arguments) as ledger:
            data = _read(arguments, ledger)
    _check_jobs(arguments, data)
    path = arguments.page
    try:
        replace_file(path, report_page(data), 0o644)
    except OSError as error:
        raise ConfigError("can't write %s: %s" % (path, error.strerror or error)) from None
    write_message("%s has %s" % (path, count_text(len(data.jobs), "job")))
    if arguments.open:
        from pathlib import Path

        _open_in_browser(Path(os.path.abspath(path)).as_uri())
    return ALL_DONE


def _check(arguments: argparse.Namespace) -> None:
    if (arguments.ledger is None) == (arguments.outcomes is None):
        raise ConfigError("name either a LEDGER or a file of outcomes (--from FILE)")
    if (arguments.page is None) == (arguments.serve is None):
        raise ConfigError("where to? Give either -o report.html or --serve 127.0.0.1:8099")
    if arguments.serve is not None and arguments.outcomes is not None:
        raise ConfigError("--serve shows a ledger: write the outcomes to a file with -o")
    if arguments.page is not None:
        _check_page(arguments.page, arguments.outcomes)


def _check_page(path: str, outcomes: Optional[str]) -> None:
    if path == "-":
        raise ConfigError("-o - is not a file: name one, as report.html")
    if not os.path.exists(path):
        return
    if not os.path.isfile(path):
        raise ConfigError("-o: %s is not an ordinary file: name another" % path)
    if is_sqlite_file(path):
        raise ConfigError("-o: %s is a ledger or another database: name another file" % path)
    if outcomes is not None and os.path.realpath(outcomes) == os.path.realpath(path):
        raise ConfigError("-o: %s has the outcomes to report: name another file" % path)


def _check_jobs(arguments: argparse.Namespace, data: ReportData) -> None:
    """Refuse a page without jobs if an argument is probably mistyped."""
    if not data.jobs and data.skipped_lines:
        raise ConfigError(
            "%s has no outcomes to report: is it the output of pollkit batch?" % arguments.outcomes
        )
    if not data.jobs and arguments.label is not None:
        raise ConfigError("no job to report has label %s" % arguments.label)
    if data.skipped_lines:
        lines = count_text(data.skipped_lines, "line")
        write_message("warning: skipped %s: not an outcome, or damaged" % lines)


def _selection(arguments: argparse.Namespace) -> Selection:
    return Selection(time.time(), arguments.since, arguments.label)


def _read(arguments: argparse.Namespace, ledger: Ledger) -> ReportData:
    return read_ledger(ledger, os.path.basename(arguments.ledger), _selection(arguments))


def _open_in_browser(address: str) -> None:
    import webbrowser  # late: few reports are opened at once

    if not webbrowser.open(address):
        write_message("no browser can be started here: open %s yourself" % address)
