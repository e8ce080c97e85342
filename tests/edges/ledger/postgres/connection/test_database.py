"""Trouble with the server: nothing is lost, and the message names the cause."""

import signal
import threading
import time

import pytest

from ledger_host import poll_job, states
from pollkit import ConfigError, Job, Ledger, LedgerError, LedgerRunner
from pollkit.core.reading.verdict import Verdict
from pollkit.edges.ledger.postgres import schema
from pollkit.edges.ledger.postgres.connection import database as database_module
from pollkit.testing import FakeJobApi


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(database_module, "PATIENCE_S", 0.3)


def test_a_ledger_survives_the_restart_of_its_server(server):
    with Ledger(server.new_database()) as ledger:
        ledger.add(["a", "b"])
        a, b = ledger._leases.claim(2)
        server.restart()
        assert poll_job(ledger, a, Verdict.DONE)
        server.restart()
        assert ledger._leases.renew([b], 60.0) == [b]
        assert states(ledger) == {"done": 1, "leased": 1}


def test_a_call_waits_for_a_server_that_is_down_for_a_moment(server):
    with Ledger(server.new_database()) as ledger:
        server.stop()
        restart = threading.Timer(0.5, server.start)
        restart.start()
        ledger.add(["a"])
        assert states(ledger) == {"waiting": 1}
        restart.join(30)  # it may still check whether the server is ready


def test_a_server_that_stays_down_is_an_error_that_names_it(server, impatient):
    with Ledger(server.new_database()) as ledger:
        server.stop()
        with pytest.raises(LedgerError, match="can't be reached: .*refused"):
            ledger.add(["a"])


def test_an_interrupted_run_does_not_wait_for_a_server_that_is_down(server):
    with FakeJobApi() as api, Ledger(server.new_database()) as ledger:
        api.add("a", lasts=60)
        ledger.add(["a"])

        def stop(event):
            if server.process.poll() is None:
                server.stop()
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        runner = LedgerRunner(ledger, api.profile, on_event=stop)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            runner.run()
        assert time.monotonic() - began < 10  # most of it to stop the server
        server.start()
        assert states(ledger) == {"leased": 1}


def test_a_killed_server_loses_no_outcome_that_was_reported_as_saved(server):
    with Ledger(server.new_database()) as ledger:
        ledger.add(["a"])
        (claim,) = ledger._leases.claim(1)
        assert poll_job(ledger, claim, Verdict.DONE)
        server.stop(signal.SIGQUIT)  # as a crash: it recovers from its log
        server.start()
        assert states(ledger) == {"done": 1}


def test_a_read_only_server_is_waited_for_and_then_named(server, impatient):
    url = server.new_database()
    name = url.rpartition("/")[2]
    with Ledger(url) as ledger:
        ledger.add(["a"])
        server.execute("ALTER DATABASE %s SET default_transaction_read_only = on" % name)
        ledger.close()
        assert states(ledger) == {"waiting": 1}  # status still works
        with pytest.raises(LedgerError, match="read-only"):
            ledger.add(["b"])
        server.execute("ALTER DATABASE %s SET default_transaction_read_only = off" % name)
        ledger.add(["b"])


class LosesTheAnswer:
    """A connection that is lost after the Nth statement was executed."""

    def __init__(self, connection, nth):
        self._connection = connection
        self._left = nth

    def cursor(self):
        cursor = self._connection.cursor()
        self._left -= 1
        if self._left == 0:
            return _LosesTheAnswer(cursor)
        return cursor

    def close(self):
        self._connection.close()


class _LosesTheAnswer:
    def __init__(self, cursor):
        self._cursor = cursor

    def execute(self, *values):
        self._cursor.execute(*values)
        raise OSError("the network is gone")

    def close(self):
        self._cursor.close()


def lose_the_answer(ledger, nth=1):
    database = ledger._storage.database
    database._connection = LosesTheAnswer(database._connection, nth)


def test_an_outcome_whose_confirmation_is_lost_counts_as_saved(ledger, leases):
    ledger.add(["a"])
    (claim,) = leases.claim(1)
    ledger._storage.database.time()
    lose_the_answer(ledger)
    assert poll_job(ledger, claim, Verdict.DONE)
    assert states(ledger) == {"done": 1}
    assert len(ledger._notifications.claim(9)) == 1


@pytest.mark.parametrize("nth", range(1, 7))
def test_whichever_answer_is_lost_no_job_is_lost_or_added_twice(ledger, leases, clock, nth):
    lose_the_answer(ledger, nth)
    ledger.add(["a", "b"])
    claims = leases.claim(2, lease_s=10.0)
    for claim in claims:
        assert poll_job(ledger, claim)
    leases.release(claims)
    clock.pass_s(20)
    again = leases.claim(2)
    assert sorted(claim.job.id for claim in again) == ["a", "b"]
    for claim in again:
        assert poll_job(ledger, claim, Verdict.DONE)
    assert states(ledger) == {"done": 2}


def test_a_session_that_an_administrator_ends_is_replaced(ledger, path):
    from postgres_server import shared_server

    ledger.add(["a"])
    shared_server().execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'"
        % path.rpartition("/")[2]
    )
    assert states(ledger) == {"waiting": 1}


# The schema


def test_a_ledger_that_does_not_exist_is_an_error_unless_it_is_created(path):
    with pytest.raises(LedgerError, match="'pollkit add' makes one"):
        Ledger(path, create=False)


def test_processes_that_create_a_ledger_at_the_same_time_get_the_same_one(path):
    errors = []

    def create(number):
        try:
            with Ledger(path) as ledger:
                ledger.add(["job %d" % number])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=create, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Ledger(path) as ledger:
        assert errors == [] and states(ledger) == {"waiting": 8}


@pytest.mark.parametrize(
    "version, message", [(99, "newer pollkit"), (0, "pollkit ledger migrate postgresql://")]
)
def test_a_ledger_of_another_version_is_an_error(ledger, path, version, message):
    ledger._storage.database.query("UPDATE pollkit.ledger SET version = %s", version)
    with pytest.raises(LedgerError, match=message):
        Ledger(path)


def test_a_ledger_is_migrated_on_request_only(path, clock, monkeypatch):
    Ledger(path, clock).close()
    monkeypatch.setattr(
        schema, "MIGRATIONS", [*schema.MIGRATIONS, ("CREATE TABLE pollkit.later (a int)",)]
    )
    with pytest.raises(LedgerError, match="older pollkit"):
        Ledger(path, clock)
    assert database_module.migrate_database(path, clock) == (1, 2)
    assert database_module.migrate_database(path, clock) == (2, 2)
    with Ledger(path, clock) as ledger:
        assert ledger._storage.database.query("SELECT * FROM pollkit.later") == []


def test_a_database_that_is_not_utf_8_is_refused(server):
    server.execute(
        "CREATE DATABASE old ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    with pytest.raises(LedgerError, match="createdb -E UTF8"):
        Ledger(server.url("old"))


def test_an_id_that_is_too_long_for_an_index_is_an_error(ledger):
    with pytest.raises(ConfigError, match="over 2000 bytes"):
        ledger.add(["a", Job("x" * 2001)])
    assert states(ledger) == {}
    assert ledger.add(["x" * 2000]).new == 1


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"error": 3}'])
def test_an_outcome_that_was_edited_by_hand_is_an_error_in_one_line(ledger, leases, text):
    ledger.add(["a"])
    poll_job(ledger, leases.claim(1)[0], Verdict.DONE)
    ledger._storage.database.query("UPDATE pollkit.outcome SET outcome = %s", text)
    with pytest.raises(LedgerError, match="is damaged"):
        list(ledger.jobs())
