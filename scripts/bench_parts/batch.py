"""Many jobs at once: what a poll and an outstanding job cost, and how late polls are."""

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from . import common
from .common import Options, Results, Spread, Trouble
from .job_api import Api, serving

SCHEMES = ["http", "https"]
AT_ONCE = [2, 16]
POLLERS = ["pollkit", "aiohttp", "requests", "urllib"]
# pollkit's polls per CPU-second, as a multiple of the peer's
POLL_GOALS: Dict[Tuple[int, str], float] = {
    (16, "requests"): 5,
    (16, "aiohttp"): 1,
    (2, "aiohttp"): 1.5,
}

KEEPERS = ["pollkit", "pollkit adaptive", "aiohttp", "aiohttp wait_for"]
OUTSTANDING = [10000, 100000]
THREADS = 1000  # a thread a job does not go much further
MOST_BYTES = 1024.0  # pollkit's goal, a job

TIMED = ["pollkit", "aiohttp", "bare sleep"]
MOST_LATER_MS = 20.0  # pollkit's goal for the 99th percentile, beyond that of a bare sleep
LATENESS_ROUNDS = 3  # at most: each takes long enough


class Case(NamedTuple):
    """What one child measures: `size` is exchanges at once, or jobs."""

    kind: str
    scheme: str
    size: int
    client: str


Round = Dict[Case, Results]


class Row(NamedTuple):
    """One case. `compared` is how pollkit stands, round by round: a ratio, bytes, or milliseconds more."""

    case: Case
    values: Dict[str, Spread]
    compared: Spread
    goal: Optional[float]

    @property
    def reached(self) -> Optional[bool]:
        if self.goal is None:
            return None
        return (
            self.compared.median >= self.goal
            if self.case.kind == "polls"
            else self.compared.median <= self.goal
        )


def run(options: Options) -> Results:
    """many jobs: polls per CPU-second, memory per outstanding job, lateness of polls."""
    python = common.peers_python()
    versions = common.in_child(python, "clients", ["versions"], timeout=60)
    is_quick = options.seconds < 1  # for trying out: the long cases are left out or cut short
    with serving() as api:
        others = common.Others(api.pid)
        rounds = [
            _round(python, api, options, number, is_quick) for number in range(options.rounds)
        ]
        disturbed = others.processors()
    rows = [
        _row(case, [measured for measured in rounds if case in measured])
        for case in _order(rounds[0])
    ]
    results = _results(options, versions, disturbed, rows)
    _show(results, rows)
    return results


def _order(cases: Iterable[Case]) -> List[Case]:
    """As the tables have them, however they were measured."""
    clients = {"polls": POLLERS, "memory": KEEPERS + ["threads"], "lateness": TIMED}
    return sorted(
        cases,
        key=lambda case: (
            list(clients).index(case.kind),
            case.scheme,
            case.client == "threads",
            case.size,
            clients[case.kind].index(case.client),
        ),
    )


def _round(python: str, api: Api, options: Options, number: int, is_quick: bool) -> Round:
    """Every case once. The clients of one case follow each other at once, each round another first."""
    common.say("round {} of {}".format(number + 1, options.rounds))
    measured: Round = {}

    def measure(case: Case, *arguments: object) -> None:
        base = api.https if case.scheme == "https" else api.http
        measured[case] = common.in_child(
            python,
            "batch_clients",
            (case.kind, case.client, base) + arguments,
            timeout=300 + 10 * options.seconds,
        )

    for scheme in SCHEMES:
        for at_once in AT_ONCE:
            for client in _turned(POLLERS, number):
                measure(
                    Case("polls", scheme, at_once, client), api.ca_file, at_once, options.seconds
                )
    if number < LATENESS_ROUNDS:
        for client in _turned(TIMED, number):
            measure(Case("lateness", "http", 1000, client), 4 * options.seconds)
        measure(Case("memory", "http", THREADS, "threads"), THREADS)
        for jobs in OUTSTANDING:
            if jobs == OUTSTANDING[0] or (
                number == 0 and not is_quick
            ):  # of many, memory differs little by round
                for client in KEEPERS:
                    measure(Case("memory", "http", jobs, client), jobs)
    return measured


def _turned(clients: List[str], number: int) -> List[str]:
    turn = number % len(clients)
    return clients[turn:] + clients[:turn]


def _row(case: Case, rounds: List[Round]) -> Row:
    def spread(value: Callable[[Round], float]) -> Spread:
        return Spread.of([value(measured) for measured in rounds])

    if case.kind == "polls":
        own = case._replace(client="pollkit")
        return Row(
            case,
            {
                "per_cpu_s": spread(lambda measured: _per_cpu_s(measured[case])),
                "per_s": spread(
                    lambda measured: measured[case]["polls"] / measured[case]["wall_s"]
                ),
            },
            # Within a round, so that what slows the machine for a while slows both.
            spread(lambda measured: _per_cpu_s(measured[own]) / _per_cpu_s(measured[case])),
            POLL_GOALS.get((case.size, case.client)),
        )
    if case.kind == "memory":
        grown = spread(lambda measured: measured[case]["bytes_per_job"])
        return Row(
            case,
            {"bytes_per_job": grown},
            grown,
            MOST_BYTES if case.client.startswith("pollkit") else None,
        )
    bare = case._replace(client="bare sleep")
    values = {
        name: spread(lambda measured, name=name: measured[case][name])  # type: ignore[misc]
        for name in ("p50_ms", "p99_ms", "polls_per_s")
    }
    return Row(
        case,
        values,
        spread(lambda measured: measured[case]["p99_ms"] - measured[bare]["p99_ms"]),
        MOST_LATER_MS if case.client == "pollkit" else None,
    )


def _per_cpu_s(measured: Results) -> float:
    if not measured["cpu_s"]:
        raise Trouble("this machine's CPU clock is too coarse for so short a round")
    return float(measured["polls"] / measured["cpu_s"])


def _results(
    options: Options, versions: Results, disturbed: Optional[float], rows: List[Row]
) -> Results:
    return {
        "benchmark": "batch",
        "machine": dict(common.machine(), others_processors=disturbed),
        "versions": versions,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "cases": [
            dict(
                row.case._asdict(),
                **{name: spread._asdict() for name, spread in row.values.items()},
                compared=row.compared._asdict(),
                goal=row.goal,
                reached=row.reached,
            )
            for row in rows
        ],
    }


def _show(results: Results, rows: List[Row]) -> None:
    machine, versions = results["machine"], results["versions"]
    print("Many jobs on a job API on loopback, all of them running; the server is another process.")
    print("{python}, {openssl}, {system}, {cpus} x {cpu}".format(**machine))
    print(
        "pollkit {pollkit}, requests {requests}, aiohttp {aiohttp} with its {aiohttp_parser} parser".format(
            **versions
        )
    )
    print(
        "Median of {} rounds of {:g} s, each in a fresh process, in turn (least..most)".format(
            results["rounds"], results["seconds"]
        )
    )
    if machine["others_processors"] is not None:
        print(
            "Other programs kept {:.2f} of {} processors busy meanwhile: the more, the less this says".format(
                machine["others_processors"], machine["cpus"]
            )
        )

    print(
        "\nPolls per CPU-second of the client's process, 500 jobs outstanding, each due 10 ms after its last poll."
    )
    print(
        "pollkit's BatchPoller with so many workers; aiohttp with a task a job and a semaphore; requests and"
    )
    print(
        "urllib with so many threads and a queue (a Session a thread; urllib keeps no connection open).\n"
    )
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
        [_poll_cells(row) for row in rows if row.case.kind == "polls"],
    )

    print(
        "\nMemory per outstanding job: what the process's resident size grew by at its peak. pollkit's `run` has"
    )
    print(
        "polled each job once; the tasks and threads of the others only wait, which is in their favour."
    )
    print("At most {} rounds, of 100,000 jobs one.\n".format(LATENESS_ROUNDS))
    common.print_table(
        [">jobs", "client", ">bytes/job", "", "goal"],
        [_memory_cells(row) for row in rows if row.case.kind == "memory"],
    )

    print(
        "\nLateness at 500 polls/s, 1000 jobs every 2 s: from the instant a poll was due to the end of its exchange."
    )
    print(
        "A bare time.sleep to a deadline every 2 ms has no exchange: it shows what this machine allows just now."
    )
    print("At most {} rounds of {:g} s.\n".format(LATENESS_ROUNDS, 4 * results["seconds"]))
    common.print_table(
        ["client", ">polls/s", ">p50 ms", ">p99 ms", "", ">p99 beyond sleep's", "", "goal"],
        [_lateness_cells(row) for row in rows if row.case.kind == "lateness"],
    )
    goals = [row for row in rows if row.reached is not None]
    print("\n{} of {} goals reached".format(sum(1 for row in goals if row.reached), len(goals)))


def _range(spread: Spread, form: str) -> str:
    return "({}..{})".format(form.format(spread.least), form.format(spread.most))


def _goal(row: Row, form: str) -> str:
    return (
        ""
        if row.goal is None
        else "{}: {}".format(form.format(row.goal), "reached" if row.reached else "NOT reached")
    )


def _poll_cells(row: Row) -> List[str]:
    per_cpu_s = row.values["per_cpu_s"]
    cells = [
        row.case.scheme,
        str(row.case.size),
        row.case.client,
        "{:,.0f}".format(per_cpu_s.median),
        _range(per_cpu_s, "{:,.0f}"),
        "{:.1f}".format(1e6 / per_cpu_s.median),
        "{:,.0f}".format(row.values["per_s"].median),
    ]
    if row.case.client == "pollkit":
        return cells + ["", "", ""]
    goal = _goal(row, "{:g}x") or ("slower" if row.compared.median < 1 else "")
    return cells + ["{:.2f}x".format(row.compared.median), _range(row.compared, "{:.2f}"), goal]


def _memory_cells(row: Row) -> List[str]:
    client = "threads, one a job" if row.case.client == "threads" else row.case.client
    return [
        "{:,}".format(row.case.size),
        client,
        "{:,.0f}".format(row.compared.median),
        _range(row.compared, "{:,.0f}"),
        _goal(row, "<= {:g}"),
    ]


def _lateness_cells(row: Row) -> List[str]:
    cells = [
        row.case.client,
        "{:.0f}".format(row.values["polls_per_s"].median),
        "{:.2f}".format(row.values["p50_ms"].median),
        "{:.2f}".format(row.values["p99_ms"].median),
        _range(row.values["p99_ms"], "{:.2f}"),
    ]
    if row.case.client == "bare sleep":
        return cells + ["", "", ""]
    return cells + [
        "{:+.2f} ms".format(row.compared.median),
        _range(row.compared, "{:+.2f}"),
        _goal(row, "<= +{:g} ms"),
    ]
