"""Shared by all benchmarks: the environment of the peers, child processes, medians and tables."""

import json
import os
import platform
import ssl
import statistics
import subprocess
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEERS = ["requests", "aiohttp", "huey", "procrastinate", "psycopg[binary]", "psycopg2-binary"]
QUIET = 0.25  # if other programs keep more processors busy, the figures are not worth quoting
Results = Dict[str, Any]


class Options(NamedTuple):
    """How long to measure."""

    rounds: int
    seconds: float

    @property
    def is_quick(self) -> bool:
        """Whether this is only to try the benchmark."""
        return self.seconds < 1


class Failure(Exception):
    """A failure in one line."""


class Summary(NamedTuple):
    """The median of several rounds, the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def from_values(cls, values: Sequence[float]) -> "Summary":
        """From one value per round."""
        return cls(statistics.median(values), min(values), max(values))

    def range_text(self, form: str) -> str:
        """The least and the most, each in the given format."""
        return "({}..{})".format(form.format(self.least), form.format(self.most))


def log(text: str) -> None:
    """Report progress on stderr; stdout is for the results."""
    print("bench.py: " + text, file=sys.stderr, flush=True)


# Child processes


def prepare_peers() -> str:
    """The interpreter of the environment with the peers, which is created if necessary."""
    venv = os.path.join(ROOT, ".venvs", "bench")
    inner = os.path.join(venv, "Scripts\\python.exe" if os.name == "nt" else "bin/python")
    # This file is written last, so an incomplete environment has none.
    stamp = os.path.join(venv, "installed.txt")
    content = "\n".join([sys.base_prefix, platform.python_version()] + PEERS)
    try:
        with open(stamp, encoding="utf-8") as file:
            if file.read() == content and os.access(inner, os.X_OK):
                return inner
    except OSError:
        pass
    names = " and ".join(PEERS)
    log("creating .venvs/bench with " + names)
    _run_or_fail("can't create .venvs/bench", [sys.executable, "-m", "venv", "--clear", venv])
    install = [inner, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    _run_or_fail("can't install " + names, install + PEERS)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(content)
    return inner


def _run_or_fail(message: str, command: List[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        raise Failure("{}: {}".format(message, _last_line(done.stdout)))


def _last_line(output: bytes) -> str:
    lines = [line.strip() for line in output.decode("utf-8", "replace").split("\n")]
    # pip appends notices about new versions of itself after the error.
    lines = [line for line in lines if line and not line.startswith("[notice]")]
    return lines[-1] if lines else "no output"


def child_environment() -> Dict[str, str]:
    """The environment without variables that change the behaviour of some clients only."""
    certificates = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    unwanted = ("PYTHON", "POLLKIT_") + certificates
    kept = {}
    for name, value in os.environ.items():
        if not name.lower().endswith("_proxy") and not name.startswith(unwanted):
            kept[name] = value
    kept["PYTHONPATH"] = os.pathsep.join([ROOT, os.path.join(ROOT, "scripts")])
    return kept


def run_module(python: str, module: str, arguments: Sequence[object], timeout: float) -> Results:
    """Run a module of this package in a new process, and parse the JSON that it prints."""
    command = [python, "-m", "bench_parts." + module] + [str(argument) for argument in arguments]
    name = " ".join([module] + command[3:5])
    try:
        done = subprocess.run(
            command,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise Failure("{} did not finish within {:g} s".format(name, timeout)) from None
    if done.returncode != 0:
        raise Failure("{} failed: {}".format(name, _last_line(done.stderr)))
    results: Results = json.loads(done.stdout.decode("utf-8"))
    return results


# The machine


class OtherLoad:
    """Measures the CPU time of other programs, which may disturb a benchmark."""

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid
        self._start = self._read()

    def busy_processors(self) -> Optional[float]:
        """The mean number of processors that they kept busy; None if that is unknown."""
        start = self._start
        end = self._read()
        if start is None or end is None:
            return None
        return max(0.0, (end[1] - start[1]) / (end[0] - start[0]))

    def _read(self) -> Optional[Tuple[float, float]]:
        """The time, and the CPU time of all processes but the server, this one and its children."""
        try:
            with open("/proc/stat", encoding="ascii") as file:
                total = sum(map(int, file.readline().split()[1:4]))  # user, nice, system
            with open("/proc/{}/stat".format(self._server_pid), encoding="ascii") as file:
                server = sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        except OSError:
            return None
        own = os.times()
        tick = 1 / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), (total - server) * tick - sum(own[:4])


def describe_machine(load: Optional[OtherLoad] = None) -> Results:
    """The machine and its load, without which the figures mean nothing."""
    machine: Results = {
        "python": "{} {}".format(platform.python_implementation(), platform.python_version()),
        "openssl": ssl.OPENSSL_VERSION,
        "system": "{} {}".format(platform.system(), platform.release()),
        "cpu": _cpu_name(),
        "cpus": os.cpu_count(),
    }
    if load is not None:
        machine["others_processors"] = load.busy_processors()
    return machine


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def is_quiet(machine: Results) -> bool:
    """Whether other programs left the machine alone."""
    busy = machine["others_processors"]
    return busy is None or bool(busy <= QUIET)


# Output


def print_machine(machine: Results, versions: Optional[Results] = None) -> None:
    """Print the machine, the versions of the clients, and the load by other programs."""
    print("{python}, {openssl}, {system}, {cpus} x {cpu}".format(**machine))
    if versions is not None:
        text = "pollkit {pollkit}, requests {requests}, aiohttp {aiohttp} ({aiohttp_parser} parser)"
        print(text.format(**versions))
    busy = machine["others_processors"]
    if busy is not None:
        print("Other programs kept {:.2f} of {} processors busy".format(busy, machine["cpus"]))


def print_goals(reached: Sequence[Optional[bool]], machine: Results) -> None:
    """Print how many goals were reached (None: no goal), and whether the figures are valid."""
    goals = [one for one in reached if one is not None]
    print("\n{} of {} goals reached".format(sum(goals), len(goals)))
    if not is_quiet(machine):
        print("Do not quote these figures: other programs were busy.")


def goal_text(goal: str, reached: Optional[bool]) -> str:
    """A goal and whether it was reached; empty if there is none."""
    if reached is None:
        return ""
    return "{}: {}".format(goal, "reached" if reached else "NOT reached")


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns; those whose head starts with '>' are aligned to the right."""
    lines = [[head.lstrip(">") for head in heads]] + [list(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    for line in lines:
        cells = []
        for head, cell, width in zip(heads, line, widths):
            cells.append(cell.rjust(width) if head.startswith(">") else cell.ljust(width))
        print("  ".join(cells).rstrip())
