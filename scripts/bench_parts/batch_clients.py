"""Many jobs in a process of their own, polled by one client: run as a module by the peers' Python.

Each client waits for the jobs as its users are told to: pollkit with a BatchPoller, aiohttp with
a task a job, the others with threads that share a queue. Nobody gets tuning that the others lack.
The peers are imported by name, where they are used: only their own environment has them.
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
from typing import Any, Awaitable, Callable, Dict, List, Optional, Sequence, Tuple

JOBS = 500  # outstanding while polls are counted: enough that one is always due
PAUSE_S = 0.01  # between two polls of one job: the shortest that pollkit allows
WARM_UP_POLLS = 1000
LONG_S = 3600.0  # nothing happens that late
EVERY_S, TIMED_JOBS = 2.0, 1000  # 500 polls a second, for the lateness
TICK_S = EVERY_S / TIMED_JOBS


def job_url(api: str, job: str) -> str:
    return "{}/v1/jobs/{}".format(api, job)


def check(document: Any) -> None:
    if document["status"] != "running":
        raise RuntimeError("an unexpected reply: {}".format(document))


def batch_poller(api: str, ca_file: Optional[str], pace: str, **settings: Any) -> Any:
    from pollkit import BatchPoller, Profile, TokenBucket

    profile = Profile(url=job_url(api, "{id}"), status="status", ca_file=ca_file)
    return BatchPoller(profile, pace=pace, bucket=TokenBucket(1e6, burst=1e6), **settings)


def check_batch(batch: Any, jobs: int) -> None:
    if batch.stats.faults or len(batch) != jobs:
        raise RuntimeError("not every job is still running: {}".format(batch.stats))


def aiohttp_session(ca_file: Optional[str]) -> Any:
    aiohttp = importlib.import_module("aiohttp")
    context = ssl.create_default_context(cafile=ca_file) if ca_file else True
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


async def stop(tasks: "Sequence[asyncio.Future[None]]") -> None:
    """Cancel tasks that were to go on for ever; one that did not raises what went wrong."""
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# Polls per CPU-second

Instant = Tuple[int, float, float]


def instant(polls: int) -> Instant:
    return polls, time.process_time(), time.monotonic()


def between(begun: Instant, ended: Instant) -> Dict[str, float]:
    return {
        "polls": ended[0] - begun[0],
        "cpu_s": ended[1] - begun[1],
        "wall_s": ended[2] - begun[2],
    }


def pollkit_polls(
    api: str, ca_file: Optional[str], at_once: int, seconds: float
) -> Dict[str, float]:
    batch = batch_poller(
        api, ca_file, "fixed {:.0f}ms".format(PAUSE_S * 1000), workers=at_once, timeout=None
    )
    for i in range(JOBS):
        batch.submit("job_{}".format(i))
    while batch.stats.polls < WARM_UP_POLLS:
        time.sleep(0.01)
    begun = instant(batch.stats.polls)
    time.sleep(seconds)
    ended = instant(batch.stats.polls)
    check_batch(batch, JOBS)
    batch.close(wait=False)
    return between(begun, ended)


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

    async with aiohttp_session(ca_file) as session:
        tasks = [
            asyncio.ensure_future(wait_for_job(job_url(api, "job_{}".format(i))))
            for i in range(JOBS)
        ]
        while polls < WARM_UP_POLLS and not any(task.done() for task in tasks):
            await asyncio.sleep(0.01)
        begun = instant(polls)
        await asyncio.sleep(seconds)
        ended = instant(polls)
        await stop(tasks)
    return between(begun, ended)


def requests_poll(ca_file: Optional[str]) -> Callable[[str], Any]:
    session = importlib.import_module("requests").Session()  # not said to be safe between threads
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
    # No pause: until a job's turn comes again, longer than PAUSE_S passes anyway.
    jobs: "queue.Queue[str]" = queue.Queue()
    for i in range(JOBS):
        jobs.put(job_url(api, "job_{}".format(i)))
    done, over = [0] * at_once, threading.Event()

    def work(number: int) -> None:
        poll = make_poll(ca_file)
        while not over.is_set():
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
    begun = instant(sum(done))
    time.sleep(seconds)
    ended = instant(sum(done))
    if not all(thread.is_alive() for thread in threads):
        raise SystemExit(1)  # its traceback is on stderr
    over.set()
    for thread in threads:
        thread.join()
    return between(begun, ended)


# Memory. Measured as resident size: what tracemalloc sees is not all, and less for some than for others.


def resident(field: str) -> int:
    """VmRSS, what this process has in memory now, or VmHWM, the most it ever had; in bytes."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no {} in /proc/self/status".format(field))


def size_before() -> int:
    gc.collect()
    return resident("VmRSS")


def grown(before: int, jobs: int) -> Dict[str, float]:
    """By how much the process grew at its peak; the jobs' names were there before, for everybody."""
    return {"bytes_per_job": (resident("VmHWM") - before) / jobs}


def pollkit_memory(api: str, jobs: int, pace: str, timeout: Optional[float]) -> Dict[str, float]:
    """Every job polled once, and waiting for its next poll."""
    batch = batch_poller(api, None, pace, workers=16, timeout=timeout)
    names = ["job_{}".format(i) for i in range(jobs)]
    batch.submit("warm_up")
    while not batch.stats.polls:
        time.sleep(0.01)
    batch.cancel("warm_up")
    before, polls = size_before(), batch.stats.polls
    threading.Thread(target=batch.run, args=(names,), daemon=True).start()
    while batch.stats.polls - polls < jobs:
        time.sleep(0.02)
    check_batch(batch, jobs)
    return grown(before, jobs)


async def aiohttp_memory(
    api: str, jobs: int, wrap: Callable[[Awaitable[None]], Awaitable[None]]
) -> Dict[str, float]:
    """Tasks as `aiohttp_polls` has them, all in their sleep; none has polled yet, which is in their favour."""
    names = ["job_{}".format(i) for i in range(jobs)]

    async def wait_for_job(url: str) -> None:
        while True:
            await asyncio.sleep(LONG_S)
            async with session.get(url) as response:
                check(await response.json())

    async with aiohttp_session(None) as session:
        async with session.get(job_url(api, "warm_up")) as response:
            check(await response.json())
        before = size_before()
        tasks = [asyncio.ensure_future(wrap(wait_for_job(job_url(api, name)))) for name in names]
        for _ in range(3):
            await asyncio.sleep(0)  # all of them run as far as their sleep
        measured = grown(before, jobs)
        await stop(tasks)
    return measured


def thread_memory(jobs: int) -> Dict[str, float]:
    """Threads that sleep; none has polled yet, which is in their favour."""
    before, over = size_before(), threading.Event()
    for _ in range(jobs):
        threading.Thread(target=over.wait, daemon=True).start()
    measured = grown(before, jobs)
    over.set()
    return measured


# Lateness: how long after it was due a poll was over. The exchange is part of it, for want of a
# place where every client could be asked for the instant of sending: it makes pollkit and aiohttp
# look later than they are, by the same, and never earlier. A job's first poll does not count.


class Lateness:
    def __init__(self, seconds: float) -> None:
        # Each job begins within EVERY_S, and has had its first poll soon after.
        self.begin = time.monotonic() + EVERY_S + 0.5
        self.end = self.begin + seconds
        self._late: List[float] = []

    def note(self, due: float, now: float) -> None:
        if self.begin <= due < self.end:
            self._late.append(now - due)

    def quantiles(self) -> Dict[str, float]:
        late = sorted(self._late)
        return {
            "polls_per_s": len(late) / (self.end - self.begin),
            "p50_ms": late[len(late) // 2] * 1000,
            "p99_ms": late[min(len(late) - 1, math.ceil(len(late) * 0.99) - 1)] * 1000,
        }


def sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))


def pollkit_lateness(api: str, seconds: float) -> Dict[str, float]:
    due: Dict[str, float] = {}  # by each job's last event: its next_at is when it is due again

    def heard(event: Any) -> None:
        if event.kind == "poll":
            if event.id in due:
                lateness.note(due[event.id], event.at)
            due[event.id] = event.progress.next_at

    batch = batch_poller(
        api, None, "fixed {:.0f}s".format(EVERY_S), workers=8, timeout=None, on_event=heard
    )
    lateness, begun = Lateness(seconds), time.monotonic()
    for i in range(TIMED_JOBS):
        sleep_until(begun + i * TICK_S)
        batch.submit("job_{}".format(i))
    sleep_until(lateness.end + 0.5)
    check_batch(batch, TIMED_JOBS)
    batch.close(wait=False)
    return lateness.quantiles()


async def aiohttp_lateness(api: str, seconds: float) -> Dict[str, float]:
    lateness = Lateness(seconds)

    async def wait_for_job(number: int) -> None:
        await asyncio.sleep(number * TICK_S)
        due = math.inf
        while True:
            async with session.get(job_url(api, "job_{}".format(number))) as response:
                check(await response.json())
            now = time.monotonic()
            lateness.note(due, now)
            due = now + EVERY_S
            await asyncio.sleep(EVERY_S)

    async with aiohttp_session(None) as session:
        tasks = [asyncio.ensure_future(wait_for_job(number)) for number in range(TIMED_JOBS)]
        await asyncio.sleep(lateness.end + 0.5 - time.monotonic())
        await stop(tasks)
    return lateness.quantiles()


def bare_sleep_lateness(seconds: float) -> Dict[str, float]:
    """One thread that sleeps from deadline to deadline, and does nothing else: what the system allows."""
    lateness = Lateness(seconds)
    at = lateness.begin
    while at < lateness.end:
        sleep_until(at)
        lateness.note(at, time.monotonic())
        at += TICK_S
    return lateness.quantiles()


def in_loop(measuring: Any) -> Dict[str, float]:
    measured: Dict[str, float] = asyncio.new_event_loop().run_until_complete(measuring)
    return measured


def polls_of(name: str, api: str, ca_file: str, at_once: str, seconds: str) -> Dict[str, float]:
    trusted = ca_file if api.startswith("https:") else None
    if name == "pollkit":
        return pollkit_polls(api, trusted, int(at_once), float(seconds))
    if name == "aiohttp":
        return in_loop(aiohttp_polls(api, trusted, int(at_once), float(seconds)))
    make_poll = {"requests": requests_poll, "urllib": urllib_poll}[name]
    return thread_polls(make_poll, api, trusted, int(at_once), float(seconds))


def memory_of(name: str, api: str, jobs: str) -> Dict[str, float]:
    if name.startswith("pollkit"):
        if "adaptive" in name:  # all that a job can have: it learns, and has a deadline
            return pollkit_memory(
                api, int(jobs), "adaptive min={0:.0f}s max={0:.0f}s".format(LONG_S), LONG_S
            )
        return pollkit_memory(api, int(jobs), "fixed {:.0f}s".format(LONG_S), None)
    if name == "threads":
        return thread_memory(int(jobs))
    wrapped = "wait_for" in name
    return in_loop(
        aiohttp_memory(
            api,
            int(jobs),
            lambda waiting: asyncio.wait_for(waiting, LONG_S) if wrapped else waiting,
        )
    )


def lateness_of(name: str, api: str, seconds: str) -> Dict[str, float]:
    if name == "pollkit":
        return pollkit_lateness(api, float(seconds))
    if name == "aiohttp":
        return in_loop(aiohttp_lateness(api, float(seconds)))
    return bare_sleep_lateness(float(seconds))


KINDS: Dict[str, Callable[..., Dict[str, float]]] = {
    "polls": polls_of,
    "memory": memory_of,
    "lateness": lateness_of,
}

if __name__ == "__main__":
    print(json.dumps(KINDS[sys.argv[1]](*sys.argv[2:])))
