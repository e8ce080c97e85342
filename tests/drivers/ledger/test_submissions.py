"""Jobs of a ledger that are still to be submitted: a run submits them, then waits for them."""

import os
import threading

import pytest

from ledger_host import home
from pollkit import Job, Ledger, LedgerError, LedgerRunner, Outcome, Profile, State
from pollkit.core.submitting.intent import Intent, Stage, begin_request
from pollkit.drivers.ledger import run as run_module
from pollkit.drivers.ledger import submissions as submissions_module
from pollkit.drivers.ledger.polling import leased_jobs as leased_jobs_module
from pollkit.edges.ledger.rows import job_to_row
from pollkit.testing import FakeJobApi
from raw_server import CLOSE, RawServer, reply, wait_for
from submit_server import SubmitServer


@pytest.fixture
def ledger(monkeypatch):
    monkeypatch.setattr(run_module, "TURN_S", 0.02)
    with home(monkeypatch) as place, Ledger(os.path.join(place, "jobs.db")) as opened:
        yield opened


@pytest.fixture(scope="module")
def server():
    with SubmitServer() as served:
        yield served


def profile_of(server, how="ok", **fields):
    return Profile(
        name="counted",
        url=server.origin + "/jobs/{id}",
        submit_url=server.url("/submit?how=%s" % how),
        status="status",
        result="result",
        pace="fixed 20ms",
        retry="fixed 20ms",
        proxy="none",
    )._replace(**fields)


_numbers = iter(range(1000))


def add(ledger, api, body="{}", stage=Stage.WRITTEN, **job):
    """Add an intent that no process has leased; its claim."""
    number = next(_numbers)
    intent = Intent("key-%d" % number, api.submit_url, body)
    claim = ledger._intents.add(job_to_row(Job("submit-%d" % number, **job)), intent)
    if stage is Stage.SENT:
        ledger._intents.save(claim, begin_request(intent, ledger.clock.now()))
    ledger._leases.release([claim])
    return claim


def run(ledger, profile, for_s=20, **options):
    """The outcomes of a run, by id."""
    finished = []
    LedgerRunner(ledger, profile, on_finished=finished.append, **options).run(for_s=for_s)
    return {outcome.id: outcome for outcome in finished}


def created(server, body):
    return [job for job in server.jobs() if job[2] == body]


def test_a_run_submits_a_job_and_waits_for_it(ledger, server):
    profile = profile_of(server)
    add(ledger, profile, '"whole"', metadata={"customer": 7})
    ((name, outcome),) = run(ledger, profile).items()
    assert (outcome.state, outcome.result, outcome.polls) == (State.DONE, "whole", 1)
    assert outcome.metadata == {"customer": 7}
    assert [job[0] for job in created(server, "whole")] == [name]
    (row,) = ledger.jobs()
    assert (row.job.id, row.submission) == (name, None)


def test_many_jobs_are_submitted_once_each(ledger, server):
    profile = profile_of(server, limit="1000/s")
    for i in range(30):
        add(ledger, profile, '"many %d"' % i)
    outcomes = run(ledger, profile)
    assert len(outcomes) == 30
    assert all(len(created(server, "many %d" % i)) == 1 for i in range(30))


def test_once_submits_and_leaves_the_wait_to_the_next_run(ledger, server):
    profile = profile_of(server)
    add(ledger, profile, '"once"')
    assert LedgerRunner(ledger, profile).run(once=True) == []
    (row,) = ledger.jobs()
    assert (row.state, row.submission, row.progress["status"]) == ("waiting", None, "queued")
    assert LedgerRunner(ledger, profile).run(once=True) == ["done"]


def test_an_immediate_result_is_stored_without_a_poll(ledger, server):
    profile = profile_of(server, "done")
    add(ledger, profile)
    ((name, outcome),) = run(ledger, profile).items()
    assert (outcome.result, outcome.polls) == ("at once", 0)
    (row,) = ledger.jobs()
    assert (row.job.id, row.state, row.submission) == (name, "done", None)


def test_a_result_without_an_id_is_stored_under_the_own_name(ledger, server):
    profile = profile_of(server, "result", prefer="respond-async")
    name = add(ledger, profile).job.id
    assert run(ledger, profile)[name].result == {"area": 12}
    (row,) = ledger.jobs()
    assert row.submission.stage is Stage.KNOWN  # so a retry does not submit it again
    ledger.retry([name])
    assert run(ledger, profile)[name].error.code == "submit-ambiguous"


def test_a_refused_job_fails_and_a_retry_submits_it_again(ledger, server):
    profile = profile_of(server, "refuse")
    name = add(ledger, profile).job.id
    outcome = run(ledger, profile)[name]
    assert (outcome.state, outcome.error) == (State.FAILED, ("bad-pages", "pages must be a number"))
    ledger.retry([name])
    before = len(server.requests("POST"))
    assert run(ledger, profile)[name].state is State.FAILED
    assert len(server.requests("POST")) == before + 1


# A process has died during the request


def test_after_a_crash_a_job_is_not_submitted_again_without_a_key(ledger, server):
    profile = profile_of(server)
    claim = add(ledger, profile, '"crashed"', Stage.SENT)
    outcome = run(ledger, profile)[claim.job.id]
    assert (outcome.state, outcome.error.code) == (State.UNREACHABLE, "submit-ambiguous")
    assert "pollkit retry LEDGER %s --resubmit" % claim.job.id in outcome.error.message
    assert created(server, "crashed") == []
    # A retry alone changes nothing; with `resubmit`, the user has decided.
    ledger.retry([claim.job.id])
    assert run(ledger, profile)[claim.job.id].error.code == "submit-ambiguous"
    ledger.retry([claim.job.id], resubmit=True)
    ((_, outcome),) = run(ledger, profile).items()
    assert (outcome.state, len(created(server, "crashed"))) == (State.DONE, 1)


def test_after_a_crash_a_key_finds_the_job_that_was_created(ledger, server):
    profile = profile_of(server, idempotency_header="Idempotency-Key")
    claim = add(ledger, profile, '"keyed"', Stage.SENT)
    # The request of the process that died had arrived.
    with Ledger(ledger._storage.name + "-other") as other:
        intent = Intent(claim.intent.key, profile.submit_url, '"keyed"')
        other._intents.add(job_to_row(Job("submit-other")), intent)
        other._storage.file.write(lambda db: db.execute("UPDATE jobs SET free_at = 0"))
        ((first, _),) = run(other, profile).items()
    ((second, outcome),) = run(ledger, profile).items()
    assert (first, outcome.state) == (second, State.DONE)
    assert len(created(server, "keyed")) == 1


def test_after_a_crash_a_lookup_decides(ledger, server):
    profile = profile_of(
        server,
        submit_lookup=server.url("/find?key={key}"),
        submit_settle=0.3,
        submit_body='{"k": "{key}"}',
    )
    claim = add(ledger, profile, '"looked up"', Stage.SENT)
    ((_, outcome),) = run(ledger, profile).items()
    assert outcome.state is State.DONE
    lookups = [each for each in server.requests("GET") if claim.intent.key in each["path"]]
    assert len(lookups) >= 2
    assert len(created(server, "looked up")) == 1


def test_a_lookup_that_fails_is_repeated(ledger):
    with RawServer(CLOSE, reply("{}", "500 No"), reply('{"id": "j"}'), reply('"done"')) as api:
        profile = Profile(
            url=api.url("/jobs/{id}"),
            submit_url=api.url("/jobs"),
            submit_lookup=api.url("/find/{key}"),
            retry="fixed 10ms",
            proxy="none",
        )
        add(ledger, profile, stage=Stage.SENT)
        assert list(run(ledger, profile)) == ["j"]
    assert [each.method for each in api.requests] == ["GET"] * 4


# Servers that are down, limits, deadlines, other processes


def test_while_the_server_is_down_the_job_waits(ledger, server):
    down = profile_of(server)._replace(submit_url="http://127.0.0.1:9/jobs", retry="fixed 1h")
    names = [add(ledger, down).job.id for _ in range(20)]
    assert LedgerRunner(ledger, down).run(for_s=0.3) == []
    rows = {row.job.id: row for row in ledger.jobs()}
    assert {rows[name].submission.stage for name in names} == {Stage.WRITTEN}
    assert {rows[name].state for name in names} == {"waiting"}
    assert 1 <= sum(rows[name].faults for name in names) <= 4  # the others did not try
    assert "refused" in [rows[name].last_fault for name in names if rows[name].faults][0]


def test_during_an_outage_nothing_is_submitted(ledger, server):
    from pollkit.core.scheduling.outages import Outage

    profile = profile_of(server)
    now = ledger.clock.now()
    ledger._outages.begin(Outage(server.origin, now, "down", now + 3600))
    add(ledger, profile, '"outage"')
    assert LedgerRunner(ledger, profile).run(for_s=0.3) == []
    assert created(server, "outage") == []


def test_a_job_that_was_not_submitted_in_time_times_out(ledger, server):
    down = profile_of(server)._replace(submit_url="http://127.0.0.1:9/jobs")
    name = add(ledger, down, timeout=0.3).job.id
    outcome = run(ledger, down)[name]
    assert outcome.state is State.TIMED_OUT
    assert "not submitted in time: 127.0.0.1:9 refused" in outcome.error.message


def test_a_job_that_can_not_be_submitted_is_reported_and_waits(ledger, server):
    profile = profile_of(server)
    add(ledger, profile, profile="missing")
    texts = []
    run(ledger, profile, on_unpollable=texts.append)
    assert len(texts) == 1 and "there is no profile 'missing'" in texts[0]
    assert [row.state for row in ledger.jobs()] == ["waiting"]


def test_a_run_never_races_a_live_submission(ledger, server):
    profile = profile_of(server)
    claim = add(ledger, profile, '"live"')
    (claim,) = ledger._leases.claim(9)
    assert LedgerRunner(ledger, profile).run(for_s=0.2) == []
    assert created(server, "live") == []
    ledger._leases.release([claim])


def test_the_end_of_a_run_waits_for_the_reply(ledger, server):
    """To abandon the request would make the job ambiguous."""
    profile = profile_of(server, "ok&delay=0.5")
    add(ledger, profile, '"slow"')
    assert LedgerRunner(ledger, profile).run(for_s=0.2) == []
    (row,) = ledger.jobs()
    assert row.submission is None and row.job.id.startswith("job_")


def test_an_interrupted_run_keeps_the_lease_of_the_request_in_flight(ledger, server):
    profile = profile_of(server, "ok&delay=0.4")
    add(ledger, profile, '"interrupted"')
    run = LedgerRunner(ledger, profile)._new_run(ledger)

    class Interrupted(Exception):
        pass

    with pytest.raises(Interrupted):
        with run:
            run._put_on_agenda(run._claim(0.0))
            wait_for(lambda: created(server, "interrupted"))
            raise Interrupted
    assert [row.state for row in ledger.jobs()] == ["leased"]
    run.jobs.submissions.join()
    assert [row.submission for row in ledger.jobs()] == [None]


def test_the_id_of_another_job_does_not_hide_it(ledger):
    """An API may answer the second submission of the same data with the first job."""

    def answer(connection, request):
        data = reply('{"status": "done"}')
        if request.method == "POST":
            data = reply('{"id": "job_1"}', "202 Accepted")
        connection.send(data)

    with RawServer(answer) as api:
        profile = Profile(
            url=api.url("/jobs/{id}"), submit_url=api.url("/jobs"), pace=0.01, proxy="none"
        )
        first = add(ledger, profile)
        LedgerRunner(ledger, profile).run(once=True)
        second = add(ledger, profile)
        outcomes = run(ledger, profile)
    assert sorted(outcomes) == ["job_1", second.job.id]
    assert outcomes[second.job.id].url == api.url("/jobs/job_1")
    assert {outcome.state for outcome in outcomes.values()} == {State.DONE}
    assert first.job.id not in outcomes


def test_if_the_id_is_in_the_body_of_polls_it_must_be_unique(ledger):
    with RawServer(reply('{"id": "job_1"}', "202 Accepted")) as api:
        profile = Profile(
            url=api.url("/poll"),
            method="POST",
            body='{"id": "{id}"}',
            submit_url=api.url("/jobs"),
            proxy="none",
        )
        ledger.add(["job_1"])
        ledger._leases.claim(9)  # by another process
        name = add(ledger, profile).job.id
        outcome = run(ledger, profile, for_s=1)[name]
    assert outcome.error.code == "submit-untracked"
    assert "another job 'job_1' already" in outcome.error.message


def test_a_failed_write_ends_the_run(ledger, server, monkeypatch):
    profile = profile_of(server)
    add(ledger, profile)

    def fail(*args):
        raise LedgerError("the disk is full")

    monkeypatch.setattr(ledger._intents, "save", fail)
    with pytest.raises(LedgerError, match="disk is full"):
        run(ledger, profile)


def test_if_the_id_of_a_job_can_not_be_written_the_error_names_it(ledger, server, monkeypatch):
    profile = profile_of(server)
    name = add(ledger, profile, '"unwritten"').job.id

    def fail(*args):
        raise LedgerError("the disk is full")

    monkeypatch.setattr(ledger._intents, "save_submitted", fail)
    with pytest.raises(LedgerError) as caught:
        run(ledger, profile)
    ((job_id, *_),) = created(server, "unwritten")
    assert str(caught.value) == "the disk is full; the API has accepted %s as %s" % (name, job_id)


def test_a_run_that_has_failed_submits_no_more_jobs(ledger, server, monkeypatch):
    profile = profile_of(server, "ok&delay=0.3", limit="1000/s")
    for _ in range(4 * submissions_module.MOST_THREADS):
        add(ledger, profile, '"after a failure"')

    def fail(*args):
        raise LedgerError("the disk is full")

    monkeypatch.setattr(ledger._intents, "save_submitted", fail)
    with pytest.raises(LedgerError, match="disk is full"):
        run(ledger, profile)
    for thread in threading.enumerate():
        if thread.name == "pollkit-submit":
            thread.join(10)
    # Each thread may have begun another request before the run noticed the failure.
    assert len(created(server, "after a failure")) <= 2 * submissions_module.MOST_THREADS


def test_a_bug_is_logged_and_other_jobs_go_on(ledger, server, monkeypatch, caplog):
    profile = profile_of(server)
    add(ledger, profile, '"bug"')
    real = submissions_module.LedgerSubmitter.submit
    calls = []

    def fail_once(self, claim, *args):
        calls.append(claim)
        if len(calls) == 1:
            ledger._leases.release([claim])
            raise RuntimeError("a bug")
        return real(self, claim, *args)

    monkeypatch.setattr(submissions_module.LedgerSubmitter, "submit", fail_once)
    assert [outcome.state for outcome in run(ledger, profile).values()] == ["done"]
    assert "pollkit failed to submit submit-" in caplog.text


def test_a_job_may_be_claimed_again_before_its_thread_is_done(ledger, server, monkeypatch):
    profile = profile_of(server)
    add(ledger, profile)
    real = submissions_module.LedgerSubmitter.submit
    threads = []

    def fail_once(self, claim, *args):
        threads.append(threading.current_thread())
        if len(threads) == 1:
            ledger._leases.release([claim])
            wait_for(lambda: len(threads) == 2)
            raise RuntimeError("a bug")
        threads[0].join(10)
        return real(self, claim, *args)

    monkeypatch.setattr(submissions_module.LedgerSubmitter, "submit", fail_once)
    assert [outcome.state for outcome in run(ledger, profile).values()] == ["done"]
    threads[1].join(10)


def test_events_tell_of_the_submission(ledger, server):
    profile = profile_of(server)
    add(ledger, profile)
    events = []
    run(ledger, profile, on_event=events.append)
    assert [event.text for event in events if event.kind == "status"][0] == "submitted"


def test_the_fake_api_can_be_submitted_to(ledger):
    with FakeJobApi() as api:
        claim = add(ledger, api.profile, '{"lasts": 0.05, "result": 1}')
        outcomes = run(ledger, api.profile, pace="fixed 20ms")
        assert [outcome.result for outcome in outcomes.values()] == [1]
        assert isinstance(next(iter(outcomes.values())), Outcome) and claim.intent
        assert threading.active_count() < 10


def test_a_request_in_flight_keeps_its_lease_after_the_time_of_the_run_is_up(
    ledger, server, monkeypatch
):
    """Otherwise another process would take over: it would submit the job again, or give it up."""
    monkeypatch.setattr(run_module, "LEAVE_S", 0.1)
    monkeypatch.setattr(leased_jobs_module, "LEASE_S", 1.0)
    monkeypatch.setattr(leased_jobs_module, "RENEW_S", 0.1)
    monkeypatch.setattr(submissions_module, "JOIN_TURN_S", 0.1)
    profile = profile_of(server, "ok&delay=3", idempotency_header="Idempotency-Key")
    add(ledger, profile, '"long"')
    runner = LedgerRunner(ledger, profile)
    thread = threading.Thread(target=runner.run, kwargs={"for_s": 0.3})
    thread.start()
    wait_for(lambda: any(row.state == "leased" for row in ledger.jobs()))
    taken_over = []
    with Ledger(ledger.name) as other:
        while thread.is_alive() and not taken_over:
            taken_over += [claim.job.id for claim in other._leases.claim(9) if claim.intent]
            thread.join(0.05)
    thread.join()
    assert taken_over == []
    assert [row.submission for row in ledger.jobs()] == [None]


def test_a_request_in_flight_is_waited_for_even_if_its_lease_can_not_be_renewed(
    ledger, server, monkeypatch
):
    monkeypatch.setattr(run_module, "LEAVE_S", 0.0)
    profile = profile_of(server, "ok&delay=0.5")
    add(ledger, profile, '"no renewal"')
    runner = LedgerRunner(ledger, profile)

    def renew(jobs):
        if jobs.submissions._stop.is_set():
            raise LedgerError("out of order")

    monkeypatch.setattr(leased_jobs_module.LeasedJobs, "renew", renew)
    with pytest.raises(LedgerError, match="out of order"):
        runner.run(for_s=0.2)
    assert [row.submission for row in ledger.jobs()] == [None]
