"""The transport alone: how much CPU time one poll costs the client."""

from typing import Dict, List, NamedTuple, Optional, Tuple

from . import common
from .common import Failure, Options, OtherLoad, Results, Summary
from .job_api import Api, run_job_api

CLIENTS = ["pollkit", "pollkit 1 thread", "requests", "aiohttp", "http.client", "urllib"]
SCHEMES = ["http", "https"]
AT_ONCE = [1, 16]
# pollkit's polls per CPU-second, as a multiple of the peer's, by polls at once and client.
GOALS: Dict[Tuple[int, str], float] = {
    (1, "requests"): 8,
    (1, "aiohttp"): 2,
    (16, "requests"): 8,
    (16, "aiohttp"): 1.2,
}
HEADS = [
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
]
EXPLANATION = """\
Polls per CPU-second (user and system time) of the client's process; the server is another process.
Each poll gets a job's status on loopback and decodes the JSON. Connections are kept open, except
by urllib, which can't. With 16 polls at once each has its own thread, except that aiohttp and
'pollkit 1 thread' (as in a batch) use one thread for all; aiohttp is compared with the latter."""


class Case(NamedTuple):
    """One client under one condition."""

    scheme: str
    at_once: int
    client: str


class Row(NamedTuple):
    """The polls per second of one case, and pollkit's as a multiple of them, within each round."""

    case: Case
    per_cpu_s: Summary
    per_wall_s: Summary
    ratio: Summary
    goal: Optional[float]

    @property
    def reached(self) -> Optional[bool]:
        """Whether the goal was reached; None if there is none."""
        return None if self.goal is None else self.ratio.median >= self.goal


def run(options: Options) -> Results:
    """polls per CPU-second of pollkit, requests, aiohttp, http.client and urllib."""
    python = common.prepare_peers()
    versions = common.run_module(python, "clients", ["versions"], timeout=60)
    with run_job_api() as api:
        load = OtherLoad(api.pid)
        rounds = [_run_round(python, api, options, i) for i in range(options.rounds)]
        machine = common.describe_machine(load)
    rows = [
        _row(Case(scheme, at_once, client), rounds)
        for scheme in SCHEMES
        for at_once in AT_ONCE
        for client in CLIENTS
    ]
    _show(options, machine, versions, rows)
    return {
        "benchmark": "transport",
        "machine": machine,
        "quiet": common.is_quiet(machine),
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


def _run_round(python: str, api: Api, options: Options, index: int) -> Dict[Case, Results]:
    """Run every case once; each round begins with another client."""
    common.log("round {} of {}".format(index + 1, options.rounds))
    start = index % len(CLIENTS)
    results: Dict[Case, Results] = {}
    for scheme in SCHEMES:
        for at_once in AT_ONCE:
            for client in CLIENTS[start:] + CLIENTS[:start]:
                results[Case(scheme, at_once, client)] = common.run_module(
                    python,
                    "clients",
                    [client, api.url(scheme, "job_42"), api.ca_file, at_once, options.seconds],
                    timeout=60 + 10 * options.seconds,
                )
    return results


def polls_per_cpu_s(measured: Results) -> float:
    """The polls per CPU-second of one case in one round."""
    if not measured["cpu_s"]:
        raise Failure("this machine's CPU clock is too coarse for such a short round")
    return float(measured["polls"] / measured["cpu_s"])


def _row(case: Case, rounds: List[Dict[Case, Results]]) -> Row:
    is_like_batch = case.client == "aiohttp" and case.at_once > 1
    pollkit = case._replace(client="pollkit 1 thread" if is_like_batch else "pollkit")
    per_cpu_s = []
    per_wall_s = []
    ratios = []  # within each round, so that a temporary slowdown of the machine affects both
    for results in rounds:
        measured = results[case]
        per_cpu_s.append(polls_per_cpu_s(measured))
        per_wall_s.append(measured["polls"] / measured["wall_s"])
        ratios.append(polls_per_cpu_s(results[pollkit]) / polls_per_cpu_s(measured))
    return Row(
        case,
        Summary.from_values(per_cpu_s),
        Summary.from_values(per_wall_s),
        Summary.from_values(ratios),
        GOALS.get((case.at_once, case.client)),
    )


def _show(options: Options, machine: Results, versions: Results, rows: List[Row]) -> None:
    print(EXPLANATION)
    print(
        "Median of {} rounds of {:g} s, each in a new process, the clients in turn "
        "(least..most)".format(options.rounds, options.seconds)
    )
    common.print_machine(machine, versions)
    print()
    common.print_table(HEADS, [_cells(row) for row in rows])
    common.print_goals([row.reached for row in rows], machine)


def _cells(row: Row) -> List[str]:
    cells = [
        row.case.scheme,
        str(row.case.at_once),
        row.case.client,
        "{:,.0f}".format(row.per_cpu_s.median),
        row.per_cpu_s.range_text("{:,.0f}"),
        "{:.1f}".format(1e6 / row.per_cpu_s.median),
        "{:,.0f}".format(row.per_wall_s.median),
    ]
    if row.case.client == "pollkit":
        return cells + ["", "", ""]
    verdict = common.goal_text("{:g}x".format(row.goal or 0), row.reached)
    if row.reached is None and row.ratio.median < 1:
        verdict = "slower"
    return cells + ["{:.2f}x".format(row.ratio.median), row.ratio.range_text("{:.2f}"), verdict]
