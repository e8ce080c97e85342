"""Polls once in a separate process, and prints the cost: CPU seconds and MB of memory.

    cost = measure(hostile_replies.CASES["gzip of empty objects"])
    check_cost("gzip of empty objects")    # asserts that it is within the bounds

The process polls a harmless reply first, so that everything is imported before it measures.
"""

import gc
import json
import os
import resource
import subprocess
import sys
import time

import hostile_replies
from paths import ROOT
from raw_server import RawServer, reply

REQUEST_TIMEOUT_S = 60.0  # a busy machine must not end a request before its cost is known
SHORT_TIMEOUT_S = 5.0  # if the reply takes longer anyway
MOST_CPU_S = 1.0
MOST_MEMORY_MB = 64.0
KILLED_AT_CPU_S = 10
CLEAR = "/proc/self/clear_refs"
CAN_MEASURE = os.path.exists(CLEAR)


def check_cost(title):
    """Assert that one poll of a hostile reply takes little, and ends as it should."""
    case = hostile_replies.CASES[title]
    cost = measure(case)
    assert case.expected in cost["outcome"], cost
    assert cost["cpu_s"] < MOST_CPU_S, cost
    assert cost["memory_mb"] < MOST_MEMORY_MB, cost


def measure(case, python=sys.executable, root=ROOT):
    """What one poll of a hostile reply takes, as a dict."""
    environ = dict(os.environ, HOSTILE_TOKEN=hostile_replies.TOKEN)
    with RawServer(reply(hostile_replies.RUNNING), case.answer()) as server:
        ends_in_time = case.expected not in ("no complete reply", "127.0.0.1")
        timeout_s = REQUEST_TIMEOUT_S if ends_in_time else SHORT_TIMEOUT_S
        settings = json.dumps(dict(case.profile, request_timeout=timeout_s))
        words = [server.url("/harmless"), server.url("/hostile"), settings]
        done = subprocess.run(
            [python, os.path.abspath(__file__), root] + words,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 0, "exit code %d: %s" % (
        done.returncode,
        done.stderr.decode("utf-8", "replace"),
    )
    return json.loads(done.stdout.decode("ascii"))


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


def poll_and_print(harmless, hostile, settings):
    """The process that polls."""
    from pollkit import Poller, Profile

    profile = Profile(proxy="none", **settings)
    resource.setrlimit(resource.RLIMIT_CPU, (KILLED_AT_CPU_S, KILLED_AT_CPU_S))
    with Poller(profile, timeout=0, max_faults=1) as poller:
        poller.poll(harmless)
        gc.collect()
        forget_peak()
        before_kb, _ = current_and_peak_kb()
        began = time.process_time()
        outcome = poller.poll(hostile)
        cpu_s = time.process_time() - began
        _, peak_kb = current_and_peak_kb()
    error = outcome.error.message if outcome.error else ""
    print(
        json.dumps(
            {
                "cpu_s": cpu_s,
                "memory_mb": (peak_kb - before_kb) / 1024.0,
                "error_length": len(error),
                "outcome": "%s %s %s %.400s"
                % (outcome.state, (outcome.status or "")[:200], error[:400], repr(outcome.result)),
            }
        )
    )


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    poll_and_print(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
