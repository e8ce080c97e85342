"""The transport alone: what one poll costs the host that polls."""

from typing import Dict, List, NamedTuple, Optional, Tuple

from . import common
from .common import Options, Results, Spread, Trouble
from .job_api import Api, serving

CLIENTS = ["pollkit", "pollkit 1 thread", "requests", "aiohttp", "http.client", "urllib"]
SCHEMES = ["http", "https"]
AT_ONCE = [1, 16]
# pollkit's polls per CPU-second, as a multiple of the peer's
GOALS: Dict[Tuple[int, str], float] = {
    (1, "requests"): 8,
    (1, "aiohttp"): 2,
    (16, "requests"): 8,
    (16, "aiohttp"): 1.2,
}

QUIET = 0.25  # processors that other programs may keep busy


class Case(NamedTuple):
    scheme: str
    at_once: int
    client: str


class Row(NamedTuple):
    """One case: its polls per second, and what pollkit's were to them, round by round."""

    case: Case
    per_cpu_s: Spread
    per_wall_s: Spread
    ratio: Spread
    goal: Optional[float]

    @property
    def reached(self) -> Optional[bool]:
        return None if self.goal is None else self.ratio.median >= self.goal


def run(options: Options) -> Results:
    """polls per CPU-second of pollkit, requests, aiohttp, http.client and urllib."""
    python = common.peers_python()
    versions = common.in_child(python, "clients", ["versions"], timeout=60)
    with serving() as api:
        others = common.Others(api.pid)
        rounds = [
            _round(python, api, options.seconds, number, options.rounds)
            for number in range(options.rounds)
        ]
        disturbed = others.processors()
    rows = [
        _row(Case(scheme, at_once, client), rounds)
        for scheme in SCHEMES
        for at_once in AT_ONCE
        for client in CLIENTS
    ]
    results = _results(options, versions, disturbed, rows)
    _show(results, rows)
    return results


def _round(python: str, api: Api, seconds: float, number: int, of: int) -> Dict[Case, Results]:
    """Every case once. The clients of one case follow each other at once, each round another first."""
    common.say("round {} of {}".format(number + 1, of))
    turn = number % len(CLIENTS)
    order = CLIENTS[turn:] + CLIENTS[:turn]
    measured: Dict[Case, Results] = {}
    for scheme in SCHEMES:
        for at_once in AT_ONCE:
            for client in order:
                measured[Case(scheme, at_once, client)] = common.in_child(
                    python,
                    "clients",
                    [client, api.url(scheme, "job_42"), api.ca_file, at_once, seconds],
                    timeout=60 + 10 * seconds,
                )
    return measured


def _row(case: Case, rounds: List[Dict[Case, Results]]) -> Row:
    def per_cpu_s(measured: Results) -> float:
        if not measured["cpu_s"]:
            raise Trouble("this machine's CPU clock is too coarse for so short a round")
        return float(measured["polls"] / measured["cpu_s"])

    # aiohttp has one thread for all exchanges, as a batch of pollkit has; the others have a thread each.
    is_like_batch = case.client == "aiohttp" and case.at_once > 1
    own = case._replace(client="pollkit 1 thread" if is_like_batch else "pollkit")
    return Row(
        case,
        Spread.of([per_cpu_s(measured[case]) for measured in rounds]),
        Spread.of([measured[case]["polls"] / measured[case]["wall_s"] for measured in rounds]),
        # Within a round, so that what slows the machine for a while slows both.
        Spread.of([per_cpu_s(measured[own]) / per_cpu_s(measured[case]) for measured in rounds]),
        GOALS.get((case.at_once, case.client)),
    )


def _results(
    options: Options, versions: Results, disturbed: Optional[float], rows: List[Row]
) -> Results:
    return {
        "benchmark": "transport",
        "machine": dict(common.machine(), others_processors=disturbed),
        "quiet": disturbed is None or disturbed <= QUIET,
        "versions": versions,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "cases": [
            dict(
                row.case._asdict(),
                polls_per_cpu_s=row.per_cpu_s._asdict(),
                polls_per_s=row.per_wall_s._asdict(),
                pollkit_ratio=row.ratio._asdict(),
                goal=row.goal,
                reached=row.reached,
            )
            for row in rows
        ],
    }


def _show(results: Results, rows: List[Row]) -> None:
    machine, versions = results["machine"], results["versions"]
    print(
        "Polls per CPU-second of the client's process, user and system time; the server is another process."
    )
    print(
        "GET of a job's status on loopback, connections kept open (urllib can't), status and JSON decoded."
    )
    print("{python}, {openssl}, {system}, {cpus} x {cpu}".format(**machine))
    print(
        "pollkit {pollkit}, requests {requests}, aiohttp {aiohttp} with its {aiohttp_parser} parser".format(
            **versions
        )
    )
    print(
        "With 16 at once each has a thread per poll; only aiohttp and 'pollkit 1 thread' (a batch) have one for all,"
        "\nand aiohttp is compared with that."
    )
    print(
        "Median of {} rounds of {:g} s, each in a fresh process, in turn (least..most)".format(
            results["rounds"], results["seconds"]
        )
    )
    if machine["others_processors"] is not None:
        print(
            "Other programs kept {:.2f} of {} processors busy meanwhile".format(
                machine["others_processors"], machine["cpus"]
            )
        )
    print()
    common.print_table(
        [
            "scheme",
            ">at once",
            "client",
            ">polls/CPU-s",
            "",
            ">CPU us/poll",
            ">polls/s",
            ">pollkit is",
            "",
            "goal",
        ],
        [_cells(row) for row in rows],
    )
    goals = [row for row in rows if row.reached is not None]
    print("\n{} of {} goals reached".format(sum(1 for row in goals if row.reached), len(goals)))
    if not results["quiet"]:
        print(
            "Not to be quoted: the machine was not quiet. So far busy ones came out better for pollkit than quiet\n"
            "ones, perhaps because a processor that never sleeps is cheaper to wake up."
        )


def _cells(row: Row) -> List[str]:
    cells = [
        row.case.scheme,
        str(row.case.at_once),
        row.case.client,
        "{:,.0f}".format(row.per_cpu_s.median),
        "({:,.0f}..{:,.0f})".format(row.per_cpu_s.least, row.per_cpu_s.most),
        "{:.1f}".format(1e6 / row.per_cpu_s.median),
        "{:,.0f}".format(row.per_wall_s.median),
    ]
    if row.case.client == "pollkit":
        return cells + ["", "", ""]
    goal = ""
    if row.goal is not None:
        goal = "{:g}x: {}".format(row.goal, "reached" if row.reached else "NOT reached")
    elif row.ratio.median < 1:
        goal = "slower"
    return cells + [
        "{:.2f}x".format(row.ratio.median),
        "({:.2f}..{:.2f})".format(row.ratio.least, row.ratio.most),
        goal,
    ]
