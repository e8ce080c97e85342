"""Compare paces on a scenario in virtual time, beside the best that is possible.

Prints for each pace how many polls a job took, how long after a job's end it was noticed, how
often the server said 429, and the cost: price x polls per job + mean notice delay, in seconds.
pollkit help simulate explains the scenarios, the figures and the optimum.

examples:
  pollkit simulate --scenario lipsync
  pollkit simulate --scenario models --arrive 'poisson 40/m' --jobs 500 --svg frontier.svg
  pollkit simulate --durations 'lognormal 5m x1.6' --limit 60/m --pace adaptive --pace 'fixed 10s'
  pollkit simulate --durations measured.txt --price 5s --json
  pollkit simulate --durations ledger:/var/lib/jobs.db --arrive 'over 1d' --limit 60/m
"""

import argparse
import os
import sys
import time
from textwrap import fill
from typing import Dict, List, Optional, Tuple, Union

from ...core.learning.durations import point_between
from ...core.model import one_line
from ...core.pace import Fixed
from ...core.profile import to_pace
from ...core.units import duration_text, to_seconds
from ...drivers.simulation.distributions import Measured, parse_distribution
from ...drivers.simulation.scenarios import MOST_JOBS, SCENARIOS, described
from ...drivers.simulation.server import WINDOWS
from ...drivers.simulation.simulation import Figures, Lasting, Simulation
from ...edges.files import open_file
from ...errors import ConfigError
from .. import argument_types
from ..charts import frontier
from ..output import as_json, as_text
from ..parser import unknown_name_error
from ..progress.terminal import NARROWEST, is_terminal, size_of, style_for

USUAL_PACES = ("adaptive", "fixed 30s", "backoff 2s..10s x1.5", "backoff 5s..300s x2 jitter=full")
LARGEST_FILE = 64 * 1024 * 1024
PATIENCE_S, LOOK_EVERY = (
    1.0,
    1000,
)  # between two signs of life, and how many polls between looks at the clock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    group = parser.add_argument_group("the jobs")
    group.add_argument("--scenario", metavar="NAME", help="one of: " + ", ".join(SCENARIOS))
    group.add_argument(
        "--durations",
        metavar="D",
        help="'uniform 2m..15m', 'lognormal 5m x1.6', "
        "a FILE with a duration a line, used in order, or ledger:PATH: those of its jobs",
    )
    group.add_argument(
        "--jobs", metavar="N", type=_jobs, help="how many (default: 200, or all that are listed)"
    )
    group.add_argument(
        "--arrive",
        metavar="A",
        help="burst, 'every 10m', 'over 1h' or 'poisson 40/m' (default: burst)",
    )
    group.add_argument(
        "--warm-up",
        metavar="N",
        type=_count,
        default=0,
        help="leave the first N out of the figures",
    )
    group.add_argument(
        "--timeout",
        metavar="D",
        type=_timeout,
        help="how long to wait for a job: 90s, 10m, or never (the default)",
    )
    group = parser.add_argument_group("the server")
    group.add_argument("--limit", metavar="L", help="60/m, '10/s burst 20', or none")
    group.add_argument(
        "--window",
        choices=WINDOWS,
        default="fixed",
        help="how it counts: in fixed windows (the default), or as a token bucket",
    )
    group.add_argument(
        "--unknown-limit",
        action="store_true",
        help="the poller is not told the limit: it finds out",
    )
    group.add_argument(
        "--timestamps", action="store_true", help="replies say when a job began and ended"
    )
    group.add_argument(
        "--latency", metavar="D", default="0s", help="how long an exchange takes (default: 0s)"
    )
    group.add_argument(
        "--fault-rate",
        metavar="R",
        type=_rate,
        default=0.0,
        help="the share of requests that are answered with a 500: 0.02, 2%% (default: 0)",
    )
    group = parser.add_argument_group("the poller")
    group.add_argument(
        "--pace",
        metavar="SPEC",
        action="append",
        type=_pace,
        help="a pace to compare; may be repeated (default: %s)"
        % ", ".join("'%s'" % pace for pace in USUAL_PACES),
    )
    group.add_argument(
        "--workers",
        metavar="N",
        type=argument_types.count,
        default=8,
        help="requests under way at once (default: 8)",
    )
    group.add_argument(
        "--price",
        metavar="D",
        default="1s",
        help="what one poll is worth, in time of delay (default: 1s)",
    )
    group = parser.add_argument_group("output")
    group.add_argument(
        "--seed", metavar="N", type=int, default=1, help="other numbers, other chance (default: 1)"
    )
    group.add_argument("--json", action="store_true", help="the figures as one line of JSON")
    group.add_argument(
        "--svg",
        metavar="FILE",
        type=argument_types.path,
        help="draw the frontier, and the requests per minute",
    )


def run(arguments: argparse.Namespace) -> int:
    """Simulate each pace, and print what came of it."""
    if arguments.scenario is None and arguments.durations is None:
        raise ConfigError(
            "which jobs? Give --scenario NAME (%s) or --durations" % ", ".join(SCENARIOS)
        )
    if arguments.scenario is not None and arguments.scenario not in SCENARIOS:
        raise ConfigError(
            unknown_name_error("scenario", arguments.scenario, list(SCENARIOS))
            + "; there is "
            + ", ".join(SCENARIOS)
        )
    if arguments.svg is not None:
        _check_writable(arguments.svg)
    simulation = Simulation(
        arguments.scenario,
        None if arguments.durations is None else _durations(arguments.durations),
        arguments.jobs,
        arguments.arrive,
        arguments.limit,
        arguments.window,
        arguments.warm_up,
        arguments.timestamps,
        arguments.price,
        arguments.seed,
        arguments.timeout,
        arguments.workers,
        arguments.latency,
        arguments.fault_rate,
        not arguments.unknown_limit,
    )
    with _SignOfLife() as sign:
        found = [simulation.run(pace, sign.on_poll) for pace in arguments.pace or USUAL_PACES]
        pairs = [] if arguments.pace else _matched(simulation, found[0], found[1:], sign)
    # One price may match several rivals, and be the price that adaptive had anyway.
    matched = list({one.pace: one for one, _ in pairs if one.pace != found[0].pace}.values())
    shown = found + matched
    if arguments.svg is not None:
        from ..charts.picture import draw_svg

        _write(arguments.svg, draw_svg(simulation, found, matched))
    if arguments.json:
        sys.stdout.write(
            as_json(
                {
                    "scenario": simulation.name,
                    "jobs": simulation.count,
                    "paces": [one.as_dict() for one in shown],
                }
            )
        )
        return 0
    width, style = _width(), style_for(sys.stdout, os.environ)
    sentences = frontier.recommendation(found, simulation.limit, _given_up(arguments, found), width)
    sys.stdout.write(
        as_text(
            "%s\n\n%s\n%s\n%s"
            % (
                _headline(simulation, width),
                frontier.table(shown, simulation.optimum),
                frontier.chart(
                    shown,
                    simulation.optimum,
                    [best for _, best in simulation.frontier],
                    style.unicode,
                    width,
                ),
                (sentences + frontier.comparison(pairs, width)).rstrip("\n"),
            )
        )
    )
    return 0


def _width() -> int:
    """Columns to write in: those of the terminal, where it is narrower than what is usual."""
    columns = os.environ.get("COLUMNS", "")
    width = int(columns[:6]) if columns.isdecimal() else 0
    return min(frontier.WIDTH, max(NARROWEST, width or size_of(sys.stdout).columns) - 1)


def _given_up(arguments: argparse.Namespace, found: List[Figures]) -> List[str]:
    """Why jobs may have been given up, of what was asked for."""
    has_attempts = any(isinstance(one.pace, Fixed) and one.pace.attempts for one in found)
    causes = [
        (
            arguments.timeout is not None,
            "the timeout is too short for these jobs (try a longer --timeout)",
        ),
        (has_attempts, "the attempts are too few (try more attempts=)"),
        (
            arguments.fault_rate,
            "there are too many faults in a row (batch and run have --max-faults)",
        ),
    ]
    return [words for is_cause, words in causes if is_cause]


class _SignOfLife:
    """A line on a terminal, for who waits: so many polls were simulated. It is gone at the end."""

    def __init__(self) -> None:
        self._polls, self._shown, self._next_at = 0, "", time.monotonic() + PATIENCE_S
        self.on_poll = self._count if is_terminal(sys.stderr) else None

    def __enter__(self) -> "_SignOfLife":
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            self._write("\r%s\r" % (" " * len(self._shown)))

    def _count(self, at: float, job_id: str) -> None:
        self._polls += 1
        if self._polls % LOOK_EVERY == 0 and time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + PATIENCE_S
            self._shown = "{:,} polls simulated".format(self._polls)
            self._write("\r" + self._shown)

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            pass  # a terminal that is gone: the figures matter


def _matched(
    simulation: Simulation, adaptive: Figures, rivals: List[Figures], sign: _SignOfLife
) -> List[Tuple[Figures, Figures]]:
    """Adaptive with as many polls as each rival that is not worse in both respects already."""
    pairs = []
    for rival in rivals:
        if (
            rival.mean is not None
            and adaptive.mean is not None
            and not (adaptive.polls_per_job <= rival.polls_per_job and adaptive.mean <= rival.mean)
        ):
            found = simulation.matched(rival, sign.on_poll)
            pairs += [] if found is None else [(found, rival)]
    return pairs


def _headline(simulation: Simulation, width: int) -> str:
    """What was simulated."""
    name = simulation.name
    about = (
        SCENARIOS[name].about + "; " + described(simulation.spreads) if name in SCENARIOS else ""
    )
    parts = [
        simulation.arrive if simulation.arrive != "burst" else "all at once",
        "no limit" if simulation.limit is None else "limit %s" % (simulation.limit,),
        "a poll is worth %s" % duration_text(simulation.price),
        "seed %d" % simulation.seed,
    ]
    if simulation.warm_up:
        parts.insert(0, "the first %d not counted" % simulation.warm_up)
    jobs = "1 job" if simulation.count == 1 else "%d jobs" % simulation.count
    return fill(
        "%s%s: %s, %s." % (name, " (%s)" % about if about else "", jobs, ", ".join(parts)), width
    )


def _durations(text: str) -> Union[Lasting, Dict[str, Lasting]]:
    """A spread as it is written, from the lines of a file, or from a ledger."""
    if text.startswith("ledger:"):
        return _from_ledger(text[len("ledger:") :])
    if text.lower().split()[:1] in (["uniform"], ["lognormal"]):
        return parse_distribution(text)
    try:
        with open(text and argument_types.path(text), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            "durations %r: write 'uniform 2m..15m' or 'lognormal 5m x1.6', or name a file that can be "
            "read (%s), or ledger:PATH" % (text, what)
        ) from None
    if len(data) > LARGEST_FILE:
        raise ConfigError("%s is too large for a list of durations" % text)
    durations = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        line = line.strip("\ufeff \t")
        if line and not line.startswith("#"):
            try:
                durations.append(to_seconds(line))
            except ConfigError as error:
                raise ConfigError("%s:%d: %s" % (text, number, error)) from None
    return Measured.from_durations(durations, one_line(text))


def _from_ledger(path: str) -> Dict[str, Lasting]:
    """How long the jobs of a ledger took, each kind by itself, as a run would learn it."""
    if not path:
        raise ConfigError("ledger: the name of the ledger's file is missing: write ledger:PATH")
    from ...edges.ledger.ledger import Ledger  # late: it takes sqlite3

    with Ledger(argument_types.path(path), create=False) as ledger:
        durations = ledger.statistics.durations_by_kind()
    kinds = {kind: found for kind, found in durations.items() if max(found)[1] > 0.0}
    if not kinds:
        raise ConfigError("%s has no durations yet: no job in it was seen to end" % path)
    name = one_line(
        "ledger:%s%s" % (path, ", %d kinds of jobs" % len(kinds) if len(kinds) > 1 else "")
    )
    return {
        ":".join(filter(None, kind)): Measured.from_durations(
            [point_between(least_s, most_s, i + 1) for i, (least_s, most_s) in enumerate(found)],
            name,
        )
        for kind, found in kinds.items()
    }


def _check_writable(path: str) -> None:
    """Before minutes are spent on what could not be written."""
    folder = os.path.dirname(path) or "."
    if path == "-":
        raise ConfigError("--svg - is no file, and stdout has the figures: name one, f.svg say")
    # A pipe that nobody reads would never be opened.
    is_odd = os.path.exists(path) and not os.path.isfile(path)
    if (
        is_odd
        or not os.path.isdir(folder)
        or not os.access(path if os.path.exists(path) else folder, os.W_OK)
    ):
        raise ConfigError(
            "--svg %r can't be written: is it an ordinary file, in a folder that exists and is yours?"
            % path
        )


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8", errors="replace", opener=_opener) as file:
            file.write(text)
    except OSError as error:
        raise ConfigError("--svg %r can't be written: %s" % (path, error.strerror)) from None


def _opener(path: str, flags: int) -> int:
    return open_file(path, flags, 0o666)


def _jobs(text: str) -> int:
    return _whole(text, 1, MOST_JOBS)


def _count(text: str) -> int:
    return _whole(text, 0, MOST_JOBS)


def _whole(text: str, least: int, most: int) -> int:
    if not text.isdecimal() or not least <= int(text[:12]) <= most:
        raise argparse.ArgumentTypeError(
            "%r is not a whole number from %d to %d" % (text, least, most)
        )
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        rate = -1.0
    if not 0.0 <= rate < 1.0:
        raise argparse.ArgumentTypeError("%r is not a share: write 0.02 or 2%%" % text)
    return rate


def _timeout(text: str) -> Optional[str]:
    return None if text.lower() == "never" else text


def _pace(text: str) -> str:
    """The text, if it is a pace's."""
    try:
        to_pace(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text
