"""A ledger behind a real nginx whose limit_req refuses requests with 503, as it does by default."""

from job_api import JobApi, done_after
from ledger_place import placed
from nginx_server import nginx_before
from pollkit import Ledger

JOBS = ["job_%d" % i for i in range(180)]


def test_180_jobs_of_a_ledger_polled_by_two_processes_finish_with_few_refusals(tmp_path):
    """All processes slow down together: they share the limit in the ledger."""
    with JobApi(done_after(1)) as api, nginx_before(
        api.url, str(tmp_path), "20r/s", "burst=10 nodelay"
    ) as nginx, placed(nginx, "") as place:
        place.add(JOBS)
        out, err = place.start(
            "run", place.ledger, "--processes", "2", "--max-faults", "10"
        ).communicate()
        with Ledger(place.ledger) as ledger:
            assert {row.state for row in ledger.jobs()} == {"done"}, err
        assert set(nginx.statuses) == {200, 503}
        assert nginx.statuses.count(503) < 0.15 * len(nginx.statuses)
