"""Checks that run once, on the newest Python: coverage of the core, types, lint and format."""

import os
import tempfile
import time
from typing import List, NamedTuple

from .common import run_command
from .suite import Outcome, test_environment

COVERED = "pollkit/core"
# The tests of the core. Measuring slows tests down, and the others would cover it by chance.
CORE_TESTS = [
    "tests/core",
    "tests/drivers/doctor",
    "tests/drivers/simulation",
    "tests/edges/profiles",
    "tests/drivers/test_common_loops.py",
    "tests/drivers/single",
    "tests/drivers/batch/test_batch_corners.py",
    "tests/drivers/batch/test_batch_urls.py",
    "tests/cli/charts",
    "tests/cli/commands/test_doctor.py",
    "tests/cli/commands/test_doctor_replies.py",
    "tests/cli/inputs/test_duration_lists.py",
    "tests/cli/commands/test_profile_commands.py",
    "tests/cli/commands/test_simulate_command.py",
    "tests/test_public.py",
]


class Check(NamedTuple):
    """A check: each of its commands must succeed."""

    name: str
    note: str
    commands: List[List[str]]


COVERAGE = Check(
    "coverage",
    COVERED + ": 100 % of lines and branches",
    [
        ["coverage", "run", "-m", "pytest", "-q"] + CORE_TESTS,
        ["coverage", "report", "--include=" + COVERED + "/*", "--fail-under=100"],
    ],
)
CHECKS = [
    COVERAGE,
    Check("mypy", "--strict, on pollkit and scripts", [["mypy"]]),
    Check("lint", "ruff check .", [["ruff", "check", "."]]),
    Check("format", "ruff format --check .", [["ruff", "format", "--check", "."]]),
]


def run_checks(inner: str, is_whole_suite: bool) -> List[Outcome]:
    """Run all checks; coverage only with the whole suite."""
    outcomes = []
    for check in CHECKS:
        if check is COVERAGE and not is_whole_suite:
            note = "not checked, because pytest was given arguments"
            outcomes.append(Outcome(check.name, None, note))
        else:
            outcomes.append(_run_check(inner, check))
    return outcomes


def _run_check(inner: str, check: Check) -> Outcome:
    started_at = time.monotonic()
    output = b""
    with tempfile.TemporaryDirectory() as scratch:
        env = dict(test_environment(), COVERAGE_FILE=os.path.join(scratch, "coverage"))
        for command in check.commands:
            code, printed = run_command([inner, "-m"] + command, env)
            output += printed
            if code != 0:
                break
    seconds = time.monotonic() - started_at
    return Outcome(check.name, code == 0, check.note, seconds, output=output)
