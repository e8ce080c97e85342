"""Hundreds of kills at any instant: with a key or a lookup exactly one job, without never two."""

import json
import os
import random
import signal
import subprocess
import time

import pytest

from ledger_place import placed
from pollkit import Ledger
from pollkit.core.submitting.intent import Stage
from submit_server import SubmitServer

pytestmark = pytest.mark.skipif(os.name != "posix", reason="for POSIX only")
LEAST_KILLS = 100
LEAST_INTENTS = 40
LEAST_DONE = 10
AT_ONCE = 4  # submissions
KEYED = "idempotency_header = Idempotency-Key"
LOOKED_UP = "submit_lookup = {0}/find?key={{key}}\nsubmit_settle = 300ms"
# The server creates the job, and replies, a while after the request has come.
SLOW = "before=0.05&delay=0.05"


class Urls:
    """The URL of a server, for a Place."""

    def __init__(self, server):
        self.url = server.origin


def write_profile(place, server, more, query):
    with open(place.file("mine.ini"), "w") as file:
        file.write(server.profile("ok&" + query, more))


def start_submit(place, number):
    with open(place.file("job-%d.json" % number), "w") as file:
        json.dump({"number": number}, file)
    return place.start(
        "submit",
        "--profile",
        "counted",
        "--json",
        "job-%d.json" % number,
        "--ledger",
        place.ledger,
        "--quiet",
        start_new_session=True,
    )


def kill_at(process, at):
    """Kill a process at an instant, unless it has exited before; whether it was killed."""
    try:
        process.wait(max(0.0, at - time.monotonic()))  # it prints little, so no pipe gets full
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def has_enough_jobs(place):
    """Whether there are enough jobs, and enough of them have got through all the kills."""
    with Ledger(place.ledger) as ledger:
        states = ledger.summary().states
    return sum(states.values()) >= LEAST_INTENTS and states.get("done", 0) > LEAST_DONE


def measure_life_s(place):
    """How long submissions take that run at once; it depends on the machine and its load."""
    began = time.monotonic()
    for process in [start_submit(place, number) for number in range(AT_ONCE)]:
        process.wait()
    return time.monotonic() - began


def submit_and_kill(place, rng):
    """Submit jobs and run the ledger, and kill both at random instants of their lives."""
    life_s = measure_life_s(place)
    kills = 0
    number = AT_ONCE
    while kills < LEAST_KILLS or not has_enough_jobs(place):
        began = time.monotonic()
        processes = []
        for _ in range(AT_ONCE):
            processes.append(start_submit(place, number))
            number += 1
        run = ["run", place.ledger, "--quiet", "--for", "5s"]
        processes.append(place.start(*run, start_new_session=True))
        instants = sorted(began + life_s * rng.uniform(0.3, 1.2) for _ in processes)
        rng.shuffle(processes)
        for process, at in zip(processes, instants):
            kills += kill_at(process, at)
        assert number < 100 * LEAST_KILLS, "the runs are killed before they finish any job"


def finish(place):
    """Run until nothing waits; the rows of the ledger."""
    clean = place.start("run", place.ledger, "--quiet", "--for", "60s")
    assert clean.communicate(timeout=90) == ("", "")
    with Ledger(place.ledger) as ledger:
        return list(ledger.jobs())


def jobs_per_number(server):
    """How many jobs the server has created for each submission."""
    counts = {}
    for _, _, body in server.jobs():
        counts[body["number"]] = counts.get(body["number"], 0) + 1
    return counts


@pytest.mark.parametrize(
    "seed, more, query", [(1, KEYED, SLOW), (2, LOOKED_UP, SLOW + "&key={key}&lookup=1")]
)
def test_with_a_key_or_a_lookup_every_intent_becomes_exactly_one_job(seed, more, query):
    rng = random.Random(seed)
    with SubmitServer() as server, placed(Urls(server)) as place:
        write_profile(place, server, more.format(server.origin), query)
        submit_and_kill(place, rng)
        rows = finish(place)
        counts = jobs_per_number(server)
    assert {row.state for row in rows} == {"done"}, seed
    numbers = [row.outcome["result"]["number"] for row in rows]
    assert len(set(numbers)) == len(rows) >= LEAST_INTENTS, seed
    assert counts == dict.fromkeys(numbers, 1), seed


def test_without_either_no_intent_becomes_two_jobs_and_none_is_lost():
    rng = random.Random(3)
    with SubmitServer() as server, placed(Urls(server)) as place:
        write_profile(place, server, "", SLOW)
        submit_and_kill(place, rng)
        rows = finish(place)
        counts = jobs_per_number(server)
    assert set(counts.values()) == {1}
    done = [row.outcome["result"]["number"] for row in rows if row.state == "done"]
    ambiguous = [row for row in rows if row.state != "done"]
    assert len(set(done)) == len(done) > LEAST_DONE
    assert {row.outcome["error"]["code"] for row in ambiguous} == {"submit-ambiguous"}
    assert {row.submission.stage for row in ambiguous} <= {Stage.SENT, Stage.AMBIGUOUS}
    # Each job of the server is done here, or may be one of the ambiguous ones.
    assert set(done) <= set(counts)
    assert len(set(counts) - set(done)) <= len(ambiguous)
