"""Each driver does the same: psycopg 3, psycopg2 and pg8000."""

import os
import sys

import pytest

import postgres_server
from ledger_host import forked, poll_job, states
from pollkit import Job, Ledger, LedgerError
from pollkit.core.reading.verdict import Verdict
from pollkit.edges.ledger.postgres.connection import drivers


@pytest.fixture(params=drivers.NAMES)
def driver(request, monkeypatch):
    pytest.importorskip(request.param)
    monkeypatch.setattr(drivers, "NAMES", (request.param,))
    return request.param


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_job_from_its_addition_to_its_notification(driver, path, clock):
    url = "https://api.internal/ü"
    with Ledger(path, clock) as ledger:
        ledger.add([Job("a", url, label="x", size=3, metadata={"n": [1, None]}), "b", "c"])
        claims = ledger._leases.claim(2)
        assert claims[0].job == Job("a", url, label="x", size=3, metadata={"n": [1, None]})
        assert poll_job(ledger, claims[0], Verdict.DONE, result="100% \u20ac \0 '")
        assert poll_job(ledger, claims[1], origin="https://api.internal")
        ledger._leases.release(claims)
        (row,) = ledger.jobs(ids=["a"])
        assert row.outcome["result"] == "100% \u20ac \0 '"
        assert states(ledger) == {"done": 1, "waiting": 2}
        (notification,) = ledger._notifications.claim(5)
        ledger._notifications.mark_in_outbox([notification])
        ledger._notifications.mark_notified(notification)
        assert ledger.retry(["a"]) == ["a"] and ledger.forget(["b", "?"]) == ["b"]
        assert ledger.bucket("10/s").reserve(clock.now()) == clock.now()
        ledger._storage.maintain()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "change, message",
    [
        (lambda url: url + "x", "createdb"),
        (lambda url: url.replace("pollkit@", "nonesuch@"), "refused the user"),
        (lambda url: "postgresql://me@127.0.0.1:1/x", "can't be reached: .*refused"),
        (lambda url: "postgresql://me@nonesuch.invalid/x", "can't be reached"),
    ],
)
def test_a_database_that_can_not_be_opened_is_an_error_with_a_remedy(driver, path, change, message):
    with pytest.raises(LedgerError, match=message) as raised:
        Ledger(change(path))
    assert "\n" not in str(raised.value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "parameter", ["port=abc", "port=99999", "connect_timeout=abc", "sslmode=bogus"]
)
def test_a_parameter_without_a_meaning_is_an_error(driver, parameter):
    with pytest.raises(LedgerError, match=parameter.partition("=")[0]):
        Ledger("postgresql:///x?host=127.0.0.1&" + parameter)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("content", ["[test]\nhost=127.0.0.1\n", "[prod]\nno parameter\n", None])
def test_a_service_that_is_not_defined_names_the_service_file(
    driver, tmp_path, monkeypatch, content
):
    services = tmp_path / "services"
    if content is not None:
        services.write_text(content)
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    for url, service in [("postgresql:///x?service=prod", ""), ("postgresql:///x", "prod")]:
        monkeypatch.setenv("PGSERVICE", service)
        with pytest.raises(LedgerError, match="servic") as raised:
            Ledger(url)
        assert "server running" not in str(raised.value)
        assert "PGSERVICEFILE" in str(raised.value) or str(services) in str(raised.value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_timeout_of_0_waits_for_the_connection(driver, path):
    Ledger(path + "?connect_timeout=0").close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("hosts", ["127.0.0.1:%d,127.0.0.1:1", "127.0.0.1:1,127.0.0.1:%d"])
def test_if_only_a_standby_is_left_the_error_says_so(driver, path, hosts):
    """Wherever the URL names it: the cause is not that the primary refuses the connection."""
    server = postgres_server.shared_server()
    name = path.rpartition("/")[2]
    server.execute("ALTER DATABASE %s SET default_transaction_read_only = on" % name)
    address = hosts % server.port
    with pytest.raises(LedgerError, match="the server is read-only"):
        Ledger("postgresql://%s@%s/%s" % (postgres_server.USER, address, name))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_its_own_connection(driver, path):
    with Ledger(path) as ledger:
        ledger.add(["a"])

        def work():
            ledger.add(["b"])
            ledger.close()

        _, status = os.waitpid(forked(work), 0)
        assert status == 0
        ledger.add(["c"])
        assert [row.job.id for row in ledger.jobs()] == ["a", "b", "c"]


@pytest.fixture(scope="module")
def server_with_password(own_server):
    own_server.execute("CREATE ROLE me LOGIN PASSWORD 's3cr3t'")
    own_server.configure_access("host all me 127.0.0.1/32 scram-sha-256")
    return own_server


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_password_comes_from_the_password_file(
    driver, server_with_password, tmp_path, monkeypatch
):
    name = driver.partition(".")[0]
    server_with_password.execute("CREATE DATABASE %s OWNER me" % name)
    url = "postgresql://me@127.0.0.1:%d/%s" % (server_with_password.port, name)
    path = tmp_path / "pgpass"
    path.write_text("127.0.0.1:*:%s:me:s3cr3t\n" % name)
    path.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(path))
    with Ledger(url) as ledger:
        ledger.add(["a"])
    path.write_text("127.0.0.1:*:%s:me:wr0ng\n" % name)
    with pytest.raises(LedgerError, match="refused the password") as raised:
        Ledger(url)
    assert "wr0ng" not in str(raised.value)
    path.write_text("127.0.0.1:*:%s:me:s3cr3t\n" % name)
    path.chmod(0o644)
    with pytest.raises(LedgerError, match="needs a password: put it in .*chmod 600"):
        Ledger(url)


@pytest.mark.parametrize(
    "text, code",
    [
        ("the database system is starting up", "57P03"),
        ("the database system is shutting down", "57P03"),
        ("the database system is not yet accepting connections", "57P03"),
        ('database "jobs" does not exist', "3D000"),
        ('role "me" does not exist', "28000"),
        ('password authentication failed for user "me"', "28P01"),
        ('no pg_hba.conf entry for host "10.0.0.1"', "28000"),
        ("sorry, too many clients already", "53300"),
        ("der Server startet", None),
    ],
)
def test_a_refused_connection_is_classified_by_its_text(text, code):
    assert drivers.error_code(Exception("connection failed: FATAL:  " + text)) == code


def test_without_a_driver_the_error_says_what_to_install(monkeypatch):
    for name in drivers.NAMES:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(LedgerError, match=r"pip install 'pollkit\[postgres\]'"):
        Ledger("postgresql://me@127.0.0.1/jobs")


def test_the_tests_have_a_driver():
    postgres_server.skip_unless_available()
    assert drivers.load_driver().name in drivers.NAMES
