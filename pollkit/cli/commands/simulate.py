"""Compare paces on a scenario in virtual time, beside the best that is possible.

Prints for each pace the polls per job, the delay between the end of a job and the poll that
noticed it, the number of 429 replies, and the cost: price x polls per job + mean notice delay, in
seconds. pollkit help simulate explains the scenarios, the figures and the optimum.

examples:
  pollkit simulate --scenario lipsync
  pollkit simulate --scenario models --arrive 'poisson 40/m' --jobs 500 --svg frontier.svg
  pollkit simulate --durations 'lognormal 5m x1.6' --limit 60/m --pace adaptive --pace 'fixed 10s'
  pollkit simulate --durations measured.txt --price 5s --json
  pollkit simulate --scenario lipsync --hold 25s
  pollkit simulate --durations history: --html paces.html
  pollkit simulate --durations ledger:/var/lib/jobs.db --arrive 'over 1d' --limit 60/m
"""

import argparse
import os
import sys
import time
from textwrap import fill
from typing import List, Optional, Tuple

from ...core.profiles.profile import to_pace
from ...core.units import duration_text
from ...core.waiting.pace import Fixed
from ...drivers.simulation.figures import Figures
from ...drivers.simulation.matching import match_adaptive
from ...drivers.simulation.scenarios import SCENARIOS, describe
from ...drivers.simulation.server import WINDOWS
from ...drivers.simulation.simulation import Simulation
from ...edges.files import is_sqlite_file, open_file
from ...errors import ConfigError
from ..arguments import argument_types
from ..arguments.parser import unknown_name_error
from ..charts import advice, frontier
from ..charts.table import table
from ..inputs.duration_lists import read_durations
from ..output.streams import as_json, as_text
from ..progress.terminal import NARROWEST, is_terminal, style_for, text_width

DEFAULT_PACES = ("adaptive", "fixed 30s", "backoff 2s..10s x1.5", "backoff 5s..300s x2 jitter=full")
REPORT_EVERY_S = 1.0
POLLS_PER_CLOCK_READING = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _add_job_arguments(parser.add_argument_group("the jobs"))
    _add_server_arguments(parser.add_argument_group("the server"))
    _add_poller_arguments(parser.add_argument_group("the poller"))
    group = parser.add_argument_group("output")
    group.add_argument(
        "--seed", metavar="N", type=int, default=1, help="seed for the random numbers (default: 1)"
    )
    group.add_argument("--json", action="store_true", help="print the figures as one line of JSON")
    group.add_argument(
        "--svg",
        metavar="FILE",
        type=argument_types.path,
        help="draw polls against delay, and the requests per minute",
    )
    group.add_argument(
        "--html",
        metavar="FILE",
        type=argument_types.path,
        help="write a page for a browser with the same charts and the figures",
    )


def _add_job_arguments(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--scenario", metavar="NAME", help="one of: " + ", ".join(SCENARIOS))
    group.add_argument(
        "--durations",
        metavar="D",
        help="'uniform 2m..15m', 'lognormal 5m x1.6', a FILE with one duration per line, "
        "used in order, ledger:PATH for those of its jobs, or history:PATH for those that wait "
        "and batch saved (history: for the usual file)",
    )
    group.add_argument(
        "--jobs",
        metavar="N",
        type=argument_types.count,
        help="number of jobs (default: 200, or as many as are listed)",
    )
    group.add_argument(
        "--arrive",
        metavar="A",
        help="burst, 'every 10m', 'over 1h' or 'poisson 40/m' (default: burst)",
    )
    group.add_argument(
        "--warm-up",
        metavar="N",
        type=int,
        default=0,
        help="leave the first N jobs out of the figures",
    )
    group.add_argument(
        "--timeout",
        metavar="D",
        type=_timeout,
        help="how long to wait for a job: 90s, 10m, or never (the default)",
    )


def _add_server_arguments(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--limit", metavar="L", help="60/m, '10/s burst 20', or none")
    group.add_argument(
        "--window",
        choices=WINDOWS,
        default="fixed",
        help="how it counts: in fixed windows (the default), or with a token bucket",
    )
    group.add_argument(
        "--unknown-limit",
        action="store_true",
        help="the poller does not know the limit and has to learn it",
    )
    group.add_argument(
        "--timestamps", action="store_true", help="replies state when a job started and finished"
    )
    group.add_argument(
        "--hold",
        metavar="D",
        help="how long it holds a poll until the job has finished: 25s (default: not at all)",
    )
    group.add_argument(
        "--latency", metavar="D", default="0s", help="how long an exchange takes (default: 0s)"
    )
    group.add_argument(
        "--fault-rate",
        metavar="R",
        type=_share,
        default=0.0,
        help="the share of requests that are answered with a 500: 0.02, 2%% (default: 0)",
    )


def _add_poller_arguments(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--pace",
        metavar="SPEC",
        action="append",
        type=_pace,
        help="a pace to compare; may be repeated (default: %s)"
        % ", ".join("'%s'" % pace for pace in DEFAULT_PACES),
    )
    group.add_argument(
        "--workers",
        metavar="N",
        type=argument_types.count,
        default=8,
        help="requests in flight at once (default: 8)",
    )
    group.add_argument(
        "--price", metavar="D", default="1s", help="how much delay one poll is worth (default: 1s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Simulate each pace, and print the results."""
    for flag in ("svg", "html"):
        _check_writable(flag, getattr(arguments, flag))
    if arguments.svg is not None and arguments.svg == arguments.html:
        raise ConfigError("--svg and --html name the same file: name two")
    simulation = _build_simulation(arguments)
    _check_limit_flags(arguments, simulation)
    with _PollCounter() as counter:
        paces = arguments.pace or DEFAULT_PACES
        found = [simulation.run(pace, counter.on_poll) for pace in paces]
        pairs = [] if arguments.pace else _match_rivals(simulation, found, counter)
    # One price may match several rivals, and may be the default price.
    matched = list({ours.pace: ours for ours, _ in pairs if ours.pace != found[0].pace}.values())
    causes = _give_up_causes(arguments, found)
    text = advice.recommend(found, simulation.limit, causes)
    _write_pictures(arguments, simulation, found, matched, text)
    shown = found + matched
    if arguments.json:
        figures = [one.as_dict() for one in shown]
        document = {"scenario": simulation.name, "jobs": simulation.count, "paces": figures}
        sys.stdout.write(as_json(document))
        return 0
    width = min(frontier.WIDTH, max(NARROWEST, text_width(sys.stdout)) - 1)
    parts = [
        _headline(simulation, width) + "\n",
        _table_and_chart(simulation, shown, width),
        advice.recommend(found, simulation.limit, causes, width)
        + advice.compare_matched(pairs, width),
    ]
    sys.stdout.write(as_text("\n".join(parts).rstrip("\n")))
    return 0


def _write_pictures(
    arguments: argparse.Namespace,
    simulation: Simulation,
    found: List[Figures],
    matched: List[Figures],
    text: str,
) -> None:
    if arguments.svg is not None:
        from ..charts.picture import draw_svg

        picture = draw_svg(simulation, found, matched)
        _write("svg", arguments.svg, picture.encode("utf-8", "replace"))
    if arguments.html is not None:
        from ..report.simulation_page import simulation_page

        _write("html", arguments.html, simulation_page(simulation, found, matched, text))


def _table_and_chart(simulation: Simulation, shown: List[Figures], width: int) -> str:
    is_unicode = style_for(sys.stdout, os.environ).unicode
    curve = frontier.Curve(simulation.optimum, [best for _, best in simulation.frontier])
    unheld = None
    if simulation.hold_s:
        optima = [best for _, best in simulation.unheld_frontier]
        unheld = frontier.Curve(simulation.unheld_optimum, optima)
    figures = table(shown, simulation.optimum, unheld and unheld.optimum)
    return figures + "\n" + frontier.chart(shown, curve, is_unicode, width, unheld)


def _build_simulation(arguments: argparse.Namespace) -> Simulation:
    scenario = arguments.scenario
    known = ", ".join(SCENARIOS)
    if scenario is None and arguments.durations is None:
        raise ConfigError("which jobs? Give --scenario NAME (%s) or --durations" % known)
    if scenario is not None and scenario not in SCENARIOS:
        error = unknown_name_error("scenario", scenario, list(SCENARIOS))
        raise ConfigError("%s; choose one of %s" % (error, known))
    return Simulation(
        scenario,
        None if arguments.durations is None else read_durations(arguments.durations),
        arguments.jobs,
        arguments.arrive,
        arguments.limit,
        window=arguments.window,
        warm_up=arguments.warm_up,
        timestamps=arguments.timestamps,
        price=arguments.price,
        seed=arguments.seed,
        timeout=arguments.timeout,
        workers=arguments.workers,
        latency=arguments.latency,
        fault_rate=arguments.fault_rate,
        knows_limit=not arguments.unknown_limit,
        hold=arguments.hold,
    )


def _check_limit_flags(arguments: argparse.Namespace, simulation: Simulation) -> None:
    """Raise a ConfigError about a flag that describes a limit if the server has none."""
    given = {"--unknown-limit": arguments.unknown_limit, "--window": arguments.window != "fixed"}
    for flag, is_given in given.items():
        if is_given and simulation.limit is None:
            raise ConfigError("%s has no effect without a limit: give --limit, too" % flag)


def _give_up_causes(arguments: argparse.Namespace, found: List[Figures]) -> List[str]:
    """The arguments that may have caused jobs to be given up, as advice."""
    causes = []
    if arguments.timeout is not None:
        causes.append("the timeout is too short for these jobs (try a longer --timeout)")
    if any(isinstance(one.pace, Fixed) and one.pace.attempts for one in found):
        causes.append("the attempts are too few (try more attempts=)")
    if arguments.fault_rate:
        causes.append("there are too many faults in a row (batch and run have --max-faults)")
    return causes


class _PollCounter:
    """Shows on a terminal how many polls have been simulated, and clears that line at the end."""

    def __init__(self) -> None:
        self._polls = 0
        self._shown = ""
        self._next_at = time.monotonic() + REPORT_EVERY_S
        self.on_poll = self._count if is_terminal(sys.stderr) else None

    def __enter__(self) -> "_PollCounter":
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            self._write("\r%s\r" % (" " * len(self._shown)))

    def _count(self, at: float, job_id: str) -> None:
        self._polls += 1
        if self._polls % POLLS_PER_CLOCK_READING == 0 and time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + REPORT_EVERY_S
            self._shown = "{:,} polls simulated".format(self._polls)
            self._write("\r" + self._shown)

    @staticmethod
    def _write(text: str) -> None:
        try:
            print(text, end="", file=sys.stderr, flush=True)
        except OSError:
            pass  # the terminal was closed; the simulation continues


def _match_rivals(
    simulation: Simulation, found: List[Figures], counter: _PollCounter
) -> List[Tuple[Figures, Figures]]:
    """Adaptive with as many polls as each rival, unless it already beats the rival in both."""
    adaptive = found[0]
    pairs = []
    for rival in found[1:]:
        if adaptive.mean is None or rival.mean is None:
            continue
        if adaptive.polls_per_job <= rival.polls_per_job and adaptive.mean <= rival.mean:
            continue
        matched = match_adaptive(simulation, rival, counter.on_poll)
        if matched is not None:
            pairs.append((matched, rival))
    return pairs


def _headline(simulation: Simulation, width: int) -> str:
    """The scenario in one sentence."""
    title = simulation.name
    if title in SCENARIOS:
        title += " (%s; %s)" % (SCENARIOS[title].about, describe(simulation.distributions))
    parts = ["1 job" if simulation.count == 1 else "%d jobs" % simulation.count]
    if simulation.warm_up:
        parts.append("the first %d not counted" % simulation.warm_up)
    parts += [
        "all at once" if simulation.arrive == "burst" else simulation.arrive,
        "no limit" if simulation.limit is None else "limit %s" % (simulation.limit,),
        "a poll is worth %s" % duration_text(simulation.price),
        "seed %d" % simulation.seed,
    ]
    if simulation.hold_s:
        parts.insert(-1, "polls are held for up to %s" % duration_text(simulation.hold_s))
    return fill("%s: %s." % (title, ", ".join(parts)), width)


def _check_writable(flag: str, path: Optional[str]) -> None:
    """Refuse a path that can't be written before minutes are spent on the simulation."""
    if path is None:
        return
    if path == "-":
        raise ConfigError(
            "--%s - is not a file, and stdout gets the figures: name one, as f.%s" % (flag, flag)
        )
    if os.path.exists(path):
        # Only ordinary files: opening a pipe without a reader would block forever.
        is_writable = os.path.isfile(path) and os.access(path, os.W_OK)
    else:
        directory = os.path.dirname(path) or "."
        is_writable = os.path.isdir(directory) and os.access(directory, os.W_OK)
    if not is_writable:
        raise ConfigError(
            "--%s %r can't be written: is it an ordinary file, in a directory that exists and is "
            "yours?" % (flag, path)
        )
    if is_sqlite_file(path):
        raise ConfigError(
            "--%s: %s is a ledger or another database: name another file" % (flag, path)
        )


def _write(flag: str, path: str, data: bytes) -> None:
    try:
        with open(path, "wb", opener=lambda name, flags: open_file(name, flags, 0o666)) as file:
            file.write(data)
    except OSError as error:
        raise ConfigError("--%s %r can't be written: %s" % (flag, path, error.strerror)) from None


def _share(text: str) -> float:
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share < 1.0:
        raise ConfigError("%r is not a share: write 0.02 or 2%%" % text)
    return share


def _timeout(text: str) -> Optional[str]:
    return None if text.lower() == "never" else text


def _pace(text: str) -> str:
    """The text of a pace, unchanged, if it is valid."""
    to_pace(text)
    return text
