"""Cancelling jobs at their API. The server is another process."""

import pytest

from pollkit import BatchPoller, ConfigError, Poller, PollkitError, Profile
from pollkit.testing import VirtualClock
from raw_server import RawServer, redirect, reply
from result_server import ResultServer


@pytest.fixture(scope="module")
def server():
    with ResultServer() as server:
        yield server


def profile(server, **fields):
    fields.setdefault("cancel_url", "/jobs/{id}/cancel")
    return Profile(
        name="api",
        url=server.url("/jobs/{id}"),
        proxy="none",
        pace="fixed 50ms",
        retry="fixed 10ms",
        not_found_grace="100ms",
        **fields,
    )


def requests_about(server, job_id):
    return [
        "%s %s" % (each["method"], each["path"])
        for each in server.log()
        if "/%s" % job_id in each["path"]
    ]


def test_a_batch_asks_the_api_and_polls_until_the_job_has_ended(server):
    with BatchPoller(profile(server), clock=VirtualClock()) as batch:
        future = batch.submit("r1")
        assert batch.cancel("r1", remote=True)
        outcome = future.result(timeout=20)
        assert not batch.cancel("r1", remote=True)
    assert outcome.state == "cancelled" and outcome.status == "cancelled"
    sent = requests_about(server, "r1")
    assert sent.count("POST /jobs/r1/cancel") == 1 and sent[-1] == "GET /jobs/r1"


def test_a_job_that_was_deleted_was_cancelled(server):
    deleting = profile(server, cancel_url="/jobs/{id}", cancel_method="DELETE")
    with BatchPoller(deleting, clock=VirtualClock()) as batch:
        future = batch.submit("rgone1")
        batch.cancel("rgone1", remote=True)
        assert future.result(timeout=20).state == "cancelled"
    assert "DELETE /jobs/rgone1" in requests_about(server, "rgone1")


def test_a_job_of_a_list_is_cancelled_with_its_own_request(server):
    listed = profile(server, batch_url=server.url("/list"))
    with BatchPoller(listed, clock=VirtualClock()) as batch:
        future = batch.submit("r2")
        batch.cancel("r2", remote=True)
        assert future.result(timeout=20).state == "cancelled"


def test_without_cancel_url_the_job_stays_pending(server):
    with BatchPoller(profile(server, cancel_url=None)) as batch:
        batch.submit("r3")
        with pytest.raises(ConfigError, match="the profile api has no cancel_url"):
            batch.cancel("r3", remote=True)
        assert len(batch) == 1
        batch.cancel("r3")


def test_an_api_that_refuses_is_a_warning_and_the_job_is_polled_as_before(server):
    events = []
    stubborn = profile(server, cancel_url="/jobs/{id}/stubborn")
    with BatchPoller(stubborn, timeout="1s", on_event=events.append) as batch:
        future = batch.submit("r4")
        batch.cancel("r4", remote=True)
        outcome = future.result(timeout=20)
    assert outcome.state == "timed_out"
    warnings = [event.text for event in events if event.kind == "warning"]
    assert (
        len(warnings) == 1 and "the job can't be cancelled: the server refused: 409" in warnings[0]
    )


def test_a_job_that_times_out_is_cancelled_if_the_profile_says_so(server):
    cancelling = profile(server, on_timeout="cancel")
    with Poller(cancelling, timeout=0.2, clock=VirtualClock()) as poller:
        outcome = poller.poll("r5")
    assert outcome.state == "cancelled"
    assert requests_about(server, "r5")[-2:] == ["POST /jobs/r5/cancel", "GET /jobs/r5"]


def test_a_single_poll_that_times_out_is_cancelled_too(server):
    cancelling = profile(server, on_timeout="cancel")
    with BatchPoller(cancelling, timeout=0, clock=VirtualClock()) as batch:
        assert batch.run(["r6"])[0].state == "cancelled"


def test_a_poller_only_sends_the_request(server):
    with Poller(profile(server)) as poller:
        poller.cancel("r7")
        assert requests_about(server, "r7") == ["POST /jobs/r7/cancel"]
        with pytest.raises(PollkitError, match="r8 was not cancelled: the server refused: 409"):
            Poller(profile(server, cancel_url="/jobs/{id}/stubborn")).cancel("r8")


def test_a_request_that_comes_too_late_is_one_line(server):
    slow = profile(server, cancel_url="http://127.0.0.1:9/{id}", limit="1/h")
    with Poller(slow) as poller:
        with pytest.raises(PollkitError, match="r9 was not cancelled: 127.0.0.1:9 refused"):
            poller.cancel("r9", timeout=1)
        with pytest.raises(PollkitError, match="the rate limit allows no request"):
            poller.cancel("r9", timeout=0.1)


def test_a_cancel_request_that_succeeds_in_the_end_gives_no_warning(server):
    events = []
    shaky = profile(server, cancel_url="/jobs/{id}/shaky")
    with BatchPoller(shaky, clock=VirtualClock(), on_event=events.append) as batch:
        future = batch.submit("r17")
        batch.cancel("r17", remote=True)
        assert future.result(timeout=20).state == "cancelled"
    kinds = [event.kind for event in events]
    assert "warning" not in kinds and "fault" in kinds


def test_a_timeout_that_cancels_is_in_the_log_with_its_end(server):
    events = []
    cancelling = profile(server, on_timeout="cancel")
    clock = VirtualClock()
    with Poller(cancelling, timeout=0.2, on_event=events.append, clock=clock) as poller:
        poller.poll("r8")
    texts = [event.text for event in events]
    assert "not done in time; asking the API to cancel it" in texts
    assert texts[-1] == 'cancelled: pollkit asked the API to cancel it; status "cancelled"'


@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect"])
@pytest.mark.parametrize("method", ["DELETE", "POST"])
def test_no_server_can_have_a_request_that_changes_something_sent_elsewhere(method, status):
    """Another server on this network may trust this host, and obey a DELETE."""
    with RawServer(reply()) as other, RawServer(redirect(other.url("/x"), status)) as api:
        deleting = profile(api, cancel_method=method)
        with Poller(deleting) as poller:
            try:
                poller.cancel("r1")
            except PollkitError as error:
                assert "a %s request is not sent to another origin" % method in str(error)
    assert {request.method for request in other.requests} <= {"GET"}


def test_a_job_is_cancelled_at_another_origin_that_the_profile_names():
    with RawServer(redirect("/moved", "307 Moved"), reply()) as other, RawServer() as api:
        with Poller(profile(api, cancel_url=other.url("/jobs/{id}"))) as poller:
            poller.cancel("r1")
    assert [request.line for request in other.requests] == [
        "POST /jobs/r1 HTTP/1.1",
        "POST /moved HTTP/1.1",
    ]
