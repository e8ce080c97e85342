"""A large ledger: the time to find due jobs and to list all, with 100,000 pending jobs."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from . import common, ledger_processes
from .common import Failure, Options, OtherLoad, Results, Summary

JOBS = 100000
RUNS_PER_SECOND = 5  # of each case, in each second of a round
MOST_BYTES_PER_JOB = 1000.0
STILL_PENDING = 5  # an exit code of pollkit status

# The cases, and the most seconds that each may take; None if there is no goal.
GOALS: Dict[str, Optional[float]] = {
    "open it, claim the due jobs (10)": 0.2,
    "pollkit run --once, nothing due": 0.2,
    "pollkit status": 1.0,
    "pollkit status --json": None,
    "python3 -c pass": None,
}
CLAIM = """
import sys, time
from pollkit import Ledger
began = time.perf_counter()
with Ledger(sys.argv[1]) as ledger:
    claims = ledger._leases.claim(50)
    print(time.perf_counter() - began)
    ledger._leases.release(claims)
assert len(claims) == 10
"""
PROGRESS = {
    "started_at": 1800000000.123,
    "deadline": 1800000300.123,
    "next_at": 1800000012.123,
    "polls": 3,
    "looks": 3,
    "wait_from": 1800000002.123,
    "pace_wait": 4.5,
    "status": "running",
    "etag": 'W/"0123456789abcdef"',
    "slept": [6.5, 0.0, 0.0, 0.0],
}

Cases = Dict[str, Callable[[], float]]


class Row(NamedTuple):
    """The wall time of one case."""

    name: str
    wall_s: Summary
    goal: Optional[float]

    @property
    def reached(self) -> Optional[bool]:
        """Whether the goal was reached; None if there is none."""
        return None if self.goal is None else self.wall_s.median <= self.goal


def run(options: Options) -> Results:
    """a ledger with 100,000 pending jobs: time to find the due ones, to list all; disk space."""
    with tempfile.TemporaryDirectory() as folder:
        some_due = os.path.join(folder, "some.db")
        none_due = os.path.join(folder, "none.db")
        common.log("creating two ledgers of {:,} jobs".format(JOBS))
        _create(some_due, 10)
        _create(none_due, 0)
        size = os.path.getsize(some_due) / JOBS
        cases = _cases(some_due, none_due)
        for case in cases.values():
            case()  # the first run fills the disk cache
        load = OtherLoad(os.getpid())
        rounds = [_run_round(cases, options, i) for i in range(options.rounds)]
        machine = common.describe_machine(load)
    rows = [
        Row(name, Summary.from_values([one[name] for one in rounds]), goal)
        for name, goal in GOALS.items()
    ]
    _show(options, machine, size, rows)
    processes = ledger_processes.run(options)
    return {
        "processes": processes,
        "benchmark": "ledger",
        "machine": machine,
        "quiet": common.is_quiet(machine),
        "rounds": options.rounds,
        "seconds": options.seconds,
        "jobs": JOBS,
        "bytes_a_job": {
            "measured": size,
            "goal": MOST_BYTES_PER_JOB,
            "reached": size <= MOST_BYTES_PER_JOB,
        },
        "cases": [
            dict(row._asdict(), wall_s=row.wall_s._asdict(), reached=row.reached) for row in rows
        ],
    }


def _create(path: str, due: int) -> None:
    """Create a ledger whose jobs have been polled a few times; `due` of them are due now."""
    if common.ROOT not in sys.path:
        sys.path.insert(0, common.ROOT)
    from pollkit import Job, Ledger

    name = "8c5a3f1e-77aa-4b0c-9d5e-{:012d}".format
    base = "https://api.internal/v1/jobs/"
    with Ledger(path) as ledger:
        ledger.add(
            Job(name(i), base + name(i), "knowhere", "small", 12, {"customer": i})
            for i in range(JOBS)
        )
    db = sqlite3.connect(path)
    with db:
        db.execute(
            "UPDATE jobs SET progress = ?, due_at = due_at + 3600 + key, "
            "free_at = free_at + 3600 + key WHERE key > ?",
            (json.dumps(PROGRESS), due),
        )
    db.close()


def _cases(some_due: str, none_due: str) -> Cases:
    """The cases of GOALS, each as a function that returns its seconds."""

    def command(*words: str) -> Callable[[], float]:
        return lambda: _time_command([sys.executable] + list(words))[0]

    functions = (
        lambda: float(_time_command([sys.executable, "-c", CLAIM, some_due])[1]),
        command("-m", "pollkit", "run", none_due, "--once"),
        command("-m", "pollkit", "status", some_due),
        command("-m", "pollkit", "status", some_due, "--json"),
        command("-c", "pass"),
    )
    return dict(zip(GOALS, functions))


def _time_command(command: List[str]) -> Tuple[float, bytes]:
    """The seconds that a command takes, start of the process included, and its output."""
    environment = common.child_environment()
    began_at = time.perf_counter()
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    took_s = time.perf_counter() - began_at
    if done.returncode not in (0, STILL_PENDING):
        message = done.stderr.decode("utf-8", "replace").strip()
        raise Failure("{} failed: {}".format(" ".join(command[1:4]), message))
    return took_s, done.stdout


def _run_round(cases: Cases, options: Options, index: int) -> Dict[str, float]:
    """The median of several runs of each case that has a goal, in turn; one run of the others."""
    common.log("round {} of {}".format(index + 1, options.rounds))
    runs: Dict[str, List[float]] = {name: [] for name in cases}
    for i in range(max(1, round(RUNS_PER_SECOND * options.seconds))):
        for name, case in cases.items():
            if i == 0 or GOALS[name] is not None:
                runs[name].append(case())
    return {name: Summary.from_values(values).median for name, values in runs.items()}


def _show(options: Options, machine: Results, size: float, rows: List[Row]) -> None:
    print("A ledger with {:,} pending jobs, each with a URL, metadata and progress.".format(JOBS))
    print("Median of {} rounds, the cases in turn (least..most).".format(options.rounds))
    print("The time of a command includes the start of Python.")
    common.print_machine(machine)
    print()
    cells = []
    for row in rows:
        median = "{:.0f} ms".format(1e3 * row.wall_s.median)
        bounds = "({:.0f}..{:.0f})".format(1e3 * row.wall_s.least, 1e3 * row.wall_s.most)
        goal = common.goal_text("<= {:g} ms".format(1e3 * (row.goal or 0)), row.reached)
        cells.append([row.name, median, bounds, goal])
    has_size = size <= MOST_BYTES_PER_JOB
    goal = common.goal_text("<= {:g} B".format(MOST_BYTES_PER_JOB), has_size)
    cells.append(["disk space per job", "{:.0f} B".format(size), "", goal])
    common.print_table(["", ">median", "", "goal"], cells)
    common.print_goals([row.reached for row in rows] + [has_size], machine)
