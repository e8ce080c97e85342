"""Held polls against a real server in another process, in real time."""

import os
import signal
import threading
import time

import pytest

from commands import start_pollkit
from holding_server import CUT_S, HoldingServer
from pollkit import BatchPoller, ConfigError, Ledger, LedgerRunner, Poller, Profile
from pollkit.drivers.endpoints.endpoint import NOT_HELD
from pollkit.drivers.ledger.polling import leased_jobs
from raw_server import RawServer, redirect, reply, wait_for
from transports import NAMES, adapter_for

PREFER = {"Prefer": "wait={hold}"}
SLOW_MACHINE_S = 1.5  # more than this is no delay of a busy machine


@pytest.fixture(scope="module")
def shared_server():
    with HoldingServer() as server:
        yield server


@pytest.fixture
def server(shared_server):
    """A server that knows no job and has an empty log."""
    shared_server.reset()
    return shared_server


def profile_for(server, api, **fields):
    """A profile with a hold of 20 s, by Prefer unless the fields say otherwise."""
    values = {
        "hold": "20s",
        "headers": PREFER,
        "proxy": "none",
        "pace": "adaptive max=100ms min=1ms",
    }
    values.update(fields, url=server.url("/%s/{id}" % api) + fields.pop("query", ""))
    values.pop("query", None)
    return Profile(**values)


DIALECTS = {
    "prefer": {},
    "consul": {"headers": {}, "query": "?index={index}&wait={hold}s"},
    "google": {"headers": {}, "hold_url": ":wait?timeout={hold}s", "hold_method": "POST"},
    "body": {"headers": {}, "method": "POST", "body": '{"id": "{id}", "wait_ms": {hold_ms}}'},
}
# The requests that each API gets: method, path, Prefer and body of the ordinary and the held poll.
REQUESTS = {
    "prefer": [("GET", "/prefer/ID", None, ""), ("GET", "/prefer/ID", "wait=20", "")],
    "consul": [("GET", "/consul/ID", None, ""), ("GET", "/consul/ID?index=7&wait=20s", None, "")],
    "google": [("GET", "/google/ID", None, ""), ("POST", "/google/ID:wait?timeout=20s", None, "")],
    "body": [
        ("POST", "/body/ID", None, '{"id": "ID", "wait_ms": 0}'),
        ("POST", "/body/ID", None, '{"id": "ID", "wait_ms": 20000}'),
    ],
}


@pytest.mark.parametrize("api", sorted(DIALECTS))
def test_one_held_poll_sees_the_end_at_once(server, api):
    fields = dict(DIALECTS[api])
    if "hold_url" in fields:
        fields["hold_url"] = server.url("/google/{id}") + fields["hold_url"]
    with Poller(profile_for(server, api, **fields)) as poller:
        outcome = poller.poll("done_0.6_1")
    log = server.finished_log()
    requests = [(one["method"], one["path"], one["prefer"], one["body"]) for one in log]
    assert requests == [
        tuple(part and part.replace("ID", "done_0.6_1") for part in one) for one in REQUESTS[api]
    ]
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 2, 0)
    assert log[1]["held_s"] > 0.1
    assert outcome.waited_s < 0.6 + SLOW_MACHINE_S


@pytest.mark.parametrize("name", NAMES)
def test_the_request_timeout_counts_in_addition_to_the_hold_with_every_transport(server, name):
    profile = profile_for(server, "prefer", request_timeout="0.6s")
    with Poller(profile, transport=adapter_for(name)) as poller:
        outcome = poller.poll("done_1.5_1")
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 2, 0)
    assert server.finished_log()[1]["held_s"] > 0.65


def test_a_job_without_the_label_that_held_polls_need_is_refused_at_once(server):
    held = server.url("/google/{label}/{id}?wait={hold}")
    profile = profile_for(server, "google", headers={}, hold_url=held)
    with BatchPoller(profile) as batch, pytest.raises(ConfigError, match="needs a label"):
        batch.submit("done_0.1_9")


def test_a_server_that_ignores_the_hold_is_polled_as_usual_with_one_warning(server):
    events = []
    with Poller(profile_for(server, "ignoring"), on_event=events.append) as poller:
        poller.poll("done_0.6_1")
    held = [one["prefer"] for one in server.log()]
    assert held[:3] == [None, "wait=20", "wait=20"] and set(held[3:]) == {None}
    assert [event.text for event in events if event.kind == "warning"] == [NOT_HELD]


def test_a_server_without_held_polls_is_polled_as_usual(server):
    hold_url = server.url("/unsupported/{id}:wait")
    with Poller(profile_for(server, "unsupported", headers={}, hold_url=hold_url)) as poller:
        outcome = poller.poll("done_0.6_1")
    assert (outcome.state, outcome.faults) == ("done", 0)
    assert sum(one["path"].endswith(":wait") for one in server.log()) == 2


@pytest.mark.parametrize("api", ["gateway", "cutting"])
def test_a_gateway_that_cuts_held_polls_is_neither_fault_nor_outage(server, api):
    with BatchPoller(profile_for(server, api), workers=8) as batch:
        outcomes = batch.run(["done_%s_%d" % (CUT_S + 0.6, i) for i in range(6)])
        assert batch.stats.faults == 0 and batch.stats.rate_limited == 0 and not batch.outages
    assert {outcome.state for outcome in outcomes} == {"done"}
    assert sum(outcome.faults for outcome in outcomes) == 0
    held_at = [one["at"] for one in server.log() if one["prefer"]]
    assert 1 <= len(held_at) <= 4 and max(held_at) < min(held_at) + CUT_S + SLOW_MACHINE_S


def test_the_headers_of_a_held_poll_go_to_the_origin_of_the_job_only():
    with RawServer(reply('{"status": "done"}')) as other:
        moved = redirect(other.url("/elsewhere"), "307 Temporary Redirect")
        with RawServer(reply('{"status": "running"}'), moved) as first:
            profile = profile_for(first, "prefer")
            with Poller(profile) as poller:
                assert poller.poll("1").state == "done"
    assert first.requests[1].headers["prefer"] == "wait=20"
    assert "prefer" not in other.requests[0].headers


def test_a_hold_past_the_deadline_ends_with_a_final_poll_at_the_deadline(server):
    with Poller(profile_for(server, "endless", timeout="2.5s")) as poller:
        outcome = poller.poll("done_99_1")
    assert outcome.state == "timed_out" and 2.5 <= outcome.waited_s < 2.5 + SLOW_MACHINE_S
    assert [one["prefer"] for one in server.log()] == [None, "wait=1", None]


@pytest.mark.skipif(os.name != "posix", reason="signals are for POSIX")
@pytest.mark.parametrize("command", ["wait", "batch"])
def test_ctrl_c_ends_a_held_poll_within_a_second(server, tmp_path, command):
    (tmp_path / "mine.ini").write_text(
        "[mine]\nurl = %s\nhold = 1m\nheader.Prefer = wait={hold}\n" % server.url("/prefer/{id}")
    )
    process = start_pollkit(
        tmp_path, command, "done_99_1", "--profile", "mine", "--profiles", "mine.ini"
    )
    wait_for(lambda: any(one["prefer"] for one in server.log()))
    process.send_signal(signal.SIGINT)
    began_at = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - began_at < 1.5
    assert "Traceback" not in err


def most_at_once(log):
    """The largest number of requests that were held at the same time."""
    spans = [(one["at"], one["at"] + one["held_s"]) for one in log if one["held_s"] > 0.3]
    return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)


def test_in_a_batch_half_of_the_workers_hold(server):
    with BatchPoller(profile_for(server, "prefer"), workers=4) as batch:
        outcomes = batch.run(["done_%.2f_%d" % (1 + i / 20, i) for i in range(10)])
    assert {outcome.state for outcome in outcomes} == {"done"}
    assert most_at_once(server.finished_log()) == 2


def test_a_lease_outlives_a_hold(server, tmp_path, monkeypatch):
    monkeypatch.setattr(leased_jobs, "LEASE_S", 1.2)
    monkeypatch.setattr(leased_jobs, "RENEW_S", 0.3)
    path = str(tmp_path / "jobs.db")
    profile = profile_for(server, "prefer")
    with Ledger(path) as ledger:
        ledger.add(["done_2_1"])
    threads = [threading.Thread(target=LedgerRunner(path, profile).run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    held = [one for one in server.finished_log() if one["prefer"]]
    assert len(held) == 1 and held[0]["held_s"] > 1.4
    with Ledger(path) as ledger:
        (job,) = ledger.jobs()
    assert job.state == "done" and len(server.log()) == 2


def test_a_run_that_ends_soon_asks_for_shorter_holds_and_once_for_none(server, tmp_path):
    profile = profile_for(server, "prefer")
    with Ledger(str(tmp_path / "jobs.db")) as ledger:
        ledger.add(["done_99_1"])
        runner = LedgerRunner(ledger, profile)
        began_at = time.monotonic()
        runner.run(for_s=1.8)
        assert time.monotonic() - began_at < 1.8 + SLOW_MACHINE_S
        assert [one["prefer"] for one in server.log()][:2] == [None, "wait=1"]
        count = len(server.log())
        runner.nudge("done_99_1")
        time.sleep(0.2)
        runner.run(once=True)
        assert all(one["prefer"] is None for one in server.log()[count:])
