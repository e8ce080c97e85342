"""Jobs that are forgotten or retried while another process writes them: no row is left over."""

import threading

import pytest

from ledger_host import poll_job
from pollkit import Ledger, LedgerError
from pollkit.core.reading.verdict import Verdict
from pollkit.edges.ledger.postgres.connection.session import Session
from pollkit.edges.ledger.postgres.tables.outages import HOLD

TABLES = ("job", "due", "progress", "outcome", "notification", "intent")
WAITS_FOR_LOCK = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def other(path, ledger, clock):
    """The ledger, as another process uses it."""
    with Ledger(path, clock) as opened:
        yield opened


def database_of(ledger):
    return ledger._storage.database


def rows(ledger):
    """The number of rows in each table that has some."""
    counts = {}
    for table in TABLES:
        ((counts[table],),) = database_of(ledger).query("SELECT count(*) FROM pollkit." + table)
    return {table: count for table, count in counts.items() if count}


def call_during(other, write, call):
    """Call while the transaction of `write` is open: the result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))

    def work(db):
        write()
        thread.start()
        while not database_of(other).query(WAITS_FOR_LOCK) and thread.is_alive():
            pass

    database_of(other).run(work)
    thread.join(10)
    return results[0]


@pytest.mark.parametrize("verdict", [Verdict.PENDING, Verdict.DONE])
def test_a_job_is_forgotten_while_the_result_of_its_poll_is_written(ledger, other, verdict):
    ledger.add(["a"])
    (claim,) = other._leases.claim(1)
    forgotten = call_during(
        other, lambda: poll_job(other, claim, verdict), lambda: ledger.forget(["a"])
    )
    assert (forgotten, rows(ledger)) == (["a"], {})
    assert other._notifications.next_at() is None and other._leases.next_due() is None


def test_a_job_is_forgotten_while_it_is_retried(ledger, other, leases):
    ledger.add(["a"])
    poll_job(ledger, leases.claim(1)[0], Verdict.FAILED)
    forgotten = call_during(other, lambda: other.retry(["a"]), lambda: ledger.forget(["a"]))
    assert (forgotten, rows(ledger)) == (["a"], {})


def test_a_job_that_is_retried_is_no_longer_an_old_one(ledger, other, leases, clock):
    ledger.add(["a"])
    poll_job(ledger, leases.claim(1)[0], Verdict.FAILED)
    clock.pass_s(100)
    forgotten = call_during(other, lambda: other.retry(["a"]), lambda: ledger.forget_finished(50))
    assert (forgotten, rows(ledger)) == (0, {"job": 1, "due": 1})


def test_a_job_that_is_retried_twice_and_finishes_in_between_waits(ledger, other, leases):
    def retry_and_finish():
        other.retry(["a"])
        poll_job(other, other._leases.claim(1)[0], Verdict.DONE)

    ledger.add(["a"])
    poll_job(ledger, leases.claim(1)[0], Verdict.FAILED)
    retried = call_during(other, retry_and_finish, lambda: ledger.retry(["a"]))
    assert (retried, rows(ledger)) == (["a"], {"job": 1, "due": 1})


def test_a_job_that_is_forgotten_while_it_is_added_again_is_added(ledger, other, monkeypatch):
    ledger.add(["a", "b"])
    query = Session.query

    def forget_before_the_check(session, statement, *values):
        if statement.startswith("SELECT id, url, profile"):
            other.forget(["a"])
        return query(session, statement, *values)

    monkeypatch.setattr(Session, "query", forget_before_the_check)
    assert ledger.add(["a", "b", "c"]) == (2, ["b"])
    assert rows(ledger) == {"job": 3, "due": 3}


def test_a_job_is_forgotten_while_it_is_returned_to_an_outage(ledger, other, monkeypatch):
    ledger.add(["a"])
    claims = other._leases.claim(1)
    query = Session.query
    forgetting = threading.Thread(target=ledger.forget, args=(["a"],))

    def forget_in_the_middle(session, statement, *values):
        if statement == HOLD:
            forgetting.start()
            while not query(session, WAITS_FOR_LOCK) and forgetting.is_alive():
                pass
        return query(session, statement, *values)

    monkeypatch.setattr(Session, "query", forget_in_the_middle)
    other._outages.hold(claims, "https://api.internal")
    forgetting.join(10)
    assert rows(ledger) == {}


def test_an_error_in_the_middle_removes_nothing(ledger, leases, monkeypatch):
    ledger.add(["a", "b"])
    poll_job(ledger, leases.claim(1)[0], Verdict.DONE)
    before = rows(ledger)
    query = Session.query

    def fail_at_the_end(session, statement, *values):
        if statement.startswith("DELETE FROM pollkit.job "):
            raise LedgerError("out of order")
        return query(session, statement, *values)

    monkeypatch.setattr(Session, "query", fail_at_the_end)
    for forget in (lambda: ledger.forget(["a", "b"]), lambda: ledger.forget_finished()):
        with pytest.raises(LedgerError, match="out of order"):
            forget()
    assert rows(ledger) == before
