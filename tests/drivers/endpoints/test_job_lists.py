"""One request for many jobs, against servers that speak as real APIs do."""

import json

import pytest

from pollkit import (
    BatchPoller,
    ConfigError,
    Job,
    Ledger,
    LedgerRunner,
    Poller,
    Profile,
    State,
    TokenBucket,
)
from pollkit.drivers.endpoints import job_lists
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply


class ListServer(RawServer):
    """A server whose replies are computed from the request, and encoded as JSON.

    `answer(request)` returns the data, or a status and the data.
    """

    def __init__(self, answer):
        def send(connection, request):
            found = answer(request)
            status, data = found if isinstance(found, tuple) else ("200 OK", found)
            connection.send(reply(json.dumps(data), status))

        super().__init__(send)


def items(**statuses):
    return [{"id": name, "status": status} for name, status in statuses.items()]


def run(server, ids, bucket=None, clock=None, **fields):
    """The outcomes and the events of a batch."""
    events = []
    settings = {"url": server.url("/jobs/{id}"), "pace": "fixed 20ms", "retry": "fixed 20ms"}
    settings.update({"timeout": 5.0, "not_found_grace": 0}, **fields)
    profile = Profile(**settings)
    with BatchPoller(profile, bucket=bucket, on_event=events.append, clock=clock) as batch:
        outcomes = {outcome.id: outcome for outcome in batch.run(ids)}
    return outcomes, events


def test_a_parameter_can_be_repeated():
    with ListServer(lambda request: {"jobs": items(a="done", b="done")}) as server:
        run(server, ["a", "b"], batch_url=server.url("/jobs?{id=ids}"))
        assert server.targets == ["/jobs?id=a&id=b"]


def test_ids_in_a_body_are_sent_by_post():
    def answer(request):
        asked = json.loads(request.body.decode())["jobIds"]
        return {"jobs": items(**dict.fromkeys(asked, "done"))}

    with ListServer(answer) as server:
        body = '{"jobIds": {ids}}'
        outcomes, _ = run(server, ["a", "b"], batch_url=server.url("/find"), batch_body=body)
        (request,) = server.requests
    assert (request.method, request.body) == ("POST", b'{"jobIds": ["a", "b"]}')
    assert request.headers["content-type"] == "application/json"
    assert all(outcome.state is State.DONE for outcome in outcomes.values())


def test_a_list_of_all_jobs_needs_no_ids_and_one_request():
    names = ["j%d" % number for number in range(80)]
    with ListServer(lambda request: items(**dict.fromkeys(names, "done"))) as server:
        outcomes, _ = run(server, names, batch_url=server.url("/mine"), batch_size=10)
        assert server.targets == ["/mine"]
    assert len(outcomes) == 80


def test_pages_are_followed_by_their_links():
    def answer(request):
        if "page=2" in request.target:
            return {"items": items(b="done"), "links": {"next": None}}
        return {"items": items(a="done"), "links": {"next": "/jobs?page=2"}}

    with ListServer(answer) as server:
        batch_url = server.url("/jobs")
        outcomes, _ = run(server, ["a", "b"], batch_url=batch_url, batch_next="links.next")
        assert server.targets == ["/jobs", "/jobs?page=2"]
    assert {outcome.polls for outcome in outcomes.values()} == {1}


def test_pages_are_followed_by_google_page_tokens():
    def answer(request):
        if "pageToken=t%2F2" in request.target:
            return {"items": items(b="done"), "nextPageToken": ""}
        return {"items": items(a="done"), "nextPageToken": "t/2"}

    with ListServer(answer) as server:
        batch_url = server.url("/jobs?filter=x")
        run(server, ["a", "b"], batch_url=batch_url, batch_next="nextPageToken as pageToken")
        assert server.targets == ["/jobs?filter=x", "/jobs?filter=x&pageToken=t%2F2"]


def test_a_page_that_links_to_itself_ends_with_one_warning():
    polls = []

    def answer(request):
        polls.append(request)
        status = "done" if len(polls) > 4 else "running"
        return {"items": items(a=status, b=status), "next": "/jobs"}

    with ListServer(answer) as server:
        outcomes, events = run(server, ["a", "b"], batch_url=server.url("/jobs"), batch_next="next")
    assert {outcome.state for outcome in outcomes.values()} == {State.DONE}
    warnings = [event.text for event in events if event.kind == "warning"]
    assert warnings == ["the list links to a page that was read already: the rest is not read"]


def test_a_list_without_end_is_bounded(monkeypatch):
    monkeypatch.setattr(job_lists, "MOST_PAGES", 3)
    numbers = iter(range(1000))

    def answer(request):
        return {"items": items(a="done"), "next": "/jobs?page=%d" % next(numbers)}

    with ListServer(answer) as server:
        run(server, ["a"], batch_url=server.url("/jobs"), batch_next="next")
        assert len(server.requests) == 3


def test_the_pages_of_a_list_are_limited_in_memory(monkeypatch):
    """100 pages of 9 MB took 1.8 GB."""
    monkeypatch.setattr(job_lists, "MOST_BYTES", 2000)
    numbers = iter(range(1000))

    def answer(request):
        return {"items": items(a="done"), "next": "/jobs?p=%d" % next(numbers), "x": "x" * 900}

    with ListServer(answer) as server:
        settings = {"batch_url": server.url("/jobs"), "batch_next": "next"}
        outcomes, events = run(server, ["a"], **settings)
        assert len(server.requests) == 3
    assert outcomes["a"].state is State.DONE
    assert any("the pages of the list exceed" in event.text for event in events)


def test_a_page_at_another_origin_is_not_read():
    def answer(request):
        return {"items": items(a="done"), "next": "http://127.0.0.1:9/jobs"}

    with ListServer(answer) as server:
        _, events = run(server, ["a"], batch_url=server.url("/jobs"), batch_next="next")
    assert any("at another origin" in event.text for event in events)


@pytest.mark.parametrize("link", [7.5, {"a": 1}, True, "x" * 3000, ["a"]])
def test_a_link_of_nonsense_ends_the_list_and_absence_is_no_end(link):
    def answer(request):
        found = items(a="done") if len(server.requests) == 1 else items(b="done")
        return {"items": found, "next": link}

    with ListServer(answer) as server:
        settings = {"batch_url": server.url("/jobs"), "batch_next": "next"}
        outcomes, events = run(server, ["a", "b"], batch_absent="failed", **settings)
        assert server.targets == ["/jobs"] * 2
    assert {outcome.state for outcome in outcomes.values()} == {State.DONE}
    (warning,) = [event.text for event in events if event.kind == "warning"]
    assert warning == "the link to the next page of the list makes no sense: it is not read"


@pytest.mark.parametrize("status, faults", [("503 Busy", 1), ("500 Oops", 1), ("429 Slow", 0)])
def test_a_page_that_fails_leaves_the_jobs_finished_that_an_earlier_page_has(status, faults):
    def answer(request):
        if "page=2" in request.target and len(server.requests) < 4:
            return status, {}
        if "page=2" in request.target:
            return {"items": items(b="done")}
        return {"items": items(a="done"), "next": "?page=2"}

    with ListServer(answer) as server:
        outcomes, _ = run(server, ["a", "b"], batch_url=server.url("/jobs"), batch_next="next")
    assert {outcome.state for outcome in outcomes.values()} == {State.DONE}
    assert (outcomes["a"].polls, outcomes["a"].faults) == (1, 0)
    assert (outcomes["b"].polls, outcomes["b"].faults) == (2, faults)


def test_each_page_needs_a_token():
    def answer(request):
        return {"items": items(a="done"), "next": "" if "page" in request.target else "?page=2"}

    bucket = TokenBucket(1, per="1h", burst=1)
    with ListServer(answer) as server:
        _, events = run(server, ["a"], bucket, batch_url=server.url("/jobs"), batch_next="next")
        assert len(server.requests) == 1
    assert any("leaves no request for the next page" in event.text for event in events)


@pytest.mark.parametrize("absent", [False, True])
def test_the_next_request_of_a_poll_gets_its_token_on_a_virtual_clock_too(absent):
    def answer(request):
        if "page" in request.target or request.target == "/jobs/b":
            return {"items": items(b="done"), "status": "done"}
        return {"items": items(a="done"), "next": "" if absent else "?page=2"}

    clock = VirtualClock()
    with ListServer(answer) as server:
        lists = {"batch_url": server.url("/jobs"), "batch_next": "next"}
        bucket = TokenBucket(1, per="1m", burst=1, clock=clock)
        outcomes, _ = run(server, ["a", "b"], bucket, clock, timeout="1h", **lists)
        assert len(server.requests) == 2
    assert {outcome.state for outcome in outcomes.values()} == {State.DONE}
    assert 59 < clock.now() < 63


# Jobs that the list does not have


def answer_with_one_absent(request):
    if request.target.startswith("/jobs/b"):
        return {"status": "done", "result": 7}
    return {"items": items(a="done")}


def test_a_job_that_the_list_does_not_have_is_polled_alone():
    with ListServer(answer_with_one_absent) as server:
        outcomes, _ = run(server, ["a", "b"], batch_url=server.url("/jobs"))
        assert server.targets == ["/jobs", "/jobs/b"]
    assert (outcomes["b"].state, outcomes["b"].result, outcomes["b"].polls) == ("done", 7, 1)


@pytest.mark.parametrize("absent, state", [("done", State.DONE), ("failed", State.FAILED)])
def test_absence_may_be_an_end(absent, state):
    with ListServer(answer_with_one_absent) as server:
        outcomes, _ = run(server, ["b"], batch_url=server.url("/jobs"), batch_absent=absent)
        assert server.targets == ["/jobs"]
    assert outcomes["b"].state is state
    if state is State.FAILED:
        assert outcomes["b"].error.message == "the list does not have the job"


def test_absence_from_a_part_of_the_list_is_no_end():
    def answer(request):
        status = "done" if len(server.requests) > 2 else None
        return {"items": items(a=status) if status else [], "next": "/jobs"}

    with ListServer(answer) as server:
        outcomes, _ = run(
            server, ["a"], batch_url=server.url("/jobs"), batch_next="next", batch_absent="failed"
        )
    assert outcomes["a"].state is State.DONE


def test_a_429_for_an_absent_job_pauses_all():
    def answer(request):
        if request.target == "/jobs/b" and len(server.requests) < 3:
            return "429 Slow", {}
        return answer_with_one_absent(request)

    with ListServer(answer) as server:
        outcomes, events = run(server, ["b"], batch_url=server.url("/jobs"))
    assert (outcomes["b"].state, outcomes["b"].faults) == (State.DONE, 0)
    assert any(event.kind == "pause" for event in events)


def test_only_some_absent_jobs_are_polled_in_one_round(monkeypatch):
    monkeypatch.setattr(job_lists, "MOST_ASKED", 2)

    def answer(request):
        return {"status": "done"} if request.target.startswith("/jobs/") else {"items": []}

    with ListServer(answer) as server:
        outcomes, _ = run(server, ["a", "b", "c", "d", "e"], batch_url=server.url("/jobs"))
        assert server.targets.count("/jobs") == 3
    assert len(outcomes) == 5


def test_absent_jobs_take_turns(monkeypatch):
    monkeypatch.setattr(job_lists, "MOST_ASKED", 2)

    def answer(request):
        if not request.target.startswith("/jobs/"):
            return {"items": []}
        has_ended = request.target == "/jobs/e" or len(server.requests) > 20
        return {"status": "done" if has_ended else "running"}

    with ListServer(answer) as server:
        bucket = TokenBucket(1000, burst=100)
        outcomes, _ = run(server, ["a", "b", "c", "d", "e"], bucket, batch_url=server.url("/jobs"))
    assert {outcome.state for outcome in outcomes.values()} == {State.DONE}
    assert outcomes["e"].polls == 3


def test_an_absent_job_that_is_gone_is_asked_about_until_it_ends(monkeypatch):
    monkeypatch.setattr(job_lists, "MOST_ASKED", 1)

    def answer(request):
        if request.target == "/jobs/a":
            return "404 Not Found", {}
        if request.target == "/jobs/b":
            return {"status": "done"}
        return {"items": []}

    with ListServer(answer) as server:
        settings = {"batch_url": server.url("/jobs"), "rules": "done if http 404", "confirm": 2}
        outcomes, _ = run(server, ["a", "b"], status="status", **settings)
        alone = [target for target in server.targets if target != "/jobs"]
    assert {outcome.state for outcome in outcomes.values()} == {State.DONE}
    assert alone == ["/jobs/a"] * 2 + ["/jobs/b"] * 2


def test_a_slow_limit_leaves_requests_for_absent_jobs_and_pages(monkeypatch):
    monkeypatch.setattr(job_lists, "LONGEST_TOKEN_WAIT_S", 0.01)

    def answer(request):
        if request.target == "/jobs/c":
            return {"status": "done"}
        if request.target == "/jobs?page=2":
            return {"items": items(b="done")}
        return {"items": items(a="done"), "next": "/jobs?page=2"}

    with ListServer(answer) as server:
        bucket = TokenBucket(5, per="1s", burst=1)
        settings = {"batch_url": server.url("/jobs"), "batch_next": "next"}
        outcomes, _ = run(server, ["a", "b", "c"], bucket, **settings)
    assert {outcome.polls for outcome in outcomes.values()} == {1}


def test_a_wait_for_a_token_ends_at_the_deadline():
    bucket = TokenBucket("2/m")
    assert job_lists.latest_token(bucket, 100.0, 120.0) == 120.0
    assert job_lists.latest_token(bucket, 100.0, 105.0) == 110.0
    assert 160.0 < job_lists.latest_token(bucket, 100.0, 1000.0) < 164.0


# {id} in the body (AWS)


def describe_table(request):
    name = json.loads(request.body.decode())["TableName"]
    return {"Table": {"Status": "ACTIVE", "Name": name}}


AWS = {
    "method": "POST",
    "body": '{"TableName": "{id}"}',
    "status": "Table.Status",
    "done": "ACTIVE",
    "result": "Table.Name",
    "headers": {"Content-Type": "application/x-amz-json-1.0"},
}


def test_an_id_in_the_body_needs_none_in_the_url():
    with ListServer(describe_table) as server:
        outcome = Poller(Profile(url=server.url("/"), **AWS)).poll('a"b')
        (request,) = server.requests
    assert outcome.result == 'a"b'
    assert [value for name, value in request.fields if name.lower() == "content-type"] == [
        "application/x-amz-json-1.0"
    ]


def test_a_body_may_have_only_the_label():
    with ListServer(lambda request: json.loads(request.body.decode())) as server:
        profile = Profile(url=server.url("/{id}"), method="POST", body='{"status": "{label}"}')
        assert Poller(profile).poll(Job("a", label="done")).state is State.DONE
        with pytest.raises(ConfigError, match="the job needs a label"):
            with BatchPoller(profile) as batch:
                batch.submit("a")


def test_jobs_with_their_id_in_the_body_can_be_batched():
    with ListServer(describe_table) as server:
        with BatchPoller(Profile(url=server.url("/"), **AWS)) as batch:
            assert [outcome.result for outcome in batch.run(["a", "b"])] == ["a", "b"]


def test_a_list_beside_an_id_in_the_body_is_read_by_get():
    with ListServer(lambda request: {"items": [{"id": "a", "Table": {"Status": "ACTIVE"}}]}) as s:
        with BatchPoller(Profile(url=s.url("/"), batch_url=s.url("/all"), **AWS)) as batch:
            batch.run(["a"])
        (request,) = s.requests
    assert (request.method, request.target, request.body) == ("GET", "/all", b"")


def test_every_request_of_a_list_is_counted():
    def answer(request):
        if request.target == "/jobs/c":
            return {"status": "done"}
        if "page=2" in request.target:
            return {"items": items(b="done")}
        return {"items": items(a="done"), "next": "/jobs?page=2"}

    with ListServer(answer) as server:
        profile = Profile(
            url=server.url("/jobs/{id}"), batch_url=server.url("/jobs"), batch_next="next"
        )
        with BatchPoller(profile) as batch:
            batch.run(["a", "b", "c"])
            assert batch.stats.polls == len(server.requests) == 3


@pytest.mark.parametrize("transport", ["builtin", "urllib"])
def test_lists_and_bodies_work_in_a_ledger_and_with_other_transports(tmp_path, transport):
    def answer(request):
        content = json.loads(request.body.decode())
        if "TableName" in content:
            return describe_table(request)
        return {"items": [{"id": "a", "Table": {"Name": "a", "Status": "ACTIVE"}}]}

    with ListServer(answer) as server:
        settings = dict(AWS, transport=transport, batch_body='{"Names": {ids}}')
        profile = Profile(url=server.url("/"), batch_url=server.url("/find"), **settings)
        ledger = Ledger(str(tmp_path / "jobs.db"))
        ledger.add(["a", "b"])
        LedgerRunner(ledger, profile=profile).run()
        assert [row.outcome["result"] for row in ledger.jobs()] == ["a", "b"]
        # The jobs may become due one after the other, so there may be two lists.
        assert set(server.targets[:-1]) == {"/find"}
        assert server.targets[-1] == "/"
