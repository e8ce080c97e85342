"""Polls once in a separate process, and measures the cost: CPU seconds and MB of memory.

    cost = measure(hostile_replies.CASES["gzip of empty objects"])
    check_cost("gzip of empty objects")    # asserts that it is within the bounds

The process polls a harmless reply first, so that everything is imported before it measures.
"""

import functools
import gc
import os
import resource
import sys
import time

import hostile_replies
from forking_process import ForkingProcess, answer_requests
from paths import ROOT
from raw_server import RawServer, reply

REQUEST_TIMEOUT_S = 60.0  # a busy machine must not end a request before its cost is known
LONGEST_DELAY_S = 0.5  # after the request timeout
MOST_CPU_S = 1.0
MOST_MEMORY_MB = 64.0
KILLED_AT_CPU_S = 10
CLEAR = "/proc/self/clear_refs"
CAN_MEASURE = os.path.exists(CLEAR)


def check_cost(title):
    """Assert that one poll of a hostile reply takes little, and ends as it should."""
    case = hostile_replies.CASES[title]
    timeout_s = case.timeout_s or REQUEST_TIMEOUT_S
    cost = measure(case, timeout_s)
    if cost["took_s"] > timeout_s + LONGEST_DELAY_S:  # once more, if the machine was busy
        cost = measure(case, timeout_s)
    assert case.expected in cost["outcome"], cost
    assert cost["cpu_s"] < MOST_CPU_S, cost
    assert cost["memory_mb"] < MOST_MEMORY_MB, cost
    assert cost["took_s"] < timeout_s + LONGEST_DELAY_S, cost


def measure(case, timeout_s):
    """What one poll of a hostile reply takes, as a dict."""
    with RawServer(reply(hostile_replies.RUNNING), case.answer()) as server:
        settings = dict(case.profile, request_timeout=timeout_s)
        return _polling_process().ask(
            harmless=server.url("/harmless"), hostile=server.url("/hostile"), settings=settings
        )


@functools.lru_cache(maxsize=None)
def _polling_process():
    return ForkingProcess(__file__, HOSTILE_TOKEN=hostile_replies.TOKEN)


def current_and_peak_kb():
    """The memory in use, and its peak. ru_maxrss won't do: it includes the parent's memory."""
    found = {}
    with open("/proc/self/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in ("VmRSS", "VmHWM"):
                found[name] = int(value.split()[0])
    return found["VmRSS"], found["VmHWM"]


def forget_peak():
    """Measure the peak from now on (proc(5), clear_refs)."""
    with open(CLEAR, "w") as file:
        file.write("5")


def poll(harmless, hostile, settings):
    """The cost of polling a hostile reply, in a process of its own."""
    profile = Profile(proxy="none", **settings)
    resource.setrlimit(resource.RLIMIT_CPU, (KILLED_AT_CPU_S, KILLED_AT_CPU_S))
    with Poller(profile, timeout=0, max_faults=1) as poller:
        poller.poll(harmless)
        gc.collect()
        forget_peak()
        before_kb, _ = current_and_peak_kb()
        began_cpu = time.process_time()
        began = time.monotonic()
        outcome = poller.poll(hostile)
        took_s = time.monotonic() - began
        cpu_s = time.process_time() - began_cpu
        _, peak_kb = current_and_peak_kb()
    error = outcome.error.message if outcome.error else ""
    return {
        "cpu_s": cpu_s,
        "took_s": took_s,
        "memory_mb": (peak_kb - before_kb) / 1024.0,
        "error_length": len(error),
        "outcome": "%s %s %s %.400s"
        % (outcome.state, (outcome.status or "")[:200], error[:400], repr(outcome.result)),
    }


if __name__ == "__main__":
    sys.path.insert(0, ROOT)
    from pollkit import Poller, Profile

    with RawServer(reply(hostile_replies.RUNNING)) as server:
        with Poller(Profile(proxy="none"), timeout=0) as poller:
            poller.poll(server.url())
    answer_requests(poll)
