"""Legacy code that has an HTTP client already: pollkit waits, `requests` asks."""

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
def test_requests_with_the_whole_reply_so_that_headers_and_statuses_count():
    responses.add(responses.GET, URL, status=429, headers={"Retry-After": "7"})
    responses.add(responses.GET, URL, status=503)
    responses.add(responses.GET, URL, body=requests.ConnectionError("reset"))
    responses.add(responses.GET, URL, json={"status": "done", "result": 1})

    def ask():
        answer = requests.get(URL, timeout=30)
        return pollkit.Reply(answer.status_code, answer.headers, answer.content, answer.url)

    outcome = pollkit.Poller(retry_on=(requests.RequestException,), clock=VirtualClock()).poll(ask)
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 4, 2)
    assert outcome.slept_s.retry_after >= 7
