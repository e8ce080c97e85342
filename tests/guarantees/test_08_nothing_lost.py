"""Guarantee 8: SIGKILL at any instant loses no job and no notification, and repeats few polls."""

import os
import signal
import time

import pytest

from commands import read_json_lines, run_pollkit, start_pollkit
from job_api import JobApi, done_after
from raw_server import wait_for

JOBS = ["job_%d" % i for i in range(12)]
POLLS = 4  # per job
WORKERS = 3
KILLED_AFTER = (1, 13, 30)  # polls


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is for POSIX")
def test_runs_that_are_killed_lose_nothing(tmp_path):
    with JobApi(done_after(POLLS - 1)) as api:
        (tmp_path / "mine.ini").write_text(
            "[mine]\nurl = %s/jobs/{id}\npace = fixed 30ms\nproxy = none\n" % api.url
        )
        env = {"POLLKIT_PROFILES": str(tmp_path / "mine.ini")}
        add = ["add", "jobs.db", "--profile", "mine", "--quiet"] + JOBS
        assert run_pollkit(tmp_path, *add, env=env)[0] == 0
        run = ["run", "jobs.db", "--workers", str(WORKERS), "--outbox", "out.jsonl", "--quiet"]
        for polls in KILLED_AFTER:
            process = start_pollkit(tmp_path, *run, env=env)
            wait_for(lambda polls=polls: len(api.asked) >= polls)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        began = time.monotonic()
        assert run_pollkit(tmp_path, *run, env=env) == (0, "", "")
        assert time.monotonic() - began < 30  # the leases of killed runs were free at once
        polls_seen = len(api.asked)
    outcomes = {outcome["id"]: outcome for outcome in read_json_lines(tmp_path / "out.jsonl")}
    assert set(outcomes) == set(JOBS)
    assert {outcome["state"] for outcome in outcomes.values()} == {"done"}
    polls_recorded = sum(outcome["polls"] for outcome in outcomes.values())
    assert polls_seen - polls_recorded <= WORKERS * len(KILLED_AFTER)
