"""Results and cancelled jobs in a ledger: nothing is lost. The API is another process."""

import os
import signal
import subprocess
import sys
import time

import pytest

from ledger_host import expire_leases
from paths import ROOT
from pollkit import Job, Ledger, LedgerRunner, Poller, Profile
from pollkit.core.waiting.ends.endings import RESULT_ERROR
from pollkit.drivers.ledger import run as run_module
from pollkit.drivers.ledger.polling import leased_jobs
from result_server import SMALL, ResultServer


@pytest.fixture(scope="module")
def server():
    with ResultServer() as server:
        yield server


def profile(server, **fields):
    return Profile(
        name="api",
        url=server.url("/jobs/{id}"),
        proxy="none",
        pace="fixed 50ms",
        retry="fixed 10ms",
        not_found_grace="50ms",
        **fields,
    )


def run(path, api, for_s=20, **options):
    """Run the ledger; the states of the finished jobs, and the reported problems."""
    reports = []
    runner = LedgerRunner(path, api, on_unpollable=reports.append, **options)
    return runner.run(for_s=for_s), reports


def outcome(path, job_id):
    with Ledger(path) as ledger:
        return next(ledger.jobs(ids=[job_id]))


def content(path):
    with open(path, "rb") as file:
        return file.read()


def test_a_run_saves_results_and_the_outcome_says_where(path, server, tmp_path):
    with Ledger(path) as ledger:
        ledger.add(["a", "b"])
    save = str(tmp_path / "{id}")
    states, reports = run(path, profile(server, result_url="small"), save=save)
    assert [state.value for state in states] == ["done", "done"] and reports == []
    assert outcome(path, "a").outcome["saved_to"] == str(tmp_path / "a")
    assert content(str(tmp_path / "a")) == content(str(tmp_path / "b")) == SMALL


@pytest.mark.parametrize("fields", [{}, {"result_url": "/small/{id}"}])
def test_a_result_that_cannot_be_saved_is_saved_by_a_later_run(
    path, server, tmp_path, monkeypatch, fields
):
    monkeypatch.setattr(leased_jobs, "RETRY_S", 0.1)
    obstacle = tmp_path / "a.part"
    obstacle.mkdir()
    with Ledger(path) as ledger:
        ledger.add(["a"])
    reports = []
    runner = LedgerRunner(
        path, profile(server, **fields), save=str(tmp_path / "{id}"), on_unpollable=reports.append
    )
    assert runner.run(for_s=0.6) == []
    assert runner.unpollable == ["a"]
    assert reports == [
        "a: can't save the result to %s: Is a directory; it is tried again" % (tmp_path / "a")
    ]
    assert outcome(path, "a").state == "waiting"
    obstacle.rmdir()
    assert [state.value for state in runner.run(for_s=10)] == ["done"]
    assert runner.unpollable == [] and (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"result_url": "/small/{id}"},
        {"cancel_url": "/jobs/{id}/cancel", "on_timeout": "cancel", "timeout": "100ms"},
    ],
)
def test_a_job_whose_later_requests_cannot_be_sent_does_not_stop_a_run(path, server, fields):
    """A server that a job was submitted to may have given it the id '..', and a URL."""
    with Ledger(path) as ledger:
        ledger.add([Job("..", url=server.url("/jobs/r9")), "a"])
    states, reports = run(path, profile(server, **fields), for_s=2)
    assert [state.value for state in states] == ["done"]
    assert reports == ["..: '..' can't be used as {id} in a URL"]


def test_a_result_that_the_server_refuses_leaves_the_job_done(path, server, tmp_path):
    with Ledger(path) as ledger:
        ledger.add(["a"])
    states, _ = run(path, profile(server, result_url="locked"), save=str(tmp_path / "{id}"))
    assert [state.value for state in states] == ["done"]
    row = outcome(path, "a")
    assert row.outcome["error"]["code"] == RESULT_ERROR and row.outcome["saved_to"] is None


def test_the_jobs_of_a_list_have_one_result_each(path, server, tmp_path):
    with Ledger(path) as ledger:
        ledger.add(["a", "b", "c"])
    listed = profile(server, result_url="small", batch_url=server.url("/list"))
    states, _ = run(path, listed, save=str(tmp_path / "{id}"))
    assert len(states) == 3
    assert all(content(str(tmp_path / name)) == SMALL for name in "abc")


RUN = """
import sys
from pollkit import LedgerRunner, Profile
url, path, save = sys.argv[1:]
api = Profile(name="api", url=url + "/jobs/{id}", proxy="none", result_url="/stall/{id}")
LedgerRunner(path, api, save=save).run()
"""


def test_a_run_that_is_killed_during_a_download_is_continued(path, server, storage, tmp_path):
    name = "killed_" + storage  # the server of all tests remembers the jobs
    with Ledger(path) as ledger:
        ledger.add([name])
    save = str(tmp_path / "{id}")
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, server.origin, path, save], cwd=ROOT, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 20
    while "/stall/" + name not in server.paths() and time.monotonic() < until:
        time.sleep(0.05)
    row = outcome(path, name)
    assert row.progress["done"] and row.ended_at is None  # it is done, but not finished
    process.send_signal(signal.SIGKILL)
    process.communicate()
    expire_leases(path)
    assert name not in os.listdir(str(tmp_path))
    states, _ = run(path, profile(server, result_url="/stall/{id}"), save=save)
    assert [state.value for state in states] == ["done"]
    assert content(str(tmp_path / name)) == SMALL
    assert sorted(os.listdir(str(tmp_path))) == [name]


def test_time_that_is_up_does_not_cut_a_download(path, server, tmp_path, monkeypatch):
    """A server without ranges would have to send all of it again to each run."""
    monkeypatch.setattr(run_module, "LEAVE_S", 0.1)
    with Ledger(path) as ledger:
        ledger.add(["a"])
    slow = profile(server, result_url="/steady/{id}")  # takes a second
    states, _ = run(path, slow, save=str(tmp_path / "{id}"), for_s=0.5)
    assert [state.value for state in states] == ["done"]
    assert content(str(tmp_path / "a")) == SMALL


# Cancelling


def test_a_job_that_was_asked_to_cancel_finishes_as_cancelled(path, server):
    with Ledger(path) as ledger:
        ledger.add(["r1", "r2"])
        with Poller(profile(server, cancel_url="/jobs/{id}/cancel")) as poller:
            poller.cancel("r1")
        assert ledger.mark_cancel_requested(["r1", "nobody"]) == ["r1"]
    run(path, profile(server), for_s=1)
    assert outcome(path, "r1").state == "cancelled"
    assert outcome(path, "r2").state == "waiting"


def test_a_retried_job_forgets_the_request(path, server):
    with Ledger(path) as ledger:
        ledger.add(["r1"])
        with Poller(profile(server, cancel_url="/jobs/{id}/cancel")) as poller:
            poller.cancel("r1")
        ledger.mark_cancel_requested(["r1"])
        run(path, profile(server), for_s=1)
        assert outcome(path, "r1").state == "cancelled"
        assert ledger.retry(["r1"]) == ["r1"]
    run(path, profile(server), for_s=1)
    assert outcome(path, "r1").state == "failed"


def test_a_run_that_stops_while_it_cancels_leaves_the_job_waiting(path, server):
    with Ledger(path) as ledger:
        ledger.add(["r9"])
    stubborn = profile(
        server, cancel_url="/jobs/{id}/stubborn", on_timeout="cancel", timeout="300ms"
    )
    run(path, stubborn, for_s=0.6)
    assert outcome(path, "r9").state == "waiting"
