"""Legacy code that already has an HTTP client: pollkit waits, `requests` sends the requests."""

import pytest
import requests
import responses

import pollkit
from pollkit.testing import VirtualClock

URL = "https://api.internal/v1/jobs/42"


@responses.activate
def test_requests_with_the_decoded_body():
    responses.add(responses.GET, URL, json={"status": "running"})
    responses.add(responses.GET, URL, json={"status": "done", "result": {"pages": 3}})
    session = requests.Session()
    assert pollkit.wait(lambda: session.get(URL).json(), clock=VirtualClock()) == {"pages": 3}
    assert len(responses.calls) == 2


@responses.activate
def test_a_requests_response_is_judged_like_a_reply():
    responses.add(responses.GET, URL, status=429, headers={"Retry-After": "7"})
    responses.add(responses.GET, URL, status=202)
    responses.add(responses.GET, URL, json={"status": "done", "result": [1, 2]})
    with pollkit.Poller(clock=VirtualClock()) as poller:
        outcome = poller.poll(lambda: requests.get(URL, timeout=30))
    assert (outcome.state, outcome.polls, outcome.result) == ("done", 3, [1, 2])
    assert outcome.slept_s.retry_after >= 7


@responses.activate
def test_a_requests_response_with_404_is_unreachable():
    responses.add(responses.GET, URL, status=404, json={"error": "no such job"})
    with pytest.raises(pollkit.JobUnreachable, match="404: not found, 'no such job'"):
        pollkit.wait(lambda: requests.get(URL, timeout=30), clock=VirtualClock())


@responses.activate
def test_requests_with_exceptions_that_are_retried():
    responses.add(responses.GET, URL, status=429, headers={"Retry-After": "7"})
    responses.add(responses.GET, URL, status=503)
    responses.add(responses.GET, URL, body=requests.ConnectionError("reset"))
    responses.add(responses.GET, URL, json={"status": "done", "result": 1})

    poller = pollkit.Poller(retry_on=(requests.RequestException,), clock=VirtualClock())
    outcome = poller.poll(lambda: requests.get(URL, timeout=30))
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 4, 2)
    assert outcome.slept_s.retry_after >= 7
