"""Unattended use: cron-like runs, a server that goes down three times, runs that are killed."""

import collections
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from ledger_host import home
from one_python import only_with_the_oldest
from paths import ROOT
from pollkit import Ledger
from ports import unused_port

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="for POSIX only"),
    only_with_the_oldest,  # the newest runs test_soak.py, which takes as long
]
JOBS = 2000
LONGEST_S = 45.0  # of a job
KILLS = 20
DOWN_S = 5.0
PATIENCE_S = 90.0  # after the last job has ended
DOWN_AT = [8.0, 20.0, 32.0]  # seconds after the start
PROFILE = """
[soak]
url = http://127.0.0.1:%d/jobs/{id}
result = result
error = error.message
limit = 400/s burst 20
pace = backoff 1s..8s x1.5
proxy = none
"""


class Host:
    """The processes of the test: the server, and one run at a time, as cron starts them."""

    def __init__(self, port, started_at, errors):
        self._port = port
        self._started_at = started_at
        self._errors = errors  # a file for the messages of the runs
        self._server = None
        self._run = None

    def start_server(self):
        server = os.path.join(ROOT, "tests", "support", "timed_jobs_server.py")
        command = [sys.executable, server, str(self._port), str(self._started_at)]
        self._server = subprocess.Popen(command)

    def stop_server(self):
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def keep_running(self):
        """Start a run if there is none, as cron does."""
        if self._run is not None and self._run.poll() is not None:
            assert self._run.returncode in (0, 1)  # 1: some jobs failed, as they should
            self._run = None
        if self._run is None:
            words = ["run", "jobs.db", "--for", "55s", "--outbox", "outbox.jsonl"]
            command = [sys.executable, "-m", "pollkit"] + words
            environment = dict(os.environ, PYTHONPATH=ROOT)
            self._run = subprocess.Popen(command, stderr=self._errors, env=environment)

    def kill_run(self):
        self._run.kill()
        self._run.wait()
        self._run = None

    def close(self):
        self.stop_server()
        if self._run is not None:
            self._run.send_signal(signal.SIGTERM)
            self._run.wait()


def new_jobs(rng):
    return [
        "%s_%.1f_%d" % (rng.choice(["done", "done", "failed"]), rng.uniform(0, LONGEST_S), i)
        for i in range(JOBS)
    ]


def timetable(rng):
    """Pairs of an instant, in seconds after the start, and a method of Host to call then."""
    events = [(rng.uniform(1, LONGEST_S), "kill_run") for _ in range(KILLS)]
    events += [(at, "stop_server") for at in DOWN_AT]
    events += [(at + DOWN_S, "start_server") for at in DOWN_AT]
    return sorted(events)


def is_all_over(ledger):
    summary = ledger.summary()
    unfinished = summary.states["waiting"] + summary.states["leased"]
    return unfinished == 0 and summary.pending_notifications == 0


def add_jobs(names):
    with open("jobs.txt", "w") as file:
        file.write("\n".join(names))
    words = ["add", "jobs.db", "--from", "jobs.txt", "--profile", "soak", "--quiet"]
    environment = dict(os.environ, PYTHONPATH=ROOT)
    subprocess.check_call([sys.executable, "-m", "pollkit"] + words, env=environment)


def play(host, events, ledger):
    """Keep a run going, follow the timetable, and wait until all jobs have finished."""
    began = time.monotonic()
    events = list(events)
    while events or not is_all_over(ledger):
        now_s = time.monotonic() - began
        assert now_s < LONGEST_S + PATIENCE_S, ledger.summary()
        host.keep_running()
        if events and events[0][0] <= now_s:
            getattr(host, events.pop(0)[1])()
        else:
            time.sleep(0.05)


def written_lines(path):
    """How often each job is in the outbox; a kill may leave an incomplete line."""
    counts = collections.Counter()
    with open(path) as file:
        for line in file:
            try:
                counts[json.loads(line)["id"]] += 1
            except ValueError:
                pass
    return counts


def test_every_job_ends_right_and_is_in_the_outbox_once(monkeypatch):
    rng = random.Random(14)
    names = new_jobs(rng)
    with home(monkeypatch), open("errors.txt", "w+") as errors:
        port = unused_port()
        with open("soak.ini", "w") as file:
            file.write(PROFILE % port)
        monkeypatch.setenv("POLLKIT_PROFILES", os.path.abspath("soak.ini"))
        add_jobs(names)
        with Ledger("jobs.db") as ledger:
            host = Host(port, time.time(), errors)
            try:
                host.start_server()
                play(host, timetable(rng), ledger)
            finally:
                host.close()
            states = {row.job.id: row.state for row in ledger.jobs(outcomes=False)}
            outages = ledger.outages(since=0.0)
        assert states == {name: name.split("_")[0] for name in names}
        assert written_lines("outbox.jsonl") == collections.Counter(names)
        assert len(outages) == len(DOWN_AT)
        errors.seek(0)
        printed = errors.read()
        assert "Traceback" not in printed and "bug" not in printed
