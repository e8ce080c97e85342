"""A batch behind a real nginx whose limit_req refuses requests with 503, as it does by default."""

from job_api import JobApi
from nginx_server import nginx_before
from pollkit import BatchPoller, Profile

JOBS = ["job_%d" % i for i in range(180)]


def test_180_jobs_behind_limit_req_finish_with_few_refusals(tmp_path):
    with JobApi(lambda name, count: "done") as api, nginx_before(
        api.url, str(tmp_path), "30r/s", "burst=20 nodelay"
    ) as nginx:
        mine = Profile(url=nginx.url + "/jobs/{id}", proxy="none")
        with BatchPoller(mine, pace="fixed 200ms", timeout="5m") as batch:
            outcomes = batch.run(JOBS)
        assert {outcome.state for outcome in outcomes} == {"done"}
        assert set(nginx.statuses) == {200, 503}
        assert nginx.statuses.count(503) < 0.15 * len(nginx.statuses)
