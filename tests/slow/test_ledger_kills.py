"""Hundreds of kills: every job finishes and is notified, and few polls are repeated."""

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
from ledger_host import expire_leases
from ledger_place import placed
from pollkit import Ledger
from pollkit.edges.ledger.places import is_database
from raw_server import wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="for POSIX only")
LIFE_S = 0.4  # a run is killed within this time; Python's start takes about a third of it
PROFILE = "timeout = never\nlimit = 500/s burst 50\n[fake:brief]\ntimeout = 30m\n"
INTERRUPTED = "pollkit: interrupted: 1 job still waits; run it again\n"
HOW = [["--once"], ["--for", "100ms"], [], []]


def answer(name, count):
    """late_1 never finishes; bad_2_7 fails after 2 polls, and fine_3_8 is done after 3."""
    kind, polls = name.split("_")[:2]
    if kind == "late" or count < int(polls) - 1:
        return "running"
    return "failed" if kind == "bad" else "done"


def expected_state(name):
    return {"late": "timed_out", "bad": "failed", "fine": "done"}[name.split("_")[0]]


def new_jobs(rng, number):
    return [
        "%s_%d_%d_%d" % (rng.choice(["fine", "fine", "bad"]), rng.randint(1, 3), number, i)
        for i in range(15)
    ]


def kill_all(rng, processes):
    """Kill each process and its children at a random instant; how many were still running."""
    began = time.monotonic()
    kills = 0
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
    """Kill one of several children, if they have been started; whether there was one."""
    time.sleep(rng.uniform(0.1, 0.2))
    children = children_of(process)
    if children:
        os.kill(rng.choice(children), signal.SIGKILL)
    return bool(children)


def lost_polls(place, api):
    """The polls per job that are not in the ledger; and the last job polled by each connection.

    Call it when all runs have exited; their last requests may still be on their way.
    """
    with socket.create_connection(("127.0.0.1", api.port)) as own:
        wait_for(lambda: own.getsockname() in api.lasts)  # so all earlier connections were accepted
    wait_for(lambda: api.open == 0)
    with Ledger(place.ledger) as ledger:
        written = {
            row.job.id: (row.outcome or row.progress).get("polls", 0) for row in ledger.jobs()
        }
    assert [name for name, polls in written.items() if polls > api.counts.get(name, 0)] == []
    lasts = collections.Counter(path.rpartition("/")[2] for path in api.lasts.values())
    api.lasts.clear()
    return collections.Counter(api.counts) - collections.Counter(written), lasts


def finish_all_but_the_late_job(place, words):
    """A run takes over all jobs of the killed ones, and is stopped when only late_1 is left."""
    run = place.start("run", place.ledger, "--quiet", *words)
    with Ledger(place.ledger) as ledger:

        def is_only_the_late_job_left():
            time.sleep(0.1)  # so that the ledger is free for the run
            summary = ledger.summary()
            waiting = summary.states.get("waiting", 0) + summary.states.get("leased", 0)
            return (waiting, summary.pending_notifications) == (1, 0)

        wait_for(is_only_the_late_job_left)
        run.terminate()
        assert run.communicate(timeout=90) == ("", INTERRUPTED)
        assert run.returncode == 143
        assert [row.job.id for row in ledger.jobs(["waiting", "leased"])] == ["late_1"]


def check(place, names, notified, seed):
    with Ledger(place.ledger) as ledger:
        rows = {row.job.id: row for row in ledger.jobs()}
        summary = ledger.summary()
        if not is_database(place.ledger):
            assert ledger._storage.file.read(
                lambda db: db.execute("PRAGMA integrity_check").fetchone()
            ) == ("ok",)
    assert {name: rows[name].state for name in names} == {
        name: expected_state(name) for name in names
    }, seed
    assert [
        name
        for name in names
        if expected_state(name) == "done" and rows[name].outcome["result"] != name
    ] == [], seed
    assert (summary.pending_notifications, summary.gave_up_notifying) == (0, 0), seed
    outcomes = {(line["id"], line["ended_at"], line["state"]) for line in notified}
    assert sorted(outcomes) == sorted(
        (name, rows[name].outcome["ended_at"], rows[name].state) for name in names
    ), seed


@pytest.mark.parametrize(
    "seed, least, at_once, words",
    [
        (1, 80, 2, ["--workers", "1", "--outbox", "outbox"]),
        (2, 40, 1, ["--workers", "2", "--outbox", "outbox", "--processes", "3"]),
        (3, 80, 2, ["--workers", "4", "--exec", "./notify"]),
    ],
)
def test_after_kills_a_clean_run_finishes_and_notifies_all_and_few_polls_are_repeated(
    seed, least, at_once, words, storage
):
    """Runs that share the work, or one with three processes, are killed at random instants."""
    rng = random.Random(seed)
    names = ["late_1"]
    kills = 0
    workers = int(words[1])
    processes = 3 if "--processes" in words else 1
    with JobApi(answer) as api, placed(api, PROFILE, storage) as place:
        place.script("cat >> outbox\n")
        place.add(names, "brief")
        number = 0
        before = collections.Counter()
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
                out, err = run.communicate(timeout=90)
                assert (
                    re.sub("pollkit: a process was killed by signal 9: .*\n", "", out + err) == ""
                ), (seed, number)
            lost, lasts = lost_polls(place, api)
            new = lost - before
            before = lost
            # At most one per worker that was killed: its last poll. (Several workers share their
            # connections, so that the last poll of each can't be determined.)
            assert sum(new.values()) <= max(killed * processes, is_child_killed) * workers, (
                seed,
                number,
                new,
            )
            assert workers > 1 or new - lasts == {}, (seed, number)
            expire_leases(place.ledger)
        finish_all_but_the_late_job(place, words)
        before, _ = lost_polls(place, api)
        place.time_passes(1800.0)
        clean = place.start("run", place.ledger, "--quiet", *words)
        assert clean.communicate(timeout=90) == ("", "") and clean.returncode in (0, 1, 3), seed
        check(place, names, place.lines("outbox"), seed)
        assert lost_polls(place, api)[0] == before, seed
