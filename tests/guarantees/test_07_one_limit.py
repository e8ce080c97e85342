"""Guarantee 7: processes that share a bucket stay within rate x window + burst together."""

from commands import start_pollkit
from job_api import JobApi, done_after

PROCESSES = 3
JOBS_EACH = 15
RATE = 40.0
BURST = 2
JITTER_S = 0.15  # between taking a token and the arrival of the request, on a busy machine


def test_three_processes_together_keep_to_one_limit(tmp_path):
    with JobApi(done_after(0)) as api:
        limit = ["--bucket", "limit.db", "--limit", "%g/s burst %d" % (RATE, BURST), "--quiet"]
        processes = []
        for number in range(PROCESSES):
            urls = ["%s/jobs/%d_%d\n" % (api.url, number, i) for i in range(JOBS_EACH)]
            (tmp_path / str(number)).write_text("".join(urls))
            processes.append(start_pollkit(tmp_path, "batch", str(number), *limit))
        for process in processes:
            process.communicate(timeout=60)
            assert process.returncode == 0
        times = sorted(api.times)
    assert len(times) == PROCESSES * JOBS_EACH
    for first in range(len(times)):
        for last in range(first, len(times)):
            window_s = times[last] - times[first]
            assert last - first + 1 <= RATE * (window_s + JITTER_S) + BURST
