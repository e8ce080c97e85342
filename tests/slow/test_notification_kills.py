"""A run that is killed while it notifies: the next one notifies again, at once."""

import os
import signal
import time

import pytest

from job_api import JobApi
from ledger_place import placed
from pollkit import Ledger
from raw_server import wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="for POSIX only")


def test_after_a_kill_during_a_program_the_next_run_runs_it_again_at_once():
    """Without waiting for the end of the lease, which is --exec-timeout and a minute."""
    with JobApi(lambda name, count: "done") as api, placed(api) as place:
        place.add(["job_1", "job_2"])
        program = place.script(
            'echo "$POLLKIT_ID $POLLKIT_TRY $$" >> "$0.log"; [ $POLLKIT_TRY = 2 ] || sleep 600\n'
        )
        words = ["run", place.ledger, "--once", "--outbox", "out.jsonl", "--exec", program]
        killed = place.start(*words)
        log = place.file("notify.log")
        wait_for(lambda: os.path.exists(log) and len(read_words(log)) == 2)
        killed.kill()
        killed.wait()
        for _, _, pid in read_words(log):
            os.killpg(int(pid), signal.SIGKILL)  # the programs have outlived the run
        killed.communicate()
        began = time.monotonic()
        run = place.start(*words)
        assert run.communicate(timeout=30) == ("", "") and run.returncode == 0
        assert time.monotonic() - began < 10
        assert sorted(line[:2] for line in read_words(log)[2:]) == [["job_1", "2"], ["job_2", "2"]]
        # The first attempts have written the lines.
        assert sorted(line["id"] for line in place.lines("out.jsonl")) == ["job_1", "job_2"]
        with Ledger(place.ledger) as ledger:
            assert all(row.notified_at is not None for row in ledger.jobs())


def read_words(path):
    with open(path) as file:
        return [line.split() for line in file]
