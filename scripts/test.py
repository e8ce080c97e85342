#!/usr/bin/env python3
"""Run pollkit's tests: on this Python, or with --all on every Python it supports.

Arguments not listed below go to pytest: `scripts/test.py -k bucket`. Slow tests (hundreds of
kills, stress, many processes) are in tests/slow: `scripts/test.py tests/slow` runs them here,
--all runs them on the oldest and the newest Python. With --require, the required Pythons run the
whole suite, and the others only the tests of the library: not those of the command line, the
single file and PostgreSQL.

With --all, slow tests that fail are run once more, with nothing beside them: five processes on two
cores are too much for some. If they pass then, the table names them. If more than three files have
failed tests on one Python, none is repeated.

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
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, List, Tuple

from test_parts.checks import run_checks
from test_parts.common import ROOT, Failure, show
from test_parts.pythons import (
    SUPPORTED,
    Python,
    Version,
    current_python,
    find_pythons,
    prepare,
    version_text,
)
from test_parts.suite import (
    SLOW_PROCESSES,
    Counts,
    Outcome,
    can_be_repeated,
    count_tests,
    exit_code,
    failure_reason,
    library_shares,
    pytest_command,
    repeat_failed_tests,
    run_suite,
    slow_shares,
    suite_shares,
    test_environment,
    total,
)

Pythons = Dict[Version, Python]
Work = Callable[[str, str], List[Outcome]]  # from the name of a Python and its interpreter


def run_all_here() -> int:
    """Run the whole suite on this Python."""
    outcome = run_suite("", prepare(current_python()), suite_shares())
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


def run_everywhere(required: List[Version], arguments: List[str]) -> int:
    """Run the suite on one Python after another; then the checks and the slow tests, at once."""
    versions = sorted(set(SUPPORTED + required))
    found = find_pythons(versions)
    if not found:
        raise Failure("found no Python 3.6 to 3.13, neither in pyenv nor on PATH")

    def run_tests_of(version: Version) -> Work:
        if arguments:
            return lambda name, inner: [run_suite(name, inner, [arguments])]
        if required and version not in required:
            return lambda name, inner: [run_suite(name + " library", inner, library_shares())]
        return lambda name, inner: [run_suite(name, inner, suite_shares())]

    threading.Thread(target=prepare_all, args=(found,), daemon=True).start()
    rows = {}
    for version in sorted(found, reverse=True):
        (rows[version],) = run_work(found, version, run_tests_of(version))
        show_outcomes([rows[version]])
    for version in versions:
        is_ok = False if version in required else None
        rows.setdefault(version, Outcome(version_text(version), is_ok, "not found"))
    others = run_checks_and_slow_tests(found, arguments)
    show_outcomes(others)
    return print_summary([rows[version] for version in versions] + others)


def prepare_all(found: Pythons) -> None:
    """Prepare each Python in the background, while the tests run on the ones before it."""
    for version in sorted(found, reverse=True):
        run_work(found, version, lambda name, inner: [])  # a failure is reported by its tests


def run_checks_and_slow_tests(found: Pythons, arguments: List[str]) -> List[Outcome]:
    """Run the checks and, unless pytest was given arguments, the slow tests, all at once."""
    newest = max(found)
    works: List[Tuple[Version, Work]] = [
        (newest, lambda name, inner: run_checks(inner, not arguments))
    ]
    if not arguments:
        works += [(version, run_slow_tests) for version in sorted({min(found), newest})]
    with ThreadPoolExecutor(len(works)) as pool:
        results = list(pool.map(lambda each: run_work(found, *each), works))
    outcomes = []
    for (version, _), group in zip(works, results):
        for outcome in group:
            if can_be_repeated(outcome):
                outcomes += run_work(found, version, repetition_of(outcome))
            else:
                outcomes.append(outcome)
    return outcomes


def run_slow_tests(name: str, inner: str) -> List[Outcome]:
    return [run_suite(name + " slow", inner, slow_shares(), SLOW_PROCESSES)]


def repetition_of(outcome: Outcome) -> Work:
    return lambda name, inner: [repeat_failed_tests(outcome, inner)]


def run_work(found: Pythons, version: Version, work: Work) -> List[Outcome]:
    """Do a piece of work on one Python; a failure to prepare it is an outcome."""
    python = found[version]
    name = version_text(python.version)
    try:
        return work(name, prepare(python, needs_tools=version == max(found)))
    except (Failure, OSError) as error:
        output = getattr(error, "output", b"") + os.fsencode("test.py: {}\n".format(error))
        return [Outcome(name, False, "not set up", output=output)]


def show_outcomes(outcomes: List[Outcome]) -> None:
    """Print the output of each outcome under its name."""
    for outcome in outcomes:
        print("\n=== {}".format(outcome.name))
        show(outcome.output)


def print_summary(rows: List[Outcome]) -> int:
    """Print the table of outcomes and the total; the exit code."""
    print()
    for row in rows:
        seconds = "{:.1f} s".format(row.seconds) if row.seconds else ""
        state = {True: "ok", False: "FAILED", None: ""}[row.is_ok]
        note, _, details = row.note.partition("\n")
        print("{:<15} {:<42} {:>8}  {}".format(row.name, note, seconds, state).rstrip())
        if details:
            print(details)
    print(total(rows))
    return 1 if any(row.is_ok is False for row in rows) else 0


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
