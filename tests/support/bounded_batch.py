"""Polls 200 well-behaved jobs and a hostile one in one batch, in a separate process.

    check_cost("hang")    # asserts that it is within the bounds

The well-behaved jobs have a server in a third process, which the hostile one can't slow down. The
process polls them first without the hostile job, so that it can report the difference.
"""

import collections
import contextlib
import functools
import os
import sys
import time

import hostile_replies
from bounded_poll import MOST_CPU_S, MOST_MEMORY_MB, current_and_peak_kb, forget_peak
from forking_process import ForkingProcess, answer_requests
from paths import ROOT
from raw_server import RawServer, reply

JOBS = 200
POLLS = 4  # a well-behaved job is done at this poll
PACE = "fixed 200ms"
REQUEST_TIMEOUT_S = 1.0
LONGEST_DELAY_S = 0.5
MOST_ATTEMPTS = 4


def check_cost(title):
    """Assert that a hostile job ends in time, costs little, and does not delay the others.

    Time in which the process was ready to run, but got no processor, does not count as a delay: the
    machine was busy with something else. If a batch is late even so, it is repeated; if pollkit is
    the reason, every attempt is late.
    """
    case = hostile_replies.CASES[title]
    cost = measure(case)
    attempts = 1
    while attempts < MOST_ATTEMPTS and not is_in_time(cost):
        cost = measure(case, is_repeated=True)
        attempts += 1
    assert is_in_time(cost), cost
    assert cost["cpu_s"] < MOST_CPU_S, cost
    assert cost["memory_mb"] < MOST_MEMORY_MB, cost


def is_in_time(cost):
    return cost["delay_s"] < LONGEST_DELAY_S and cost["hostile_s"] < REQUEST_TIMEOUT_S + 0.5


def measure(case, is_repeated=False):
    """What one hostile job costs a batch, as a dict; if repeated, it is compared with a new run."""
    with RawServer(case.answer()) as hostile:
        settings = dict(case.profile, request_timeout=REQUEST_TIMEOUT_S)
        return _polling_process().ask(
            hostile=hostile.url("/x"), settings=settings, is_repeated=is_repeated
        )


@functools.lru_cache(maxsize=None)
def _polling_process():
    url = ForkingProcess(__file__, "serve").ask()["url"]
    return ForkingProcess(__file__, "poll", url, HOSTILE_TOKEN=hostile_replies.TOKEN)


def serve():
    """The process of the well-behaved server."""
    polls = collections.Counter()

    def answer(connection, request):
        polls[request.target] += 1  # safe: a job has one poll in flight at a time
        is_done = polls[request.target] % POLLS == 0
        connection.send(reply('{"status": "%s"}' % ("done" if is_done else "running")))

    with RawServer(answer) as server:
        sys.stdin.readline()
        print('{"url": "%s"}' % server.url(""), flush=True)
        sys.stdin.read()


def seconds_without_processor():
    """How long the threads of this process were ready to run, but did not (proc(5), schedstat)."""
    nanoseconds = 0
    for task in os.listdir("/proc/self/task"):
        # The thread has ended before the file was opened, or before it was read.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open("/proc/self/task/%s/schedstat" % task) as file:
                nanoseconds += int(file.read().split()[1])
    return nanoseconds / 1e9


def poll(good, name, settings, hostile=None):
    """Poll all jobs: seconds until the good ones were done, CPU seconds, the hostile one."""
    found = None
    jobs = ["%s/%s-%d" % (good, name, i) for i in range(JOBS)]
    if hostile is not None:
        jobs.insert(0, Job(hostile, url=hostile, timeout=0))
    profile = Profile(proxy="none", limit="5000/s burst 500", **settings)
    began_cpu = time.process_time()
    began_without = seconds_without_processor()
    began = time.monotonic()
    with BatchPoller(profile, pace=PACE, workers=8, timeout=10, max_faults=1) as batch:
        for outcome in batch.as_completed(jobs):
            took = time.monotonic() - began
            if outcome.id == hostile:
                found = took, outcome
            else:
                good_took = took
                assert (outcome.state, outcome.polls) == ("done", POLLS), outcome
                assert outcome.faults == 0
        good_took -= seconds_without_processor() - began_without
    return good_took, time.process_time() - began_cpu, found


def compare_with(good, usual):
    """A function that polls a hostile job beside the good ones, for `answer_requests`."""

    def compare(hostile, settings, is_repeated):
        usual_s, usual_cpu_s, _ = poll(good, "again", settings) if is_repeated else usual
        forget_peak()
        before_kb, _ = current_and_peak_kb()
        good_s, cpu_s, (hostile_s, outcome) = poll(good, "beside", settings, hostile)
        return {
            "delay_s": good_s - usual_s,
            "hostile_s": hostile_s,
            "cpu_s": cpu_s - usual_cpu_s,
            "memory_mb": (current_and_peak_kb()[1] - before_kb) / 1024.0,
            "outcome": "%s %.300s" % (outcome.state, outcome.error),
        }

    return compare


if __name__ == "__main__":
    sys.path.insert(0, ROOT)
    from pollkit import BatchPoller, Job, Profile

    if sys.argv[1] == "serve":
        serve()
    else:
        poll(sys.argv[2], "imports", {})
        answer_requests(compare_with(sys.argv[2], poll(sys.argv[2], "usual", {})))
