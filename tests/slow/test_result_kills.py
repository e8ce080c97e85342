"""Runs that are killed at any instant lose no result, and leave no incomplete file."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from paths import ROOT
from pollkit import Ledger
from result_server import SMALL, ResultServer

JOBS = ["a%d" % number for number in range(6)]
RUN = """
import sys
from pollkit import LedgerRunner, Profile
url, path, save, result_url = sys.argv[1:]
api = Profile(name="api", url=url + "/jobs/{id}", proxy="none", result_url=result_url)
LedgerRunner(path, api, save=save, workers=3).run()
"""


@pytest.mark.parametrize("result_url", ["/steady/{id}", "/cut/{id}", "/small/{id}"])
def test_kills_at_any_instant_lose_no_result(tmp_path, result_url):
    rng = random.Random(result_url)
    path = str(tmp_path / "jobs.db")
    folder = tmp_path / "results"
    folder.mkdir()
    with Ledger(path) as ledger:
        ledger.add(JOBS)
    with ResultServer() as server:
        words = [server.origin, path, str(folder / "{id}"), result_url]
        for number in range(60):
            process = subprocess.Popen([sys.executable, "-c", RUN, *words], cwd=ROOT)
            # Longer and longer: without parts, a download needs a second without a kill.
            until = time.monotonic() + rng.uniform(0.1, 0.4 + number / 20)
            while process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            code = process.wait()
            assert code in (0, -signal.SIGKILL)
            for name in os.listdir(str(folder)):
                if name in JOBS:
                    assert (folder / name).read_bytes() == SMALL
            if code == 0:
                break
        with Ledger(path) as ledger:
            rows = {row.job.id: row for row in ledger.jobs()}
    assert {row.state for row in rows.values()} == {"done"}
    assert sorted(os.listdir(str(folder))) == JOBS
    assert all(rows[name].outcome["saved_to"] == str(folder / name) for name in JOBS)
