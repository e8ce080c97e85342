"""Guarantee 5: faults are retried and are not failure; final errors end the wait at once."""

import pytest

from commands import read_json_lines, run_pollkit
from ledger_clock import LedgerClock
from outage_api import OutageApi
from pollkit import BatchPoller, Job, Ledger, LedgerRunner, Poller, Profile
from pollkit.drivers.ledger import run as run_module
from pollkit.testing import VirtualClock
from raw_server import CLOSE, RESET, RawServer, reply

DONE = reply('{"status": "done"}')
FAULTS = [
    RESET,
    CLOSE,
    reply(b"", "408 Timeout"),
    reply(b"", "425 Too Early"),
    reply(b"", "502 Bad Gateway"),
    reply("<html>", Content_Type="text/html"),
    reply("not JSON"),
]


def poll(*answers, **settings):
    with RawServer(*answers) as server:
        profile = Profile(pace="fixed 1s", proxy="none", **settings)
        with Poller(profile, clock=VirtualClock()) as poller:
            return poller.poll(server.url())


def test_all_kinds_of_faults_are_retried():
    outcome = poll(*(FAULTS + [DONE]))
    assert (outcome.state, outcome.faults) == ("done", len(FAULTS))


def test_ten_faults_in_a_row_make_a_wait_unreachable_but_not_a_ledger(tmp_path):
    outcome = poll(reply(b"", "500 Oops"))
    assert (outcome.state, outcome.faults) == ("unreachable", 10)
    broken = [reply(b"", "500 Oops")] * 12
    with RawServer(*(broken + [DONE])) as server:
        (tmp_path / "mine.ini").write_text(
            "[mine]\nurl = %s/{id}\nretry = fixed 10ms\nproxy = none\n" % server.url("")
        )
        env = {"POLLKIT_PROFILES": str(tmp_path / "mine.ini")}
        words = ["--profile", "mine", "--quiet"]
        assert run_pollkit(tmp_path, "add", "jobs.db", "job_1", *words, env=env)[0] == 0
        words = ["--quiet", "--outbox", "out.jsonl"]
        assert run_pollkit(tmp_path, "run", "jobs.db", *words, env=env) == (0, "", "")
    (outcome,) = read_json_lines(tmp_path / "out.jsonl")
    assert (outcome["state"], outcome["faults"]) == ("done", 12)


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_a_refused_credential_is_read_again_once(status, tmp_path):
    token = tmp_path / "token"
    token.write_text("old")

    def refuse(connection, request):
        token.write_text("new")
        connection.send(reply(b"", status))

    auth = "bearer file:%s" % token
    assert poll(refuse, DONE, auth=auth).state == "done"
    outcome = poll(refuse, refuse, DONE, auth=auth)
    assert (outcome.state, outcome.polls) == ("unreachable", 2)


def test_a_404_is_retried_for_a_while_and_a_410_is_not():
    missing = reply(b"", "404 Not Found")
    assert poll(missing, missing, DONE).state == "done"
    outcome = poll(missing)
    assert outcome.state == "unreachable" and 10 <= outcome.waited_s < 20
    late = [reply('{"status": "running"}')] * 20 + [missing] * 2
    assert poll(*(late + [DONE])).state == "done"  # it was seen before, and is still retried
    outcome = poll(reply(b"", "410 Gone"), DONE)
    assert (outcome.state, outcome.polls) == ("unreachable", 1)


# An outage belongs to the origin


def test_in_an_outage_one_job_at_a_time_is_polled_until_a_batch_gives_up():
    clock = VirtualClock()
    with OutageApi(clock, 0.0, 1e9) as api:
        with BatchPoller(api.profile, clock=clock, timeout="1h") as batch:
            outcomes = batch.run(api.add_jobs(100, lasts=60))
        assert {(each.state.value, each.faults >= 10) for each in outcomes} == {
            ("unreachable", True)
        }
        assert len(api.requests) < 25


def test_in_a_ledger_an_outage_extends_the_timeout_of_its_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "TURN_S", 600.0)  # fewer checks for other processes, for speed
    clock = LedgerClock()
    with OutageApi(clock, 60.0, 1800.0) as api:
        with Ledger(str(tmp_path / "jobs.db"), clock=clock) as ledger:
            names = api.add_jobs(10, lasts=2100)
            ledger.add([Job(name, timeout="10m") for name in names])
            states = LedgerRunner(ledger, api.profile, "fixed 30s").run()
        assert states == ["done"] * 10
        assert len(api.requests_when_down()) < 50
