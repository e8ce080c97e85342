"""Many jobs at once: the cost of a poll and of a pending job, and how late polls are."""

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from . import common
from .common import Options, OtherLoad, Results, Summary
from .job_api import Api, run_job_api
from .transport import HEADS, SCHEMES, polls_per_cpu_s

AT_ONCE = [2, 16]
POLLING_CLIENTS = ["pollkit", "aiohttp", "requests", "urllib"]
# pollkit's polls per CPU-second, as a multiple of the peer's, by polls at once and client.
POLL_GOALS: Dict[Tuple[int, str], float] = {
    (16, "requests"): 5,
    (16, "aiohttp"): 1,
    (2, "aiohttp"): 1.5,
}

MEMORY_CLIENTS = ["pollkit", "pollkit adaptive", "aiohttp", "aiohttp wait_for"]
PENDING_JOBS = [10000, 100000]
THREADS = 1000  # one thread per job does not work for many more
MOST_BYTES = 1024.0  # pollkit's goal per job

TIMED_CLIENTS = ["pollkit", "aiohttp", "bare sleep"]
MOST_LATER_MS = 20.0  # pollkit's goal for the 99th percentile, beyond that of a bare sleep
LATENESS_ROUNDS = 3  # at most, because each takes long

EXPLANATION = """\
Many jobs, all pending, on a job API on loopback; the server is another process."""
POLLS_EXPLANATION = """
Polls per CPU-second of the client's process, with 500 pending jobs, each due 10 ms after its last
poll. pollkit: a BatchPoller with so many workers. aiohttp: one task per job, and a semaphore.
requests and urllib: so many threads with a queue (one Session per thread; urllib keeps no
connection open).
"""
MEMORY_EXPLANATION = """
Memory per pending job: the growth of the process's resident size at its peak. pollkit has polled
each job once; the tasks and threads of the others have not polled yet, which is in their favour.
At most {} rounds; with 100,000 jobs only one.
"""
LATENESS_EXPLANATION = """
Lateness at 500 polls/s (1000 jobs every 2 s): from the instant a poll was due to the end of its
exchange. A bare time.sleep until a deadline every 2 ms has no exchange: it shows how precise this
machine is at the moment. At most {} rounds of {:g} s.
"""


class Case(NamedTuple):
    """What one child process measures; `size` is the polls at once, or the number of jobs."""

    kind: str
    scheme: str
    size: int
    client: str


Round = Dict[Case, Results]


class Row(NamedTuple):
    """The results of one case. `compared` is the figure that has a goal, within each round.

    For polls it is pollkit's multiple; for memory the bytes per job; for lateness the
    milliseconds beyond a bare sleep.
    """

    case: Case
    values: Dict[str, Summary]
    compared: Summary
    goal: Optional[float]

    @property
    def reached(self) -> Optional[bool]:
        """Whether the goal was reached; None if there is none."""
        if self.goal is None:
            return None
        if self.case.kind == "polls":
            return self.compared.median >= self.goal
        return self.compared.median <= self.goal


def run(options: Options) -> Results:
    """many jobs: polls per CPU-second, memory per pending job, lateness of polls."""
    python = common.prepare_peers()
    versions = common.run_module(python, "clients", ["versions"], timeout=60)
    with run_job_api() as api:
        load = OtherLoad(api.pid)
        rounds = [_run_round(python, api, options, i) for i in range(options.rounds)]
        machine = common.describe_machine(load)
    rows = [
        _row(case, [results for results in rounds if case in results])
        for case in _sort_cases(rounds[0])
    ]
    _show(options, machine, versions, rows)
    return {
        "benchmark": "batch",
        "machine": machine,
        "versions": versions,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "cases": [
            dict(
                row.case._asdict(),
                **{name: summary._asdict() for name, summary in row.values.items()},
                compared=row.compared._asdict(),
                goal=row.goal,
                reached=row.reached,
            )
            for row in rows
        ],
    }


def _sort_cases(cases: Iterable[Case]) -> List[Case]:
    """The cases in the order of the tables."""
    clients = {
        "polls": POLLING_CLIENTS,
        "memory": MEMORY_CLIENTS + ["threads"],
        "lateness": TIMED_CLIENTS,
    }
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


def _run_round(python: str, api: Api, options: Options, index: int) -> Round:
    """Run every case once; each round begins with another client."""
    common.log("round {} of {}".format(index + 1, options.rounds))
    results: Round = {}

    def measure(case: Case, *arguments: object) -> None:
        base = api.https if case.scheme == "https" else api.http
        results[case] = common.run_module(
            python,
            "batch_clients",
            (case.kind, case.client, base) + arguments,
            timeout=300 + 10 * options.seconds,
        )

    for scheme in SCHEMES:
        for at_once in AT_ONCE:
            for client in _rotate(POLLING_CLIENTS, index):
                case = Case("polls", scheme, at_once, client)
                measure(case, api.ca_file, at_once, options.seconds)
    if index < LATENESS_ROUNDS:
        for client in _rotate(TIMED_CLIENTS, index):
            measure(Case("lateness", "http", 1000, client), 4 * options.seconds)
        measure(Case("memory", "http", THREADS, "threads"), THREADS)
        # The memory of many jobs differs little between rounds, so one is enough.
        sizes = PENDING_JOBS if index == 0 and not options.is_quick else PENDING_JOBS[:1]
        for jobs in sizes:
            for client in MEMORY_CLIENTS:
                measure(Case("memory", "http", jobs, client), jobs)
    return results


def _rotate(clients: List[str], index: int) -> List[str]:
    start = index % len(clients)
    return clients[start:] + clients[:start]


def _row(case: Case, rounds: List[Round]) -> Row:
    def summarise(value: Callable[[Round], float]) -> Summary:
        return Summary.from_values([value(results) for results in rounds])

    def summarise_field(name: str) -> Summary:
        return summarise(lambda results: float(results[case][name]))

    if case.kind == "polls":
        pollkit = case._replace(client="pollkit")
        values = {
            "per_cpu_s": summarise(lambda results: polls_per_cpu_s(results[case])),
            "per_s": summarise(lambda results: results[case]["polls"] / results[case]["wall_s"]),
        }
        # Within each round, so that a temporary slowdown of the machine affects both.
        ratio = summarise(
            lambda results: polls_per_cpu_s(results[pollkit]) / polls_per_cpu_s(results[case])
        )
        return Row(case, values, ratio, POLL_GOALS.get((case.size, case.client)))
    if case.kind == "memory":
        growth = summarise_field("bytes_per_job")
        goal = MOST_BYTES if case.client.startswith("pollkit") else None
        return Row(case, {"bytes_per_job": growth}, growth, goal)
    bare = case._replace(client="bare sleep")
    values = {name: summarise_field(name) for name in ("p50_ms", "p99_ms", "polls_per_s")}
    later = summarise(lambda results: results[case]["p99_ms"] - results[bare]["p99_ms"])
    return Row(case, values, later, MOST_LATER_MS if case.client == "pollkit" else None)


def _show(options: Options, machine: Results, versions: Results, rows: List[Row]) -> None:
    print(EXPLANATION)
    print(
        "Median of {} rounds of {:g} s, each in a new process, the clients in turn "
        "(least..most)".format(options.rounds, options.seconds)
    )
    common.print_machine(machine, versions)
    print(POLLS_EXPLANATION)
    common.print_table(HEADS, [_poll_cells(row) for row in rows if row.case.kind == "polls"])
    print(MEMORY_EXPLANATION.format(LATENESS_ROUNDS))
    common.print_table(
        [">jobs", "client", ">bytes/job", "", "goal"],
        [_memory_cells(row) for row in rows if row.case.kind == "memory"],
    )
    print(LATENESS_EXPLANATION.format(LATENESS_ROUNDS, 4 * options.seconds))
    common.print_table(
        ["client", ">polls/s", ">p50 ms", ">p99 ms", "", ">p99 beyond sleep's", "", "goal"],
        [_lateness_cells(row) for row in rows if row.case.kind == "lateness"],
    )
    common.print_goals([row.reached for row in rows], machine)


def _goal_text(row: Row, form: str) -> str:
    return common.goal_text(form.format(row.goal or 0), row.reached)


def _poll_cells(row: Row) -> List[str]:
    per_cpu_s = row.values["per_cpu_s"]
    cells = [
        row.case.scheme,
        str(row.case.size),
        row.case.client,
        "{:,.0f}".format(per_cpu_s.median),
        per_cpu_s.range_text("{:,.0f}"),
        "{:.1f}".format(1e6 / per_cpu_s.median),
        "{:,.0f}".format(row.values["per_s"].median),
    ]
    if row.case.client == "pollkit":
        return cells + ["", "", ""]
    verdict = _goal_text(row, "{:g}x")
    if row.reached is None and row.compared.median < 1:
        verdict = "slower"
    ratio = row.compared
    return cells + ["{:.2f}x".format(ratio.median), ratio.range_text("{:.2f}"), verdict]


def _memory_cells(row: Row) -> List[str]:
    return [
        "{:,}".format(row.case.size),
        "one thread per job" if row.case.client == "threads" else row.case.client,
        "{:,.0f}".format(row.compared.median),
        row.compared.range_text("{:,.0f}"),
        _goal_text(row, "<= {:g}"),
    ]


def _lateness_cells(row: Row) -> List[str]:
    cells = [
        row.case.client,
        "{:.0f}".format(row.values["polls_per_s"].median),
        "{:.2f}".format(row.values["p50_ms"].median),
        "{:.2f}".format(row.values["p99_ms"].median),
        row.values["p99_ms"].range_text("{:.2f}"),
    ]
    if row.case.client == "bare sleep":
        return cells + ["", "", ""]
    return cells + [
        "{:+.2f} ms".format(row.compared.median),
        row.compared.range_text("{:+.2f}"),
        _goal_text(row, "<= +{:g} ms"),
    ]
