"""What holds for every test: one that hangs shows where, and none writes into the history of whoever runs them.

And the fixtures that several files share.
"""

import contextlib
import faulthandler
import itertools
import os
import ssl
import sys
import threading

import pytest

import ledger_host
from ledger_shell import profile
from pollkit import Ledger, Profile
from pollkit.cli import main
from pollkit.edges.http import pool
from pollkit.edges.http.request import Request
from pollkit.edges.http.tls import tls_context
from pollkit.edges.http.transport import Transport
from pollkit.edges.profiles import catalog as profiles
from pollkit.testing import FakeJobApi

HANGS_S = 300  # all of them together take a fraction of it
_numbers = itertools.count()


def pytest_configure(config):
    # Once for all tests: pytest's own faulthandler_timeout starts a thread for each, a tenth of the time.
    faulthandler.dump_traceback_later(HANGS_S, file=os.dup(2))


@pytest.fixture(autouse=True)
def history_of_its_own(monkeypatch, tmp_path_factory):
    """A folder for each test, made by pollkit if it is used at all. Processes inherit it, or have no HOME."""
    place = tmp_path_factory.getbasetemp() / "histories" / str(next(_numbers))
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
    return place / "pollkit" / "history.json"


@pytest.fixture(autouse=True)
def forget_stray_senders():
    """Servers of later tests may get the same port, and so have the same origin."""
    yield
    pool._stray_senders.clear()


@pytest.fixture
def no_thread_is_left():
    """Whatever a test does, after it no thread is left that was not there before."""
    before = threading.enumerate()
    yield
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []


@pytest.fixture
def transport_settings():
    """What holds for a transport unless a test says otherwise. Files that need more override it."""
    return {"request_timeout": 10.0, "proxy": "none"}


@pytest.fixture
def new_transport(transport_settings):
    """Makes transports, and closes them."""
    with contextlib.ExitStack() as stack:

        def new(headers=None, **settings):
            made = Transport(Profile(**dict(transport_settings, **settings)), headers)
            stack.callback(made.close)
            return made

        yield new


@pytest.fixture
def fetch(new_transport):
    """Asks once, with a transport of its own."""

    def ask(url, etag=None, headers=None, **settings):
        transport = new_transport(headers, **settings)
        return transport.fetch(Request(url, transport.check(url), etag))

    return ask


@pytest.fixture
def strict_rules(monkeypatch):
    """VERIFY_X509_STRICT by default, as Python 3.13 has it; earlier versions have to be told."""
    default_context = ssl.create_default_context

    def strict_context(**settings):
        context = default_context(**settings)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    tls_context.cache_clear()
    if sys.version_info < (3, 13):
        monkeypatch.setattr(ssl, "create_default_context", strict_context)
    yield
    tls_context.cache_clear()


@pytest.fixture
def pollkit(capsys):
    """Runs a command; its exit code, what it printed, what it complained of."""

    def runs(*words):
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return runs


@pytest.fixture
def path():
    """Where a ledger may be."""
    with ledger_host.folder() as name:
        yield os.path.join(name, "jobs.db")


@pytest.fixture
def clock():
    """One that is moved by hand."""
    return ledger_host.HostClock()


@pytest.fixture
def ledger(path, clock):
    with Ledger(path, clock) as ledger:
        yield ledger


@pytest.fixture
def place(monkeypatch):
    """A home of our own, where we are: the names of ledgers are short. Its profiles end with it."""
    with ledger_host.home(monkeypatch) as path:
        yield path
        os.environ.pop("POLLKIT_PROFILES", None)


@pytest.fixture
def api(place):
    """A server, and its profile in our place."""
    with FakeJobApi() as served:
        profile(served.base)
        yield served


@pytest.fixture
def described(place):
    """A profile of an API that is not there."""
    profile("http://127.0.0.1:9")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of our own, nothing in /etc."""
    monkeypatch.setattr(profiles, "SYSTEM_FILE", str(tmp_path / "etc.ini"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("USERPROFILE", "POLLKIT_PROFILES", "POLLKIT_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def write(tmp_path):
    """Writes a file, with profiles say; its path."""

    def write(text, name="mine.ini"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return str(path)

    return write
