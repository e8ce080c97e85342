"""A large ledger: what it takes to find what is due, and to say what is in it, with 100,000 jobs waiting."""

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from . import common
from .common import Options, Results, Spread, Trouble
from .transport import QUIET

JOBS = 100000
RUNS_A_SECOND = 5  # of each case in a round of --seconds 1
BYTES_A_JOB = 1000.0

# What is measured, and the most that it may take; None where there is no goal.
GOALS: Dict[str, Optional[float]] = {
    "open it, claim what is due (10)": 0.2,
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


class Row(NamedTuple):
    """One case: its wall time."""

    name: str
    wall_s: Spread
    goal: Optional[float]

    @property
    def reached(self) -> Optional[bool]:
        return None if self.goal is None else self.wall_s.median <= self.goal


def run(options: Options) -> Results:
    """what a ledger of 100,000 waiting jobs costs: to find what is due, to show it, on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        some, none = os.path.join(folder, "some.db"), os.path.join(folder, "none.db")
        common.say("making two ledgers of {:,} jobs".format(JOBS))
        for path, due in ((some, 10), (none, 0)):
            _make(path, due)
        size = os.path.getsize(some) / JOBS
        cases = _cases(some, none)
        for case in cases.values():
            case()  # the first run finds the disk cold
        others = common.Others(os.getpid())
        rounds = [_round(cases, options, number) for number in range(options.rounds)]
        disturbed = others.processors()
    rows = [
        Row(name, Spread.of([one[name] for one in rounds]), goal) for name, goal in GOALS.items()
    ]
    results = _results(options, disturbed, size, rows)
    _show(results, rows)
    return results


def _make(path: str, due: int) -> None:
    """A ledger whose jobs have all been polled a few times; so many of them are due, the rest within days."""
    if common.ROOT not in sys.path:
        sys.path.insert(0, common.ROOT)
    from pollkit import Job, Ledger

    progress = json.dumps(
        {
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
    )
    name = "8c5a3f1e-77aa-4b0c-9d5e-{:012d}".format
    with Ledger(path) as ledger:
        ledger.add(
            Job(
                name(i),
                "https://api.internal/v1/jobs/" + name(i),
                "knowhere",
                "small",
                12,
                {"customer": i},
            )
            for i in range(JOBS)
        )
        ledger._file.write(
            lambda db: db.execute(
                "UPDATE jobs SET progress = ?, due_at = due_at + 3600 + key, free_at = free_at + 3600 + key WHERE key > ?",
                (progress, due),
            )
        )


def _cases(some: str, none: str) -> Dict[str, Callable[[], float]]:
    def command(*words: str) -> Callable[[], float]:
        return lambda: _timed([sys.executable] + list(words))[0]

    return dict(
        zip(
            GOALS,
            (
                lambda: float(_timed([sys.executable, "-c", CLAIM, some])[1]),
                command("-m", "pollkit", "run", none, "--once"),
                command("-m", "pollkit", "status", some),
                command("-m", "pollkit", "status", some, "--json"),
                command("-c", "pass"),
            ),
        )
    )


def _timed(command: List[str]) -> Tuple[float, bytes]:
    """Seconds that a command takes, from before its process begins to its end, and what it printed."""
    environment = common.child_environment()
    began = time.perf_counter()
    ended = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    took = time.perf_counter() - began
    if ended.returncode not in (0, 5):  # 5: jobs still wait
        raise Trouble(
            "{} failed: {}".format(
                " ".join(command[1:4]), ended.stderr.decode("utf-8", "replace").strip()
            )
        )
    return took, ended.stdout


def _round(
    cases: Dict[str, Callable[[], float]], options: Options, number: int
) -> Dict[str, float]:
    """The median of some runs of each case that has a goal, in turn; the others once."""
    common.say("round {} of {}".format(number + 1, options.rounds))
    runs = max(1, round(RUNS_A_SECOND * options.seconds))
    taken = [
        {name: case() for name, case in cases.items() if GOALS[name] is not None}
        for _ in range(runs)
    ]
    found = {name: Spread.of([one[name] for one in taken]).median for name in taken[0]}
    return {name: found[name] if name in found else case() for name, case in cases.items()}


def _results(options: Options, disturbed: Optional[float], size: float, rows: List[Row]) -> Results:
    return {
        "benchmark": "ledger",
        "machine": dict(common.machine(), others_processors=disturbed),
        "quiet": disturbed is None or disturbed <= QUIET,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "jobs": JOBS,
        "bytes_a_job": {"measured": size, "goal": BYTES_A_JOB, "reached": size <= BYTES_A_JOB},
        "cases": [
            {
                "name": row.name,
                "wall_s": row.wall_s._asdict(),
                "goal": row.goal,
                "reached": row.reached,
            }
            for row in rows
        ],
    }


def _show(results: Results, rows: List[Row]) -> None:
    machine, size = results["machine"], results["bytes_a_job"]
    print(
        "A ledger with {:,} jobs that wait, each with URL, metadata and the progress of three polls.".format(
            JOBS
        )
    )
    print("{python}, {system}, {cpus} x {cpu}".format(**machine))
    print(
        "Median of {} rounds, in turn with the others (least..most); commands are whole processes".format(
            results["rounds"]
        )
    )
    if machine["others_processors"] is not None:
        print(
            "Other programs kept {:.2f} of {} processors busy meanwhile".format(
                machine["others_processors"], machine["cpus"]
            )
        )
    print()
    cells = [
        [
            row.name,
            "{:.0f} ms".format(1e3 * row.wall_s.median),
            "({:.0f}..{:.0f})".format(1e3 * row.wall_s.least, 1e3 * row.wall_s.most),
            _verdict(row.goal and 1e3 * row.goal, "ms", row.reached),
        ]
        for row in rows
    ]
    cells.append(
        [
            "on the disk, each job",
            "{:.0f} B".format(size["measured"]),
            "",
            _verdict(size["goal"], "B", size["reached"]),
        ]
    )
    common.print_table(["", ">median", "", "goal"], cells)
    reached = [one for one in [row.reached for row in rows] + [size["reached"]] if one is not None]
    print("\n{} of {} goals reached".format(sum(reached), len(reached)))
    if not results["quiet"]:
        print("Not to be quoted: the machine was not quiet.")


def _verdict(goal: Optional[float], unit: str, reached: Optional[bool]) -> str:
    return (
        ""
        if goal is None
        else "<= {:g} {}: {}".format(goal, unit, "reached" if reached else "NOT reached")
    )
