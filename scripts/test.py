#!/usr/bin/env python3
"""Run pollkit's tests: on this Python, or with --all on every Python it supports.

Arguments not listed below go to pytest: `scripts/test.py -k bucket`. Slow tests (hundreds of
kills, stress, many processes) are in tests/slow: `scripts/test.py tests/slow` runs them here,
--all runs them on the oldest and the newest Python. With --require, the required Pythons run the
whole suite, and the others only the tests of the library: not those of the command line, the
single file and PostgreSQL.

With --all, tests that fail are run once more, with nothing beside them: five processes on two cores
are too much for some. If they pass then, the table names them. If more than three files have failed
tests on one Python, none is repeated. The seconds of a row are those of all its processes together.

The last line printed is always "N passed, N failed" (and "N skipped" if any were). A Python or a
check that fails without a failed test counts as one failed test, so that line never looks better
than the exit code.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from typing import List

from test_parts.common import ROOT, Failure, show
from test_parts.everywhere import run_everywhere
from test_parts.pythons import Version, current_python, prepare
from test_parts.suite import (
    Counts,
    Outcome,
    count_tests,
    exit_code,
    failure_reason,
    pytest_command,
    run_from_queue,
    test_environment,
    total,
)


def run_all_here() -> int:
    """Run the whole suite on this Python."""
    outcome = run_from_queue(prepare(current_python()))
    show(outcome.output)
    if not outcome.is_ok and outcome.note:
        print("test.py: " + outcome.note, file=sys.stderr, flush=True)
    print(total([outcome]))
    return 0 if outcome.is_ok else 1


def run_here(arguments: List[str]) -> int:
    """Run the tests that the arguments select on this Python, and show the output at once."""
    inner = prepare(current_python())
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "report.xml")
        command = pytest_command(inner, report, arguments)
        process = subprocess.Popen(command, cwd=ROOT, env=test_environment())
        try:
            code = process.wait()
        except KeyboardInterrupt:
            code = process.wait()  # pytest was interrupted, too, and prints its summary
        counts = count_tests(report)
    code = exit_code(code, counts)
    if failure_reason(code, counts):
        print("test.py: " + failure_reason(code, counts), file=sys.stderr, flush=True)
    print(total([Outcome("", code == 0, counts=counts)]))
    return code


def parse_versions(text: str) -> List[Version]:
    if not re.fullmatch(r"3\.\d+(,3\.\d+)*", text):
        raise argparse.ArgumentTypeError("{!r} is not like 3.6,3.13".format(text))
    return [tuple(map(int, part.split("."))) for part in text.split(",")]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="test.py",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="every CPython 3.6 to 3.13 from pyenv or PATH; coverage, mypy and ruff, too",
    )
    parser.add_argument(
        "--require",
        type=parse_versions,
        default=[],
        metavar="3.X,3.Y",
        help="with --all: fail if one of these was not found",
    )
    return parser


def main() -> int:
    parser = build_parser()
    options, arguments = parser.parse_known_args()
    if options.require and not options.all:
        parser.error("--require needs --all")
    try:
        if options.all:
            return run_everywhere(options.require, arguments)
        return run_here(arguments) if arguments else run_all_here()
    except BrokenPipeError:
        # The reader closed the pipe; keep the interpreter from failing again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("test.py: interrupted", file=sys.stderr)
        return 130
    except (Failure, OSError) as error:
        show(getattr(error, "output", b""))
        print("test.py: {}".format(error), file=sys.stderr, flush=True)
        print(Counts(failed=1))
        return 1


if __name__ == "__main__":
    sys.exit(main())
