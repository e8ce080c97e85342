"""TLS to the server, with a private CA; each driver does the same."""

import os

import pytest

import postgres_server
from ledger_host import states
from paths import DATA
from pollkit import Ledger, LedgerError
from pollkit.edges.ledger.postgres.connection import drivers
from tls_servers import CA, LAX_CA

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def tls_server():
    postgres_server.skip_unless_available()
    server = postgres_server.PostgresServer()
    server.use_tls(os.path.join(DATA, "localhost.pem"), os.path.join(DATA, "localhost.key"))
    yield server
    server.remove()


@pytest.fixture(scope="module")
def created():
    """The names of the databases that exist."""
    return set()


@pytest.fixture(params=drivers.NAMES)
def database(request, monkeypatch, tls_server, created):
    """The URL of a database for one of the drivers; the server demands TLS."""
    pytest.importorskip(request.param)
    monkeypatch.setattr(drivers, "NAMES", (request.param,))
    name = "tls_" + request.param.partition(".")[0]
    if name not in created:
        tls_server.execute("CREATE DATABASE " + name, "postgres?sslmode=require")
        created.add(name)
    return "postgresql://%s@localhost:%d/%s" % (postgres_server.USER, tls_server.port, name)


def uses_tls(ledger):
    return ledger._storage.database.query(
        "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    ) == [(True,)]


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_a_private_ca_may_be_named_in_the_url(database, mode):
    with Ledger("%s?sslmode=%s&sslrootcert=%s" % (database, mode, CA)) as ledger:
        ledger.add(["a"])
        assert uses_tls(ledger) and states(ledger) == {"waiting": 1}


def test_a_private_ca_may_be_named_in_the_environment(database, monkeypatch):
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", CA)
    with Ledger(database) as ledger:
        assert uses_tls(ledger)


def test_a_certificate_of_another_ca_is_refused(database):
    with pytest.raises(LedgerError, match="(?i)certificate") as raised:
        Ledger("%s?sslmode=verify-full&sslrootcert=%s" % (database, LAX_CA))
    assert "\n" not in str(raised.value)


def test_without_tls_the_server_refuses_the_connection(database):
    with pytest.raises(LedgerError, match="refused"):
        Ledger(database + "?sslmode=disable")
