"""One client polls for a while: run as a module, in a new process, by the peers' Python.

A client is a function that makes the poll function of each thread. Every poll returns the status
and the decoded JSON, and both are checked. The peers are imported by name in the functions that use
them: only their environment has them.
"""

import asyncio
import http.client
import importlib
import json
import ssl
import sys
import threading
import time
import urllib.request
from typing import Any, Awaitable, Callable, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

WARM_UP_POLLS = 30
POLLS_PER_CLOCK_READING = 10

Answer = Tuple[int, Any]
Poll = Callable[[], Answer]


class Measured(NamedTuple):
    """The result of one client."""

    polls: int
    cpu_s: float  # user and system, of the whole process
    wall_s: float


def pollkit_client(url: str, ca_file: Optional[str]) -> Callable[[], Poll]:
    from pollkit.core.model import Reply
    from pollkit.core.profiles.profile import Profile
    from pollkit.edges.http.request import Request
    from pollkit.edges.http.transport import Transport

    transport = Transport(Profile(ca_file=ca_file))  # shared by all threads
    home = transport.check(url)

    def poll() -> Answer:
        reply = transport.fetch(Request(url, home))
        if not isinstance(reply, Reply):
            raise RuntimeError(str(reply))
        return reply.status, json.loads(reply.body)

    return lambda: poll


def requests_client(url: str, ca_file: Optional[str]) -> Callable[[], Poll]:
    requests = importlib.import_module("requests")

    def for_thread() -> Poll:
        session = requests.Session()  # not documented as thread-safe
        if ca_file:
            session.verify = ca_file

        def poll() -> Answer:
            response = session.get(url)
            return response.status_code, response.json()

        return poll

    return for_thread


def http_client(url: str, ca_file: Optional[str]) -> Callable[[], Poll]:
    parts = urlsplit(url)
    context = ssl.create_default_context(cafile=ca_file) if ca_file else None

    def for_thread() -> Poll:
        assert parts.hostname is not None
        if context is not None:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port)

        def poll() -> Answer:
            connection.request("GET", parts.path)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

        return poll

    return for_thread


def urllib_client(url: str, ca_file: Optional[str]) -> Callable[[], Poll]:
    # Made once: urlopen would make a new opener for every poll with a context.
    context = ssl.create_default_context(cafile=ca_file) if ca_file else None
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def poll() -> Answer:
        with opener.open(url) as response:
            return response.status, json.load(response)

    return lambda: poll


SYNC: Dict[str, Callable[[str, Optional[str]], Callable[[], Poll]]] = {
    "pollkit": pollkit_client,
    "requests": requests_client,
    "http.client": http_client,
    "urllib": urllib_client,
}


def check(answer: Answer) -> None:
    status, document = answer
    if status != 200 or document["status"] != "running":
        raise RuntimeError("unexpected reply: {} {}".format(status, document))


def measure_threads(for_thread: Callable[[], Poll], at_once: int, seconds: float) -> Measured:
    start: List[Tuple[float, float]] = []
    polls: List[int] = []
    # The last thread to arrive reads the clocks.
    barrier = threading.Barrier(
        at_once, lambda: start.append((time.process_time(), time.monotonic()))
    )

    def work() -> None:
        try:
            poll = for_thread()
            for _ in range(WARM_UP_POLLS):
                check(poll())
            barrier.wait()
            end_at = start[0][1] + seconds
            done = 0
            while time.monotonic() < end_at:
                for _ in range(POLLS_PER_CLOCK_READING):
                    check(poll())
                done += POLLS_PER_CLOCK_READING
            polls.append(done)
        except threading.BrokenBarrierError:
            pass  # another thread failed, and prints its traceback
        except BaseException:
            barrier.abort()
            raise

    if at_once == 1:
        work()
    else:
        threads = [threading.Thread(target=work) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if len(polls) != at_once:
        raise SystemExit(1)  # the thread's traceback is on stderr
    return Measured(sum(polls), time.process_time() - start[0][0], time.monotonic() - start[0][1])


def measure_multiplexed(url: str, ca_file: Optional[str], at_once: int, seconds: float) -> Measured:
    """pollkit as in a batch: one thread carries all exchanges."""
    from pollkit.core.model import Reply
    from pollkit.core.profiles.profile import Profile
    from pollkit.edges.http.request import Request
    from pollkit.edges.http.transport import Transport
    from pollkit.edges.multiplexer import Multiplexer

    transport = Transport(Profile(ca_file=ca_file))
    home = transport.check(url)
    multiplexer = Multiplexer()

    def start() -> None:
        multiplexer.start(None, transport.exchange(Request(url, home)))

    def poll_until(is_over: Callable[[int], bool]) -> int:
        done = 0
        while not is_over(done):
            for finished in multiplexer.wait(None):
                reply = finished.result
                if not isinstance(reply, Reply):
                    raise RuntimeError(str(reply))
                check((reply.status, json.loads(reply.body)))
                done += 1
                start()
        return done

    for _ in range(at_once):
        start()
    poll_until(lambda done: done >= WARM_UP_POLLS * at_once)
    cpu = time.process_time()
    wall = time.monotonic()
    polls = poll_until(lambda done: time.monotonic() >= wall + seconds)
    return Measured(polls, time.process_time() - cpu, time.monotonic() - wall)


async def measure_aiohttp(
    url: str, ca_file: Optional[str], at_once: int, seconds: float
) -> Measured:
    aiohttp = importlib.import_module("aiohttp")
    context = ssl.create_default_context(cafile=ca_file) if ca_file else True

    async def work(poll: Callable[[], Awaitable[Answer]], end: float) -> int:
        done = 0
        while time.monotonic() < end:
            for _ in range(POLLS_PER_CLOCK_READING):
                check(await poll())
            done += POLLS_PER_CLOCK_READING
        return done

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:

        async def poll() -> Answer:
            async with session.get(url) as response:
                return response.status, await response.json()

        for _ in range(WARM_UP_POLLS):
            for answer in await asyncio.gather(*(poll() for _ in range(at_once))):
                check(answer)
        cpu = time.process_time()
        wall = time.monotonic()
        polls = sum(await asyncio.gather(*(work(poll, wall + seconds) for _ in range(at_once))))
        return Measured(polls, time.process_time() - cpu, time.monotonic() - wall)


def versions() -> Dict[str, str]:
    pollkit = importlib.import_module("pollkit")
    requests = importlib.import_module("requests")
    aiohttp = importlib.import_module("aiohttp")
    parser = importlib.import_module("aiohttp.http_parser")
    return {
        "pollkit": pollkit.__version__,
        "requests": requests.__version__,
        "aiohttp": aiohttp.__version__,
        "aiohttp_parser": "C" if hasattr(parser, "HttpResponseParserC") else "Python",
    }


def main(name: str, url: str, ca_file: str, at_once: str, seconds: str) -> None:
    trusted = ca_file if url.startswith("https:") else None
    if name == "aiohttp":
        coroutine = measure_aiohttp(url, trusted, int(at_once), float(seconds))
        measured = asyncio.new_event_loop().run_until_complete(coroutine)
    elif name == "pollkit 1 thread":
        measured = measure_multiplexed(url, trusted, int(at_once), float(seconds))
    else:
        measured = measure_threads(SYNC[name](url, trusted), int(at_once), float(seconds))
    print(json.dumps(measured._asdict()))


if __name__ == "__main__":
    if sys.argv[1:] == ["versions"]:
        print(json.dumps(versions()))
    else:
        main(*sys.argv[1:])
