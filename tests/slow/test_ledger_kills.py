"""Kills by the hundred: whatever is killed, and whenever, every job ends and is told, and few polls are repeated."""

import collections
import os
import random
import re
import signal
import socket
import subprocess
import time

import pytest

from job_api import JobApi
from ledger_place import placed
from pollkit import Ledger
from raw_server import wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="for POSIX only")
LIFE_S = 0.4  # a run is killed within so long: about a third of it is Python's start
A_WHILE_S = 130  # leases have run out by then
PROFILE = "timeout = never\nlimit = 500/s burst 50\n[fake:brief]\ntimeout = 30m\n"
HOW = [["--once"], ["--for", "100ms"], [], []]


def answer(name, count):
    """late_1 never ends; bad_2_7 fails and fine_3_8 is done after so many polls."""
    kind, polls = name.split("_")[:2]
    if kind == "late" or count < int(polls) - 1:
        return "running"
    return "failed" if kind == "bad" else "done"


def right(name):
    return {"late": "timed_out", "bad": "failed", "fine": "done"}[name.split("_")[0]]


def new_jobs(rng, number):
    return [
        "%s_%d_%d_%d" % (rng.choice(["fine", "fine", "bad"]), rng.randint(1, 3), number, i)
        for i in range(15)
    ]


def kill_all(rng, processes):
    """Each of them at an instant of its own, with all its children; how many were at work still."""
    began, kills = time.monotonic(), 0
    for at, process in sorted((rng.uniform(0, LIFE_S), process) for process in processes):
        try:
            process.wait(max(0.0, began + at - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
    return kills


def children_of(process):
    try:
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def kill_one_child(rng, process):
    """One of several, if they are there yet: the others go on, and the parent says so. Whether there was one."""
    time.sleep(rng.uniform(0.1, 0.2))
    children = children_of(process)
    if children:
        os.kill(rng.choice(children), signal.SIGKILL)
    return bool(children)


def lost_polls(place, api):
    """The polls that the API has seen and the ledger knows nothing of, by job; and what each connection asked last.

    For use once all who asked are gone: what they sent last may still be on its way.
    """
    with socket.create_connection(("127.0.0.1", api.port)) as own:
        wait_for(lambda: own.getsockname() in api.lasts)  # so all that came before were accepted
    wait_for(lambda: api.open == 0)
    with Ledger(place.ledger) as ledger:
        written = {
            row.job.id: (row.outcome or row.progress).get("polls", 0) for row in ledger.rows()
        }
    assert [name for name, polls in written.items() if polls > api.counts.get(name, 0)] == []
    lasts = collections.Counter(path.rpartition("/")[2] for path in api.lasts.values())
    api.lasts.clear()
    return collections.Counter(api.counts) - collections.Counter(written), lasts


def check(place, api, names, told, seed):
    with Ledger(place.ledger) as ledger:
        rows, summary = {row.job.id: row for row in ledger.rows()}, ledger.summary()
        assert ledger._file.read(lambda db: db.execute("PRAGMA integrity_check").fetchone()) == (
            "ok",
        )
    assert {name: rows[name].state for name in names} == {name: right(name) for name in names}, seed
    assert [
        name for name in names if right(name) == "done" and rows[name].outcome["result"] != name
    ] == [], seed
    assert (summary.pending_notifications, summary.gave_up_telling) == (0, 0), seed
    ends = {(line["id"], line["ended_at"], line["state"]) for line in told}
    assert sorted(ends) == sorted(
        (name, rows[name].outcome["ended_at"], rows[name].state) for name in names
    ), seed


@pytest.mark.parametrize(
    "seed, least, at_once, words",
    [
        (1, 80, 2, ["--workers", "1", "--outbox", "told"]),
        (2, 40, 1, ["--workers", "2", "--outbox", "told", "--processes", "3"]),
        (3, 80, 2, ["--workers", "4", "--exec", "./notify"]),
    ],
)
def test_after_kills_a_clean_run_ends_and_tells_all_and_few_polls_are_repeated(
    seed, least, at_once, words
):
    """At random instants, from Python's start on, of two that share the work or of one with three processes."""
    rng, names, kills, workers = random.Random(seed), ["late_1"], 0, int(words[1])
    processes = 3 if "--processes" in words else 1
    with JobApi(answer) as api, placed(api, PROFILE) as place:
        place.script("cat >> told\n")
        place.add(names, "brief")
        number, before = 0, collections.Counter()
        while kills < least:
            number += 1
            more = new_jobs(rng, number)
            place.add(more)
            names += more
            runs = [
                place.start(
                    "run",
                    place.ledger,
                    "--quiet",
                    *(rng.choice(HOW) + words),
                    start_new_session=True,
                )
                for _ in range(at_once)
            ]
            is_child_killed = processes > 1 and rng.random() < 0.3 and kill_one_child(rng, runs[0])
            killed = kill_all(rng, runs)
            kills += killed
            for run in runs:
                out, err = run.communicate(timeout=30)
                assert (
                    re.sub("pollkit: a process was killed by signal 9: .*\n", "", out + err) == ""
                ), (seed, number)
            lost, lasts = lost_polls(place, api)
            new, before = lost - before, lost
            # One a worker at the most, of those that were killed, which is what it asked last. (Where there are
            # several, they share connections, and this can't be seen from here.)
            assert sum(new.values()) <= max(killed * processes, is_child_killed) * workers, (
                seed,
                number,
                new,
            )
            assert workers > 1 or new - lasts == {}, (seed, number)
            place.time_passes(A_WHILE_S)
        clean = place.start("run", place.ledger, "--quiet", *words)
        assert clean.communicate(timeout=30) == ("", "") and clean.returncode in (0, 1, 3), seed
        check(place, api, names, place.lines("told"), seed)
        assert lost_polls(place, api)[0] == before, seed
