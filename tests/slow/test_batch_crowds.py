"""BatchPoller with many jobs, many callers and many faults."""

import gc
import os
import subprocess
import sys

import pytest

from job_api import JobApi
from paths import ROOT
from pollkit import BatchPoller, Profile, TokenBucket
from stress import flaky, stress

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def test_a_thousand_jobs_on_eight_workers_keep_the_limit_and_few_connections():
    rate = 800
    burst = 20
    with JobApi(lambda name, count: "done" if count else "running") as api:
        profile = Profile(url=api.url + "/jobs/{id}", proxy="none")
        bucket = TokenBucket(rate, burst=burst)
        with BatchPoller(profile, pace="fixed 100ms", workers=8, bucket=bucket) as batch:
            outcomes = batch.run(["j%d" % i for i in range(1000)])
        assert all(outcome.state == "done" and outcome.polls == 2 for outcome in outcomes)
        assert api.connections <= 9
        times = sorted(api.times)
    # The limit applies when tokens are taken; on the way to the server some requests bunch up.
    for start in range(0, len(times), 50):
        inside = sum(1 for at in times[start:] if at < times[start] + 1)
        assert inside <= (rate + burst) * 1.05


@pytest.mark.parametrize("seed", range(1, 9))
def test_stress_every_future_is_settled_exactly_once_and_nothing_leaks(seed):
    with JobApi(flaky(seed)) as api:
        stress(seed, api, 500)
    gc.collect()
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with JobApi(flaky(seed)) as api:
        stress(seed, api, 250)
    gc.collect()
    if files:
        assert len(os.listdir("/proc/self/fd")) <= files


def test_stress_under_dev_mode_with_warnings_as_errors():
    code = (
        "import sys; sys.path.insert(0, 'tests/support')\n"
        "from stress import flaky, stress; from job_api import JobApi\n"
        "with JobApi(flaky(3)) as api: stress(3, api, 400)\nprint('fine')"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        cwd=ROOT,
        timeout=60,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert (done.stdout, done.stderr) == (b"fine\n", b""), done.stderr.decode()
