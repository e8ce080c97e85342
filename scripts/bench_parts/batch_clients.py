"""One client polls many jobs: run as a module, in a new process, by the peers' Python.

Each client waits for the jobs as its documentation recommends: pollkit with a BatchPoller, aiohttp
with one task per job, the others with threads that share a queue. No client gets extra tuning. The
peers are imported by name in the functions that use them: only their environment has them.
"""

import asyncio
import gc
import importlib
import json
import math
import queue
import ssl
import sys
import threading
import time
import urllib.request
from typing import Any, Awaitable, Callable, Dict, List, NamedTuple, Optional, Sequence

JOBS = 500  # pending while polls are counted: enough that one is always due
PAUSE_S = 0.01  # between two polls of one job: the shortest that pollkit allows
WARM_UP_POLLS = 1000
LONG_S = 3600.0  # longer than the benchmark
# For the lateness: 500 polls per second.
EVERY_S = 2.0
TIMED_JOBS = 1000
TICK_S = EVERY_S / TIMED_JOBS


def job_url(api: str, job: str) -> str:
    return "{}/v1/jobs/{}".format(api, job)


def check(document: Any) -> None:
    if document["status"] != "running":
        raise RuntimeError("unexpected reply: {}".format(document))


def make_batch_poller(api: str, ca_file: Optional[str], pace: str, **settings: Any) -> Any:
    from pollkit import BatchPoller, Profile, TokenBucket

    profile = Profile(url=job_url(api, "{id}"), status="status", ca_file=ca_file)
    return BatchPoller(profile, pace=pace, bucket=TokenBucket(1e6, burst=1e6), **settings)


def check_all_pending(batch: Any, jobs: int) -> None:
    if batch.stats.faults or len(batch) != jobs:
        raise RuntimeError("some job is not pending: {}".format(batch.stats))


def make_aiohttp_session(ca_file: Optional[str]) -> Any:
    aiohttp = importlib.import_module("aiohttp")
    context = ssl.create_default_context(cafile=ca_file) if ca_file else True
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


async def cancel_all(tasks: "Sequence[asyncio.Future[None]]") -> None:
    """Cancel endless tasks; raise the exception of one that has failed."""
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# Polls per CPU-second


class Reading(NamedTuple):
    """The number of polls so far, and the clocks."""

    polls: int
    cpu_s: float
    wall_s: float

    @classmethod
    def now(cls, polls: int) -> "Reading":
        return cls(polls, time.process_time(), time.monotonic())

    def since(self, start: "Reading") -> Dict[str, float]:
        """The differences from an earlier reading."""
        return {name: getattr(self, name) - getattr(start, name) for name in self._fields}


def pollkit_polls(
    api: str, ca_file: Optional[str], at_once: int, seconds: float
) -> Dict[str, float]:
    batch = make_batch_poller(
        api, ca_file, "fixed {:.0f}ms".format(PAUSE_S * 1000), workers=at_once, timeout=None
    )
    for i in range(JOBS):
        batch.submit("job_{}".format(i))
    while batch.stats.polls < WARM_UP_POLLS:
        time.sleep(0.01)
    start = Reading.now(batch.stats.polls)
    time.sleep(seconds)
    end = Reading.now(batch.stats.polls)
    check_all_pending(batch, JOBS)
    batch.close(wait=False)
    return end.since(start)


async def aiohttp_polls(
    api: str, ca_file: Optional[str], at_once: int, seconds: float
) -> Dict[str, float]:
    limit = asyncio.Semaphore(at_once)
    polls = 0

    async def wait_for_job(url: str) -> None:
        nonlocal polls
        while True:
            async with limit, session.get(url) as response:
                check(await response.json())
            polls += 1
            await asyncio.sleep(PAUSE_S)

    async with make_aiohttp_session(ca_file) as session:
        tasks = [
            asyncio.ensure_future(wait_for_job(job_url(api, "job_{}".format(i))))
            for i in range(JOBS)
        ]
        while polls < WARM_UP_POLLS and not any(task.done() for task in tasks):
            await asyncio.sleep(0.01)
        start = Reading.now(polls)
        await asyncio.sleep(seconds)
        end = Reading.now(polls)
        await cancel_all(tasks)
    return end.since(start)


def requests_poll(ca_file: Optional[str]) -> Callable[[str], Any]:
    session = importlib.import_module("requests").Session()  # not documented as thread-safe
    if ca_file:
        session.verify = ca_file
    return lambda url: session.get(url).json()


def urllib_poll(ca_file: Optional[str]) -> Callable[[str], Any]:
    context = ssl.create_default_context(cafile=ca_file) if ca_file else None
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def poll(url: str) -> Any:
        with opener.open(url) as response:
            return json.load(response)

    return poll


def thread_polls(
    make_poll: Callable[[Optional[str]], Callable[[str], Any]],
    api: str,
    ca_file: Optional[str],
    at_once: int,
    seconds: float,
) -> Dict[str, float]:
    # No pause: by the time a job's turn comes again, more than PAUSE_S has passed.
    jobs: "queue.Queue[str]" = queue.Queue()
    for i in range(JOBS):
        jobs.put(job_url(api, "job_{}".format(i)))
    done = [0] * at_once
    is_over = threading.Event()

    def work(number: int) -> None:
        poll = make_poll(ca_file)
        while not is_over.is_set():
            url = jobs.get()
            check(poll(url))
            jobs.put(url)
            done[number] += 1

    threads = [
        threading.Thread(target=work, args=(number,), daemon=True) for number in range(at_once)
    ]
    for thread in threads:
        thread.start()
    while sum(done) < WARM_UP_POLLS and all(thread.is_alive() for thread in threads):
        time.sleep(0.01)
    start = Reading.now(sum(done))
    time.sleep(seconds)
    end = Reading.now(sum(done))
    if not all(thread.is_alive() for thread in threads):
        raise SystemExit(1)  # its traceback is on stderr
    is_over.set()
    for thread in threads:
        thread.join()
    return end.since(start)


# Memory, measured as resident size: tracemalloc does not see all of it, and less for some clients.


def resident_bytes(field: str) -> int:
    """The resident size of this process: now (VmRSS), or its peak (VmHWM)."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no {} in /proc/self/status".format(field))


def initial_bytes() -> int:
    gc.collect()
    return resident_bytes("VmRSS")


def measure_growth(before: int, jobs: int) -> Dict[str, float]:
    """The growth of the process up to its peak; all clients create the jobs' names before."""
    return {"bytes_per_job": (resident_bytes("VmHWM") - before) / jobs}


def pollkit_memory(api: str, jobs: int, pace: str, timeout: Optional[float]) -> Dict[str, float]:
    """Every job has been polled once, and waits for its next poll."""
    batch = make_batch_poller(api, None, pace, workers=16, timeout=timeout)
    names = ["job_{}".format(i) for i in range(jobs)]
    batch.submit("warm_up")
    while not batch.stats.polls:
        time.sleep(0.01)
    batch.cancel("warm_up")
    before = initial_bytes()
    polls = batch.stats.polls
    threading.Thread(target=batch.run, args=(names,), daemon=True).start()
    while batch.stats.polls - polls < jobs:
        time.sleep(0.02)
    check_all_pending(batch, jobs)
    return measure_growth(before, jobs)


async def aiohttp_memory(
    api: str, jobs: int, wrap: Callable[[Awaitable[None]], Awaitable[None]]
) -> Dict[str, float]:
    """Tasks as in `aiohttp_polls`, all asleep; none has polled yet, which is in their favour."""
    names = ["job_{}".format(i) for i in range(jobs)]

    async def wait_for_job(url: str) -> None:
        while True:
            await asyncio.sleep(LONG_S)
            async with session.get(url) as response:
                check(await response.json())

    async with make_aiohttp_session(None) as session:
        async with session.get(job_url(api, "warm_up")) as response:
            check(await response.json())
        before = initial_bytes()
        tasks = [asyncio.ensure_future(wrap(wait_for_job(job_url(api, name)))) for name in names]
        for _ in range(3):
            await asyncio.sleep(0)  # every task runs until it sleeps
        measured = measure_growth(before, jobs)
        await cancel_all(tasks)
    return measured


def thread_memory(jobs: int) -> Dict[str, float]:
    """Threads that sleep; none has polled yet, which is in their favour."""
    before = initial_bytes()
    is_over = threading.Event()
    for _ in range(jobs):
        threading.Thread(target=is_over.wait, daemon=True).start()
    measured = measure_growth(before, jobs)
    is_over.set()
    return measured


# Lateness: the time from when a poll was due until its exchange was complete. The exchange is
# included because not every client reports when it sent the request; pollkit and aiohttp seem later
# than they are by the same amount. The first poll of a job does not count.


class Lateness:
    """Collects the lateness of polls."""

    def __init__(self, seconds: float) -> None:
        # Each job starts within EVERY_S, and is polled for the first time soon after.
        self.start_at = time.monotonic() + EVERY_S + 0.5
        self.end_at = self.start_at + seconds
        self._late: List[float] = []

    def record(self, due_at: float, now: float) -> None:
        """Record a poll, if it was due within the time of measurement."""
        if self.start_at <= due_at < self.end_at:
            self._late.append(now - due_at)

    def quantiles(self) -> Dict[str, float]:
        """The polls per second, and the median and 99th percentile of the lateness."""
        late = sorted(self._late)
        return {
            "polls_per_s": len(late) / (self.end_at - self.start_at),
            "p50_ms": late[len(late) // 2] * 1000,
            "p99_ms": late[min(len(late) - 1, math.ceil(len(late) * 0.99) - 1)] * 1000,
        }


def sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))


def pollkit_lateness(api: str, seconds: float) -> Dict[str, float]:
    due_at: Dict[str, float] = {}  # by job id, from the job's last event

    def on_event(event: Any) -> None:
        if event.kind == "poll":
            if event.id in due_at:
                lateness.record(due_at[event.id], event.at)
            due_at[event.id] = event.progress.next_at

    batch = make_batch_poller(
        api, None, "fixed {:.0f}s".format(EVERY_S), workers=8, timeout=None, on_event=on_event
    )
    lateness = Lateness(seconds)
    started_at = time.monotonic()
    for i in range(TIMED_JOBS):
        sleep_until(started_at + i * TICK_S)
        batch.submit("job_{}".format(i))
    sleep_until(lateness.end_at + 0.5)
    check_all_pending(batch, TIMED_JOBS)
    batch.close(wait=False)
    return lateness.quantiles()


async def aiohttp_lateness(api: str, seconds: float) -> Dict[str, float]:
    lateness = Lateness(seconds)

    async def wait_for_job(number: int) -> None:
        await asyncio.sleep(number * TICK_S)
        due_at = math.inf
        while True:
            async with session.get(job_url(api, "job_{}".format(number))) as response:
                check(await response.json())
            now = time.monotonic()
            lateness.record(due_at, now)
            due_at = now + EVERY_S
            await asyncio.sleep(EVERY_S)

    async with make_aiohttp_session(None) as session:
        tasks = [asyncio.ensure_future(wait_for_job(number)) for number in range(TIMED_JOBS)]
        await asyncio.sleep(lateness.end_at + 0.5 - time.monotonic())
        await cancel_all(tasks)
    return lateness.quantiles()


def bare_sleep_lateness(seconds: float) -> Dict[str, float]:
    """A thread that only sleeps from deadline to deadline: the precision of the system."""
    lateness = Lateness(seconds)
    at = lateness.start_at
    while at < lateness.end_at:
        sleep_until(at)
        lateness.record(at, time.monotonic())
        at += TICK_S
    return lateness.quantiles()


def run_coroutine(coroutine: Any) -> Dict[str, float]:
    measured: Dict[str, float] = asyncio.new_event_loop().run_until_complete(coroutine)
    return measured


def measure_polls(
    name: str, api: str, ca_file: str, at_once: str, seconds: str
) -> Dict[str, float]:
    trusted = ca_file if api.startswith("https:") else None
    if name == "pollkit":
        return pollkit_polls(api, trusted, int(at_once), float(seconds))
    if name == "aiohttp":
        return run_coroutine(aiohttp_polls(api, trusted, int(at_once), float(seconds)))
    make_poll = {"requests": requests_poll, "urllib": urllib_poll}[name]
    return thread_polls(make_poll, api, trusted, int(at_once), float(seconds))


def measure_memory(name: str, api: str, jobs: str) -> Dict[str, float]:
    if name.startswith("pollkit"):
        if "adaptive" in name:  # jobs with everything: they are learned from, and have a deadline
            pace = "adaptive min={0:.0f}s max={0:.0f}s".format(LONG_S)
            return pollkit_memory(api, int(jobs), pace, LONG_S)
        return pollkit_memory(api, int(jobs), "fixed {:.0f}s".format(LONG_S), None)
    if name == "threads":
        return thread_memory(int(jobs))
    if "wait_for" in name:
        return run_coroutine(
            aiohttp_memory(api, int(jobs), lambda waiting: asyncio.wait_for(waiting, LONG_S))
        )
    return run_coroutine(aiohttp_memory(api, int(jobs), lambda waiting: waiting))


def measure_lateness(name: str, api: str, seconds: str) -> Dict[str, float]:
    if name == "pollkit":
        return pollkit_lateness(api, float(seconds))
    if name == "aiohttp":
        return run_coroutine(aiohttp_lateness(api, float(seconds)))
    return bare_sleep_lateness(float(seconds))


KINDS: Dict[str, Callable[..., Dict[str, float]]] = {
    "polls": measure_polls,
    "memory": measure_memory,
    "lateness": measure_lateness,
}

if __name__ == "__main__":
    print(json.dumps(KINDS[sys.argv[1]](*sys.argv[2:])))
