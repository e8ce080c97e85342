"""Starting up: the cost of a command that cron starts every minute."""

import os
import subprocess
import tempfile
import time
from typing import Dict, List, NamedTuple, Optional

import build_zipapp

from . import common
from .common import Failure, Options, OtherLoad, Results, Summary
from .job_api import run_job_api

BARE = "python3 -c pass"
REQUESTS = "import requests"
GET = "requests.get(URL).json()"
RUNS_PER_SECOND = 10  # of each command, in each second of a round
EXPLANATION = """\
Wall time of whole processes, the start of Python included; URL is a finished job on loopback.
A .pyz contains no bytecode, which differs between Pythons, so it is compiled at every start."""


class Goal(NamedTuple):
    """The time of a command as a multiple of another's, at most."""

    of: str
    most: float


GOALS = {
    "import pollkit": Goal(REQUESTS, 0.35),
    "pollkit.pyz --version": Goal(BARE, 3.5),
    "python3 -m pollkit wait URL": Goal(GET, 0.7),
    "pollkit.pyz wait URL": Goal(GET, 0.7),
}


class Row(NamedTuple):
    """The wall time of one command, and as a multiple of others' within each round."""

    name: str
    wall_s: Summary
    to_bare: Summary
    ratio: Optional[Summary]
    goal: Optional[Goal]

    @property
    def reached(self) -> Optional[bool]:
        """Whether the goal was reached; None if there is none."""
        if self.goal is None or self.ratio is None:
            return None
        return self.ratio.median <= self.goal.most


def run(options: Options) -> Results:
    """time to start: import, --version, and a whole wait, compared with requests."""
    python = common.prepare_peers()
    versions = common.run_module(python, "clients", ["versions"], timeout=60)
    with tempfile.TemporaryDirectory() as folder, run_job_api() as api:
        pyz = os.path.join(folder, "pollkit.pyz")
        build_zipapp.write_executable(pyz, build_zipapp.build_archive(common.ROOT))
        commands = _commands(python, pyz, api.url("http", "done_1"))
        for command in commands.values():
            _time_command(command, folder)  # the first run fills the disk cache
        load = OtherLoad(api.pid)
        rounds = [_run_round(commands, folder, options, i) for i in range(options.rounds)]
        machine = common.describe_machine(load)
    rows = [_row(name, rounds) for name in commands]
    _show(options, machine, versions, rows)
    return {
        "benchmark": "startup",
        "machine": machine,
        "quiet": common.is_quiet(machine),
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


def _runs_per_round(options: Options) -> int:
    return max(1, round(RUNS_PER_SECOND * options.seconds))


def _run_round(
    commands: Dict[str, List[str]], folder: str, options: Options, index: int
) -> Dict[str, float]:
    """The median of several runs of each command, in turn so that all get the same conditions."""
    common.log("round {} of {}".format(index + 1, options.rounds))
    runs: Dict[str, List[float]] = {name: [] for name in commands}
    for _ in range(_runs_per_round(options)):
        for name, command in commands.items():
            runs[name].append(_time_command(command, folder))
    return {name: Summary.from_values(values).median for name, values in runs.items()}


def _time_command(command: List[str], folder: str) -> float:
    """The seconds that a command takes, start of the process included."""
    environment = common.child_environment()
    began_at = time.perf_counter()
    code = subprocess.call(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    took_s = time.perf_counter() - began_at
    if code != 0:
        raise Failure("{} failed with exit code {}".format(" ".join(command), code))
    return took_s


def _row(name: str, rounds: List[Dict[str, float]]) -> Row:
    def ratio_to(other: str) -> Summary:
        return Summary.from_values([times[name] / times[other] for times in rounds])

    goal = GOALS.get(name)
    wall_s = Summary.from_values([times[name] for times in rounds])
    return Row(name, wall_s, ratio_to(BARE), goal and ratio_to(goal.of), goal)


def _show(options: Options, machine: Results, versions: Results, rows: List[Row]) -> None:
    print(EXPLANATION)
    print(
        "Median of {} rounds, each the median of {} runs, the commands in turn "
        "(least..most)".format(options.rounds, _runs_per_round(options))
    )
    common.print_machine(machine, versions)
    print()
    common.print_table(
        ["command", ">ms", "", ">x bare", ">ratio", "", "to", "goal"], [_cells(row) for row in rows]
    )
    common.print_goals([row.reached for row in rows], machine)


def _cells(row: Row) -> List[str]:
    wall_s = row.wall_s
    cells = [
        row.name,
        "{:.1f}".format(1e3 * wall_s.median),
        "({:.1f}..{:.1f})".format(1e3 * wall_s.least, 1e3 * wall_s.most),
        "{:.2f}".format(row.to_bare.median),
    ]
    if row.goal is None or row.ratio is None:
        return cells + ["", "", "", ""]
    verdict = common.goal_text("<= {:g}".format(row.goal.most), row.reached)
    if row.goal.most < 1 < row.ratio.median:
        verdict += ", slower"
    ratio = row.ratio
    return cells + ["{:.2f}".format(ratio.median), ratio.range_text("{:.2f}"), row.goal.of, verdict]
