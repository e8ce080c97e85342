"""Processes that share a ledger: jobs claimed and settled per second, in SQLite and PostgreSQL.

The peers do the same number of claims in the same run, one at a time: huey with its SQLite storage
dequeues as many tasks and stores as many results; procrastinate fetches as many jobs from the same
PostgreSQL server and finishes them. pollkit claims 50 jobs with one call, and settles 100, as a run
does that has 100 workers or asks for lists; with fewer workers, it settles fewer at once.
PostgreSQL is durable: its data is on the disk, with fsync on.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from typing import Any, Dict, List, NamedTuple

from . import common
from .common import Failure, Options, Results, Summary

PROCESSES = (1, 2, 4, 8)
JOBS = 2000
MANY_JOBS = 1000000
LONGEST_CLAIM_S = 0.010

# Each waits for a line on stdin, then prints the seconds for each of the two phases, as JSON.
POLLKIT = """
import sys, time
from pollkit import Ledger, Profile
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.machine import observe
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.edges.ledger.records import PollResult
settings = WaitSettings()
with Ledger(sys.argv[1]) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    claims = []
    for portion in iter(lambda: ledger._leases.claim(50), []):
        claims += portion
    claimed = time.perf_counter()
    results = []
    for claim in claims:
        now = ledger.clock.now()
        state = claim.resume("https://api.internal/1", settings, now)
        state = observe(state, settings, Reading(Verdict.DONE, "", status="done"), now, 0.5)
        results.append(PollResult(claim, state, state.outcome(Profile(), 0.0)))
    for start in range(0, len(results), 100):
        assert all(ledger._leases.save(results[start : start + 100]))
    print([claimed - began, time.perf_counter() - claimed, len(claims)], flush=True)
"""
HUEY = """
import sys, time
from huey.storage import SqliteStorage
storage = SqliteStorage(filename=sys.argv[1], timeout=60)
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
tasks = list(iter(storage.dequeue, None))
claimed = time.perf_counter()
for task in tasks:
    storage.put_data(task, b"done")
print([claimed - began, time.perf_counter() - claimed, len(tasks)], flush=True)
"""
PROCRASTINATE_APP = """
import asyncio, logging, sys, time
import procrastinate
from procrastinate.jobs import Status
logging.getLogger("procrastinate").setLevel("ERROR")
connector = procrastinate.PsycopgConnector(conninfo=sys.argv[1], min_size=1, max_size=1)
app = procrastinate.App(connector=connector)
task = app.task(name="poll")(print)
"""
PROCRASTINATE = (
    PROCRASTINATE_APP
    + """
async def main():
    async with app.open_async():
        manager = app.job_manager
        worker = await manager.register_worker()
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        jobs = []
        while True:
            job = await manager.fetch_job(None, worker)
            if job is None:
                break
            jobs.append(job)
        claimed = time.perf_counter()
        for job in jobs:
            await manager.finish_job(job, Status.SUCCEEDED, delete_job=False)
        print([claimed - began, time.perf_counter() - claimed, len(jobs)], flush=True)
asyncio.run(main())
"""
)
FILL_PROCRASTINATE = (
    PROCRASTINATE_APP
    + """
async def main():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await task.batch_defer_async(*[{"number": i} for i in range(int(sys.argv[2]))])
asyncio.run(main())
"""
)
FILL = """
import sys
from pollkit import Ledger
with Ledger(sys.argv[1]) as ledger:
    ledger.add("job %d" % i for i in range(int(sys.argv[2])))
"""
FILL_HUEY = """
import sys
from huey.storage import SqliteStorage
storage = SqliteStorage(filename=sys.argv[1], timeout=60)
for i in range(int(sys.argv[2])):
    storage.enqueue(b"task %d" % i)
"""


# Claims portions of 50, then the same while a transaction holds back vacuum; seconds of each claim.
CLAIM = """
import sys, time
from pollkit import Ledger
from pollkit.edges.ledger.postgres.connection.drivers import load_driver
with Ledger(sys.argv[1]) as ledger, Ledger(sys.argv[1]) as other:
    def claim():
        began = time.perf_counter()
        claims = ledger._leases.claim(50, 600)
        assert len(claims) == 50
        return time.perf_counter() - began
    claim()
    print(*[claim() for _ in range(200)])
    reader = load_driver().connect(ledger._storage.database.address)
    cursor = reader.cursor()
    cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    cursor.execute("SELECT count(*) FROM pollkit.ledger")
    for _ in range(200):
        claim()
    print(*[claim() for _ in range(200)])
"""
FILL_MANY = """
INSERT INTO pollkit.job (id, url, profile, added_at)
SELECT 'job ' || i, 'https://api.internal/v1/jobs/' || i, 'knowhere', extract(epoch FROM now())
FROM generate_series(1, %d) AS i;
INSERT INTO pollkit.due (job, next_at, due_at)
SELECT key, added_at - 1e-3 * key, added_at - 1e-3 * key FROM pollkit.job
"""


class Rates(NamedTuple):
    """Jobs per second of some processes together."""

    claimed: float
    settled: float


def _measure(python: str, code: str, place: str, processes: int) -> Rates:
    """Let processes claim and settle all jobs of a ledger."""
    started = [
        subprocess.Popen(
            [python, "-c", code, place],
            env=common.child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )
        for _ in range(processes)
    ]
    for process in started:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise Failure("a process of the benchmark does not start")
    results = []
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        results.append(json.loads(process.communicate()[0]))
    jobs = sum(count for _, _, count in results)
    if jobs != JOBS:
        raise Failure("{} of {} jobs were claimed".format(jobs, JOBS))
    return Rates(jobs / max(each[0] for each in results), jobs / max(each[1] for each in results))


def _run(python: str, code: str, place: str) -> List[float]:
    """Run code that gets a place and a number of jobs; the numbers that it prints."""
    done = subprocess.run(
        [python, "-c", code, place, str(JOBS)],
        env=common.child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if done.returncode:
        raise Failure(done.stderr.decode("utf-8", "replace").strip().splitlines()[-1])
    return [float(word) for word in done.stdout.split()]


def run(options: Options) -> Results:
    """Print the rates, and the time of a claim among 1,000,000 jobs."""
    sys.path.insert(0, os.path.join(common.ROOT, "tests", "support"))
    postgres_server: Any = import_module("postgres_server")
    python = common.prepare_peers()
    figures: Dict[str, Dict[int, List[Rates]]] = {}
    has_server = postgres_server.find_binary("initdb") is not None
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        if has_server:
            server = postgres_server.PostgresServer(is_durable=True)
            stack.callback(server.remove)
        for number in range(options.rounds):
            common.log("processes: round {} of {}".format(number + 1, options.rounds))
            for processes in PROCESSES:
                path = os.path.join(folder, "%d-%d" % (number, processes))
                _run(python, FILL, path + ".db")
                rates = {"pollkit, SQLite": _measure(python, POLLKIT, path + ".db", processes)}
                if has_server:
                    url = server.new_database()
                    _run(python, FILL, url)
                    rates["pollkit, PostgreSQL"] = _measure(python, POLLKIT, url, processes)
                    url = server.new_database()
                    _run(python, FILL_PROCRASTINATE, url)
                    measured = _measure(python, PROCRASTINATE, url, processes)
                    rates["procrastinate, PostgreSQL"] = measured
                _run(python, FILL_HUEY, path + ".huey")
                rates["huey, SQLite"] = _measure(python, HUEY, path + ".huey", processes)
                for name, each in rates.items():
                    figures.setdefault(name, {}).setdefault(processes, []).append(each)
        _show(figures)
        results: Results = {
            name: {
                str(processes): {
                    "claimed_per_s": Summary.from_values([one.claimed for one in rates])._asdict(),
                    "settled_per_s": Summary.from_values([one.settled for one in rates])._asdict(),
                }
                for processes, rates in by_processes.items()
            }
            for name, by_processes in figures.items()
        }
        if has_server:
            results["claim_among_many_s"] = _claim_among_many(python, server)
        return results


def _claim_among_many(python: str, server: Any) -> Results:
    """Print and return the time of a claim of 50 jobs among 1,000,000 that are due."""
    common.log("creating {:,} jobs in PostgreSQL".format(MANY_JOBS))
    url = server.new_database()
    _run(python, "import sys, pollkit; pollkit.Ledger(sys.argv[1]).close()", url)
    server.execute(FILL_MANY % MANY_JOBS, url.rpartition("/")[2])
    seconds = _run(python, CLAIM, url)
    half = len(seconds) // 2
    results = {}
    cells = []
    cases = {"": seconds[:half], ", a REPEATABLE READ transaction open": seconds[half:]}
    for name, values in cases.items():
        summary = Summary.from_values(values)
        results["claim" + name] = summary._asdict()
        goal = common.goal_text("<= 10 ms", summary.median <= LONGEST_CLAIM_S)
        figures = "{:.1f} ms".format(1e3 * summary.median)
        most = "(at most {:.0f} ms)".format(1e3 * summary.most)
        cells.append(["claim 50 jobs" + name, figures, most, goal])
    print()
    print("PostgreSQL with {:,} jobs that are due.".format(MANY_JOBS))
    common.print_table(["", ">median", "", "goal"], cells)
    return results


def _show(figures: Dict[str, Dict[int, List[Rates]]]) -> None:
    print()
    print("Jobs per second that several processes claim, and then settle; {:,} jobs.".format(JOBS))
    cells = []
    for name, by_processes in figures.items():
        for what in ("claimed", "settled"):
            row = [name, what]
            for processes in PROCESSES:
                values = [getattr(rates, what) for rates in by_processes[processes]]
                row.append("{:,.0f}".format(Summary.from_values(values).median))
            cells.append(row)
    headings = [">{} processes".format(count) for count in PROCESSES]
    headings[0] = ">1 process"
    common.print_table(["", "", *headings], cells)
