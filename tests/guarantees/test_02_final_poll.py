"""Guarantee 2: the last sleep ends at the deadline, and the job is polled once more there."""

from pollkit import Poller
from pollkit.testing import FakeJobApi, VirtualClock


def poll(api, clock):
    with Poller(api.profile, pace="fixed 100s", timeout=250, clock=clock) as poller:
        return poller.poll("job_1")


def test_a_job_that_finishes_just_before_the_deadline_is_done():
    clock = VirtualClock()
    with FakeJobApi(clock=clock) as api:
        api.add("job_1", lasts=249)
        assert poll(api, clock).state == "done"
        assert [request.at for request in api.requests] == [0.0, 100.0, 200.0, 250.0]


def test_there_is_no_final_poll_if_retry_after_forbids_it():
    clock = VirtualClock()
    with FakeJobApi(clock=clock) as api:
        api.add("job_1", lasts=249)
        api.fault(503, request=3, retry_after=60)
        assert poll(api, clock).state == "timed_out"
        assert [request.at for request in api.requests] == [0.0, 100.0, 200.0]
