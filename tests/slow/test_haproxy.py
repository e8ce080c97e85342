"""A batch before a real haproxy whose limit counts the requests that it refuses, too."""

import pytest

from haproxy_server import haproxy_before
from job_api import JobApi, done_after
from pollkit import BatchPoller, Profile

JOBS = ["job_%d" % i for i in range(40)]


@pytest.mark.parametrize("retry_after", ["2", "%[date(2),http_date]"], ids=["seconds", "a date"])
def test_40_jobs_finish_although_refused_requests_count(tmp_path, retry_after):
    """Polling on during a refusal would keep the limit exceeded for ever."""
    with JobApi(done_after(1)) as api, haproxy_before(
        api.url, str(tmp_path), most=30, period="2s", retry_after=retry_after
    ) as haproxy:
        # The limit of the profile is too high, so that some requests are refused.
        profile = Profile(url=haproxy.url + "/jobs/{id}", proxy="none", limit="200/s burst 50")
        with BatchPoller(profile, pace="fixed 500ms", timeout=60) as batch:
            outcomes = batch.run(JOBS)
        requests, refused = haproxy.counts()
    assert {outcome.state for outcome in outcomes} == {"done"}
    assert len(api.asked) == 2 * len(JOBS)
    assert 0 < refused < 0.2 * requests
