"""Run the suite on every Python, the slow tests on two of them, and the checks: all of CI.

All tests wait in one queue, from which a few processes at once take the next share. So no process
is idle while there is something to do, and slow tests, which wait much, run beside quick ones.
"""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, List, NamedTuple, Tuple

from .checks import run_checks
from .common import Failure, show
from .pythons import SUPPORTED, Python, Version, find_pythons, prepare, version_text
from .suite import (
    NOT_SET_UP,
    Counts,
    Outcome,
    PytestRun,
    can_be_repeated,
    combine,
    library_shares,
    repeat_failed_tests,
    run_pytest,
    slow_shares,
    suite_shares,
    total,
)

PROCESSES = 5  # at once; four leave a core idle for a fifth of the time
SHARES = 4  # of the suite on one Python; the start of each takes a second of CPU time


class Environment(NamedTuple):
    """A Python and whether its virtual environment has the tools of the checks."""

    python: Python
    needs_tools: bool

    def prepare(self) -> str:
        """The interpreter of the virtual environment."""
        return prepare(self.python, self.needs_tools)


class Group(NamedTuple):
    """Tests that make one row of the final table: the arguments of each of its processes."""

    name: str
    environment: Environment
    shares: List[List[str]]


Share = Tuple[Group, List[str]]  # what one process runs


def run_everywhere(required: List[Version], arguments: List[str]) -> int:
    """Run the suite on each Python that is found, the slow tests and the checks."""
    started_at = time.monotonic()
    found = find_pythons(sorted(set(SUPPORTED + required)))
    if not found:
        raise Failure("found no Python 3.6 to 3.13, neither in pyenv nor on PATH")
    newest = max(found)
    environments = {
        version: Environment(python, version == newest) for version, python in found.items()
    }
    threading.Thread(target=_prepare_all, args=(environments,), daemon=True).start()
    suites = _group_suites(environments, required, arguments)
    slow = [] if arguments else _group_slow_tests(environments)
    with ThreadPoolExecutor(PROCESSES) as pool:
        checks = pool.submit(_run_checks, environments[newest], not arguments)
        tests = _run_groups(pool, suites + slow, _queue_up(suites, slow))
    show_outcomes(checks.result())
    rows = [_repeat_failures(group, tests[group.name]) for group in reversed(suites)]
    rows += _list_missing(found, required) + checks.result()
    rows += [_repeat_failures(group, tests[group.name]) for group in slow]
    print("\nThis took {:.1f} minutes.".format((time.monotonic() - started_at) / 60.0))
    return print_summary(rows)


def _group_suites(
    environments: Dict[Version, Environment], required: List[Version], arguments: List[str]
) -> List[Group]:
    groups = []
    for version in sorted(environments, reverse=True):
        environment = environments[version]
        name = version_text(environment.python.version)
        if arguments:
            groups.append(Group(name, environment, [arguments]))
        elif required and version not in required:
            groups.append(Group(name + " library", environment, library_shares(SHARES)))
        else:
            groups.append(Group(name, environment, suite_shares(SHARES)))
    return groups


def _group_slow_tests(environments: Dict[Version, Environment]) -> List[Group]:
    """The slow tests on the oldest and the newest Python."""
    groups = []
    for version in sorted({min(environments), max(environments)}):
        environment = environments[version]
        name = version_text(environment.python.version) + " slow"
        groups.append(Group(name, environment, slow_shares()))
    return groups


def _prepare_all(environments: Dict[Version, Environment]) -> None:
    """Prepare each Python in the background, while the tests run on the ones before it."""
    for version in sorted(environments, reverse=True):
        try:
            environments[version].prepare()
        except (Failure, OSError):
            pass  # its tests report it


def _queue_up(suites: List[Group], slow: List[Group]) -> List[Share]:
    """All shares in the order in which they are begun; the slow ones are spread evenly."""
    suite_queue = [(group, share) for group in suites for share in group.shares]
    slow_queues = [[(group, share) for share in group.shares] for group in slow]
    positions = []
    for queue in [suite_queue] + slow_queues:
        for index, share in enumerate(queue):
            positions.append((index / len(queue), share))
    return [share for _, share in sorted(positions, key=lambda each: each[0])]


def _run_groups(
    pool: ThreadPoolExecutor, groups: List[Group], queue: List[Share]
) -> Dict[str, Outcome]:
    """Run all tests, and show the output of each group when it is complete."""
    runs: Dict[str, List[PytestRun]] = {group.name: [] for group in groups}
    outcomes = {}
    for (group, _), run in zip(queue, pool.map(_run_share, queue)):
        runs[group.name].append(run)
        if len(runs[group.name]) == len(group.shares):
            outcomes[group.name] = combine(group.name, runs[group.name])
            show_outcomes([outcomes[group.name]])
    return outcomes


def _run_share(share: Share) -> PytestRun:
    group, arguments = share
    try:
        return run_pytest(group.environment.prepare(), arguments)
    except (Failure, OSError) as error:
        return PytestRun(NOT_SET_UP, Counts(), [], _describe(error), 0.0)


def _run_checks(environment: Environment, is_whole_suite: bool) -> List[Outcome]:
    try:
        return run_checks(environment.prepare(), is_whole_suite)
    except (Failure, OSError) as error:
        return [Outcome("checks", False, "not set up", output=_describe(error))]


def _describe(error: Exception) -> bytes:
    output: bytes = getattr(error, "output", b"")
    return output + os.fsencode("test.py: {}\n".format(error))


def _repeat_failures(group: Group, outcome: Outcome) -> Outcome:
    if not can_be_repeated(outcome):
        return outcome
    repeated = repeat_failed_tests(outcome, group.environment.prepare())
    show_outcomes([repeated])
    return repeated


def _list_missing(found: Dict[Version, Python], required: List[Version]) -> List[Outcome]:
    """Rows for the Pythons that were not found; a failure if one is required."""
    rows = []
    for version in sorted(set(SUPPORTED + required) - set(found)):
        is_ok = False if version in required else None
        rows.append(Outcome(version_text(version), is_ok, "not found"))
    return rows


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
