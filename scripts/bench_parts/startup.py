"""Starting up: what a command costs that cron starts every minute."""

import os
import statistics
import subprocess
import tempfile
import time
from typing import Dict, List, NamedTuple, Optional

import build_zipapp

from . import common
from .common import Options, Results, Spread, Trouble
from .job_api import serving
from .transport import QUIET

BARE, REQUESTS, GET = "python3 -c pass", "import requests", "requests.get(URL).json()"
RUNS_A_SECOND = 10  # of each command in a round of --seconds 1


class Goal(NamedTuple):
    """A command's time is to be at most so much of another's."""

    of: str
    most: float


GOALS = {
    "import pollkit": Goal(REQUESTS, 0.35),
    "pollkit.pyz --version": Goal(BARE, 3.5),
    "python3 -m pollkit wait URL": Goal(GET, 0.7),
    "pollkit.pyz wait URL": Goal(GET, 0.7),
}


class Row(NamedTuple):
    """One command: its wall time, as it is and as a multiple of others' within the same rounds."""

    name: str
    wall_s: Spread
    to_bare: Spread
    ratio: Optional[Spread]
    goal: Optional[Goal]

    @property
    def reached(self) -> Optional[bool]:
        return (
            None if self.goal is None or self.ratio is None else self.ratio.median <= self.goal.most
        )


def run(options: Options) -> Results:
    """what it takes to start: import, --version, and a whole wait, beside requests."""
    python = common.peers_python()
    versions = common.in_child(python, "clients", ["versions"], timeout=60)
    with tempfile.TemporaryDirectory() as folder, serving() as api:
        pyz = os.path.join(folder, "pollkit.pyz")
        build_zipapp.write(pyz, build_zipapp.built(common.ROOT))
        commands = _commands(python, pyz, api.url("http", "done_1"))
        for command in commands.values():
            _timed(
                command, folder
            )  # the first run finds the disk cold, and leaves its bytecode there
        others = common.Others(api.pid)
        rounds = [_round(commands, folder, options, number) for number in range(options.rounds)]
        disturbed = others.processors()
    rows = [_row(name, rounds) for name in commands]
    results = _results(options, versions, disturbed, rows)
    _show(results, rows)
    return results


def _commands(python: str, pyz: str, url: str) -> Dict[str, List[str]]:
    return {
        BARE: [python, "-c", "pass"],
        "import pollkit": [python, "-c", "import pollkit"],
        REQUESTS: [python, "-c", "import requests"],
        "python3 -m pollkit --version": [python, "-m", "pollkit", "--version"],
        "pollkit.pyz --version": [python, pyz, "--version"],
        GET: [python, "-c", "import requests; requests.get(%r).json()" % url],
        "python3 -m pollkit wait URL": [python, "-m", "pollkit", "wait", url],
        "pollkit.pyz wait URL": [python, pyz, "wait", url],
    }


def _round(
    commands: Dict[str, List[str]], folder: str, options: Options, number: int
) -> Dict[str, float]:
    """The median of some runs of each command; they take turns, so that all of them see the same machine."""
    common.say("round {} of {}".format(number + 1, options.rounds))
    runs = range(max(1, round(RUNS_A_SECOND * options.seconds)))
    taken = [{name: _timed(command, folder) for name, command in commands.items()} for _ in runs]
    return {name: statistics.median(one[name] for one in taken) for name in commands}


def _timed(command: List[str], folder: str) -> float:
    """Seconds that a command takes, from before its process begins to its end."""
    environment = common.child_environment()
    began = time.perf_counter()
    code = subprocess.call(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    took = time.perf_counter() - began
    if code != 0:
        raise Trouble("{} failed with exit code {}".format(" ".join(command), code))
    return took


def _row(name: str, rounds: List[Dict[str, float]]) -> Row:
    def ratio(of: str) -> Spread:
        return Spread.of([taken[name] / taken[of] for taken in rounds])

    goal = GOALS.get(name)
    return Row(
        name,
        Spread.of([taken[name] for taken in rounds]),
        ratio(BARE),
        goal and ratio(goal.of),
        goal,
    )


def _results(
    options: Options, versions: Results, disturbed: Optional[float], rows: List[Row]
) -> Results:
    return {
        "benchmark": "startup",
        "machine": dict(common.machine(), others_processors=disturbed),
        "quiet": disturbed is None or disturbed <= QUIET,
        "versions": versions,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "commands": [
            {
                "name": row.name,
                "wall_s": row.wall_s._asdict(),
                "to_bare": row.to_bare._asdict(),
                "of": row.goal and row.goal.of,
                "ratio": row.ratio and row.ratio._asdict(),
                "goal": row.goal and row.goal.most,
                "reached": row.reached,
            }
            for row in rows
        ],
    }


def _show(results: Results, rows: List[Row]) -> None:
    machine, versions = results["machine"], results["versions"]
    print(
        "Wall time of whole processes, Python's own start included; URL is that of a job on loopback that is done."
    )
    print("{python}, {system}, {cpus} x {cpu}".format(**machine))
    print("pollkit {pollkit}, requests {requests}".format(**versions))
    print(
        "Median of {} rounds, each the median of {:.0f} runs, in turn with the others (least..most)".format(
            results["rounds"], max(1, round(RUNS_A_SECOND * results["seconds"]))
        )
    )
    if machine["others_processors"] is not None:
        print(
            "Other programs kept {:.2f} of {} processors busy meanwhile".format(
                machine["others_processors"], machine["cpus"]
            )
        )
    print(
        "A .pyz holds no bytecode, which differs from Python to Python: it is compiled at every start.\n"
    )
    common.print_table(
        ["command", ">ms", "", ">x bare", ">ratio", "", "to", "goal"], [_cells(row) for row in rows]
    )
    goals = [row for row in rows if row.reached is not None]
    print("\n{} of {} goals reached".format(sum(1 for row in goals if row.reached), len(goals)))
    if not results["quiet"]:
        print("Not to be quoted: the machine was not quiet.")


def _cells(row: Row) -> List[str]:
    wall, to_bare = row.wall_s, row.to_bare
    cells = [
        row.name,
        "{:.1f}".format(1e3 * wall.median),
        "({:.1f}..{:.1f})".format(1e3 * wall.least, 1e3 * wall.most),
        "{:.2f}".format(to_bare.median),
    ]
    if row.goal is None or row.ratio is None:
        return cells + ["", "", "", ""]
    verdict = "reached" if row.reached else "NOT reached"
    if row.goal.most < 1 < row.ratio.median:
        verdict += ", slower"
    return cells + [
        "{:.2f}".format(row.ratio.median),
        "({:.2f}..{:.2f})".format(row.ratio.least, row.ratio.most),
        row.goal.of,
        "<= {:g}: {}".format(row.goal.most, verdict),
    ]
