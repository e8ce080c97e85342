"""What every benchmark needs: the peers' environment, children, medians, tables, the machine."""

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
PEERS = ["requests", "aiohttp"]
Results = Dict[str, Any]


class Options(NamedTuple):
    rounds: int
    seconds: float


class Trouble(Exception):
    """A failure to tell in one line."""


class Spread(NamedTuple):
    """The median of some rounds, and how far apart they were."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values))


def say(text: str) -> None:
    """Progress; the results alone go to stdout."""
    print("bench.py: " + text, file=sys.stderr, flush=True)


def peers_python() -> str:
    """The interpreter of the environment that has the peers, made if it must be."""
    venv = os.path.join(ROOT, ".venvs", "bench")
    inner = os.path.join(venv, "Scripts\\python.exe" if os.name == "nt" else "bin/python")
    stamp = os.path.join(venv, "installed.txt")
    # Written last, so a half-made environment has none.
    content = "\n".join([sys.base_prefix, platform.python_version()] + PEERS)
    try:
        with open(stamp, encoding="utf-8") as file:
            if file.read() == content and os.access(inner, os.X_OK):
                return inner
    except OSError:
        pass
    say("setting up .venvs/bench with {}".format(" and ".join(PEERS)))
    _must("can't make .venvs/bench", [sys.executable, "-m", "venv", "--clear", venv])
    _must(
        "can't install {}".format(" and ".join(PEERS)),
        [inner, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"] + PEERS,
    )
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(content)
    return inner


def _must(what: str, command: List[str]) -> None:
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if ended.returncode != 0:
        raise Trouble("{}: {}".format(what, _last_line(ended.stdout)))


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").split("\n")
    # What pip says about itself comes after what went wrong, and helps nobody.
    said = [line.strip() for line in lines if line.strip() and not line.startswith("[notice]")]
    return said[-1] if said else "it said nothing"


def child_environment() -> Dict[str, str]:
    """The environment without what would change how one client behaves and not another."""
    unwanted = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy")
        and name not in unwanted
        and not name.startswith(("PYTHON", "POLLKIT_"))
    }
    kept["PYTHONPATH"] = os.pathsep.join([ROOT, os.path.join(ROOT, "scripts")])
    return kept


def in_child(python: str, module: str, arguments: Sequence[object], timeout: float) -> Results:
    """What a module of this package prints, as JSON, when a fresh process runs it."""
    command = [python, "-m", "bench_parts." + module] + [str(argument) for argument in arguments]
    what = " ".join([module] + command[3:5])
    try:
        ended = subprocess.run(
            command,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise Trouble("{} had not ended after {:g} s".format(what, timeout)) from None
    if ended.returncode != 0:
        raise Trouble("{} failed: {}".format(what, _last_line(ended.stderr)))
    results: Results = json.loads(ended.stdout.decode("utf-8"))
    return results


def machine() -> Results:
    """What the measurements are worth nothing without."""
    return {
        "python": "{} {}".format(platform.python_implementation(), platform.python_version()),
        "openssl": ssl.OPENSSL_VERSION,
        "system": "{} {}".format(platform.system(), platform.release()),
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
    }


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


class Others:
    """The CPU time that everybody else takes meanwhile: what may have disturbed a measurement."""

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid
        self._begun = self._times()

    def processors(self) -> Optional[float]:
        """How many processors they kept busy since, on average; None where the system can't say."""
        begun, ended = self._begun, self._times()
        if begun is None or ended is None:
            return None
        return max(0.0, (ended[1] - begun[1]) / (ended[0] - begun[0]))

    def _times(self) -> Optional[Tuple[float, float]]:
        try:
            with open("/proc/stat", encoding="ascii") as file:
                everybody = sum(map(int, file.readline().split()[1:4]))  # user, nice, system
            with open("/proc/{}/stat".format(self._server_pid), encoding="ascii") as file:
                server = sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        except OSError:
            return None
        own = os.times()
        tick = 1 / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), (everybody - server) * tick - sum(own[:4])


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they must be; those whose head starts with '>' go to the right."""
    right = [head.startswith(">") for head in heads]
    lines = [[head.lstrip(">") for head in heads]] + [list(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    for line in lines:
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right)
        ]
        print("  ".join(cells).rstrip())
