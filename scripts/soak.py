#!/usr/bin/env python3
"""Poll thousands of jobs through squid while servers fail and restart; check every outcome.

    python3 scripts/soak.py --for 60s
    python3 scripts/soak.py --for 8h --seed 7

Of the replies, 5 % are resets, 5 % are 5xx, 2 % are HTML pages and 1 % never come. The server and
squid, which wants a login, are killed and started again every few seconds. The exit code is 1 if an
outcome is wrong, if the login is in an outcome, a log or a command line, or if sockets, threads or
memory are not back where they began. Without squid, the polls go directly.
"""

import argparse
import base64
import logging
import os
import random
import shutil
import sys
import threading
import time
from typing import Dict, List, Optional

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from soak_parts.servers import PASSWORD, USER, FlakyServer, ServerProcess, Squid

from pollkit import BatchPoller, ConfigError, Outcome, Profile
from pollkit.core.units import to_seconds

JOBS = 2000
WORKERS = 64
RESTART_SERVER_S = 7.0
RESTART_SQUID_S = 11.0
DOWN_S = 0.5
MOST_GROWTH_MB = 40.0


class Resources:
    """The open files, threads and memory of this process."""

    def __init__(self) -> None:
        self.files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        self.threads = threading.active_count()
        self.memory_mb = _memory_mb()

    def excess_over(self, before: "Resources") -> List[str]:
        """The resources that were not released."""
        found = []
        if self.files > before.files:
            found.append("%d open files, %d before" % (self.files, before.files))
        if self.threads > before.threads:
            found.append("%d threads, %d before" % (self.threads, before.threads))
        if self.memory_mb > before.memory_mb + MOST_GROWTH_MB:
            found.append("%.0f MB of memory, %.0f before" % (self.memory_mb, before.memory_mb))
        return found


class LoginSearch(logging.Handler):
    """Searches all that pollkit logs, and other texts, for the login of the proxy."""

    SECRETS = [PASSWORD, USER, base64.b64encode((USER + ":" + PASSWORD).encode()).decode()]

    def __init__(self) -> None:
        super().__init__()
        self.problems: List[str] = []
        self.count = 0  # of the texts

    def emit(self, record: logging.LogRecord) -> None:
        self.search("a log", self.format(record))

    def search(self, place: str, text: str) -> None:
        """Note a problem if the text has a part of the login."""
        self.count += 1
        if any(secret in text for secret in self.SECRETS):
            self.problems.append("the login of the proxy is in %s: %.300s" % (place, text))

    def search_command_line(self) -> None:
        """Search what every user of the host can read of this process."""
        if os.path.exists("/proc/self/cmdline"):
            with open("/proc/self/cmdline") as file:
                self.search("the command line", file.read())


def _memory_mb() -> float:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 0.0


class Restarts:
    """Kills the servers and starts them again, in a thread, until it is closed."""

    def __init__(self, server: FlakyServer, squid: Optional[Squid]) -> None:
        self.count = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._restart, args=(server, RESTART_SERVER_S))]
        if squid is not None:
            self._threads.append(
                threading.Thread(target=self._restart, args=(squid, RESTART_SQUID_S))
            )
        for thread in self._threads:
            thread.start()

    def _restart(self, server: ServerProcess, every_s: float) -> None:
        while not self._stop.wait(every_s):
            server.stop()
            self._stop.wait(DOWN_S)
            server.start()
            self.count += 1

    def close(self) -> None:
        """Stop restarting; the servers run afterwards."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


def run_round(
    number: int, server: FlakyServer, squid: Optional[Squid], seed: int, logins: LoginSearch
) -> List[str]:
    """Poll all jobs once; the problems."""
    profile = Profile(
        url=server.url + "/jobs/{id}",
        proxy="none" if squid is None else squid.proxy,
        limit="3000/s burst 300",
        request_timeout=2.0,
        retry="backoff 500ms..2s",
    )
    rng = random.Random(seed + number)
    # The id says when and how the job ends, so that the server can forget everything.
    now_ms = int(time.time() * 1000)
    ids = [
        "%d-%d-%s" % (i, now_ms + rng.randrange(1000, 15000), rng.choice(["done"] * 9 + ["failed"]))
        for i in range(JOBS)
    ]
    problems = []
    states: Dict[str, int] = {}
    polls = 0
    faults = 0
    began_at = time.monotonic()
    with BatchPoller(
        profile, pace="fixed 1s", timeout="10m", max_faults=1000, workers=WORKERS
    ) as batch:
        for outcome in batch.as_completed(ids):
            states[outcome.state.value] = states.get(outcome.state.value, 0) + 1
            polls += outcome.polls
            faults += outcome.faults
            logins.search("an outcome", "%s %r" % (outcome.summary(), outcome))
            if is_wrong(outcome):
                problems.append("%s: %s" % (outcome.id, outcome.summary()))
    if sum(states.values()) != len(set(ids)):
        problems.append("%d outcomes for %d jobs" % (sum(states.values()), len(set(ids))))
    summary = ", ".join("%d %s" % (count, state) for state, count in sorted(states.items()))
    took_s = time.monotonic() - began_at
    print("round %d: %s; %d polls, %d faults, %.0f s" % (number, summary, polls, faults, took_s))
    sys.stdout.flush()
    return problems


def is_wrong(outcome: Outcome) -> bool:
    """Whether an outcome differs from the one that the id announces."""
    number, end_ms, expected = outcome.id.split("-")
    if outcome.state.value != expected or outcome.ended_at * 1000 < int(end_ms) - 1:
        return True
    if expected == "done":
        return bool(outcome.result != {"number": int(number)})
    return outcome.error is None or outcome.error.message != "page " + number


def soak(seconds: float, seed: int) -> List[str]:
    """Poll for about this long, at least one round; the problems."""
    squid_path = shutil.which("squid") or shutil.which("squid", path="/usr/sbin")
    if squid_path is None:
        print("squid is not installed: polling without a proxy")
    server = FlakyServer(seed)
    squid = None if squid_path is None else Squid(squid_path)
    problems: List[str] = []
    if squid is not None and not squid.wants_a_login():
        problems.append("squid wants no login")
    logins = LoginSearch()
    logger = logging.getLogger("pollkit")
    logger.addHandler(logins)
    logger.setLevel(logging.DEBUG)
    restarts = Restarts(server, squid)
    try:
        problems += run_rounds(server, squid, seconds, seed, logins)
        print("%d restarts" % restarts.count)
    finally:
        restarts.close()
        server.close()
        if squid is not None:
            squid.close()
    logins.search_command_line()
    print("%d texts without the login of the proxy" % (logins.count - len(logins.problems)))
    return problems + logins.problems


def run_rounds(
    server: FlakyServer, squid: Optional[Squid], seconds: float, seed: int, logins: LoginSearch
) -> List[str]:
    """Poll all jobs again and again; the problems, including resources that were not released."""
    problems: List[str] = []
    give_up_at = time.monotonic() + seconds
    before = Resources()
    number = 0
    last_s = 0.0
    while number == 0 or time.monotonic() + last_s < give_up_at:
        began_at = time.monotonic()
        problems += run_round(number, server, squid, seed, logins)
        last_s = time.monotonic() - began_at
        number += 1
    return problems + Resources().excess_over(before)


def parse_duration(text: str) -> float:
    try:
        return to_seconds(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="soak.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--for",
        dest="for_s",
        metavar="D",
        type=parse_duration,
        default=60.0,
        help="how long to poll: 60s, 8h (default: 60s)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="for the random numbers")
    options = parser.parse_args()
    problems = soak(options.for_s, options.seed)
    for problem in problems[:20]:
        print("WRONG: " + problem)
    print("%d problems" % len(problems) if problems else "nothing is wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
