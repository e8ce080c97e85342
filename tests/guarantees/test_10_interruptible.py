"""Guarantee 10: Ctrl-C or SIGTERM ends a command within a second; it lists the unfinished jobs."""

import os
import signal
import sqlite3
import time

import pytest

from commands import start_pollkit
from pollkit import Ledger
from raw_server import HANG, RawServer, reply, wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are for POSIX")


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(
    "answer", [HANG, reply('{"status": "running"}')], ids=["in a request", "in a sleep"]
)
def test_a_signal_ends_a_batch_at_once(tmp_path, number, code, answer):
    with RawServer(answer) as server:
        (tmp_path / "jobs").write_text("%s\n%s\n" % (server.url("/job_1"), server.url("/job_2")))
        process = start_pollkit(tmp_path, "batch", "jobs", "--pace", "fixed 1m")
        wait_for(lambda: len(server.requests) == 2)
        process.send_signal(number)
        began = time.monotonic()
        out, err = process.communicate(timeout=60)
        took_s = time.monotonic() - began
    assert (process.returncode, out) == (code, "")
    assert took_s < 1.5
    assert "2 of 2 jobs" in err and "/job_1" in err and "/job_2" in err
    assert "Traceback" not in err


def interrupt_with_locked_ledger(process, path, after_s=0.0):
    """Lock a ledger and interrupt its run, which must end soon; the run's errors."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    time.sleep(after_s)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    out, err = process.communicate(timeout=60)
    took_s = time.monotonic() - began
    other.close()
    assert (process.returncode, out) == (143, "")
    assert took_s < 6  # SQLite itself waits for a second at each attempt
    return err


@pytest.mark.parametrize("notifier", [[], ["--outbox", "out.jsonl"]])
def test_a_signal_ends_a_run_soon_even_if_its_ledger_is_locked(tmp_path, notifier):
    path = str(tmp_path / "jobs.db")
    with RawServer(reply('{"status": "running"}')) as server, Ledger(path) as ledger:
        ledger.add([server.url("/job_1")])
        process = start_pollkit(tmp_path, "run", path, "--pace", "fixed 50ms", *notifier)
        wait_for(lambda: len(server.requests) >= 2)
        err = interrupt_with_locked_ledger(process, path, after_s=1.5)  # it waits for the lock then
    assert "interrupted: 1 job still waits" in err and "Traceback" not in err


def test_a_signal_ends_a_run_soon_whose_program_runs_while_the_ledger_is_locked(tmp_path):
    path = str(tmp_path / "jobs.db")
    with RawServer(reply('{"status": "done"}')) as server, Ledger(path) as ledger:
        ledger.add([server.url("/job_1")])
        program = ["sh", "-c", "touch started; sleep 60"]
        process = start_pollkit(tmp_path, "run", path, "--once", "--exec", *program)
        wait_for((tmp_path / "started").exists)
        time.sleep(0.5)  # until the run waits for its program only
        interrupt_with_locked_ledger(process, path)
