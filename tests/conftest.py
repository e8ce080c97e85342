"""Fixtures for all tests.

A test that hangs prints its traceback, and no test writes to the user's duration history.
"""

import contextlib
import faulthandler
import gc
import itertools
import os
import pathlib
import re
import shutil
import signal
import ssl
import sys
import tempfile
import threading

import pytest

import file_queue
import ledger_host
import postgres_server
from doctor_report import Report
from ledger_shell import profile
from pollkit import Ledger, Profile
from pollkit.cli import main
from pollkit.edges.http.connections import pool
from pollkit.edges.http.connections.tls import tls_context
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from pollkit.edges.profiles import catalog as profiles
from pollkit.testing import FakeJobApi

HANGS_S = 300  # all tests of the suite together take a fraction of it
SLOW_HANGS_S = 1800  # and so do those of tests/slow
_numbers = itertools.count()
_histories = tempfile.mkdtemp()  # a TemporaryDirectory is removed when a forked child ends


def pytest_configure(config):
    # Under nohup or in the background of a shell, these signals are ignored, also by children.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Once for all tests: pytest's faulthandler_timeout starts a thread per test, which takes a
    # tenth of the time.
    is_slow = any("slow" in argument for argument in config.args)
    faulthandler.dump_traceback_later(SLOW_HANGS_S if is_slow else HANGS_S, file=os.dup(2))
    file_queue.register(config)


def pytest_collection_finish(session):
    # The garbage collector need not look at thousands of tests again and again: 4 % of the time.
    if hasattr(gc, "freeze"):  # since Python 3.7
        gc.freeze()
    gc.set_threshold(700, 10, 100)  # nor often at those of files that are collected later


# Hooks, because two fixtures that each test uses would take a third of the time of a short one.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    # The history file of this test. Child processes inherit it, or have no HOME.
    os.environ["XDG_STATE_HOME"] = os.path.join(_histories, str(next(_numbers)))
    # A server of this test may get the port of an earlier one, and then has the same origin.
    pool._stray_senders.clear()


def pytest_unconfigure():
    shutil.rmtree(_histories, ignore_errors=True)


@pytest.fixture
def history_of_its_own():
    """The path of this test's history file."""
    return pathlib.Path(os.environ["XDG_STATE_HOME"], "pollkit", "history.json")


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """An empty folder, as that of pytest, which looks for an unused name among all folders."""
    name = "%.30s_%d" % (re.sub(r"\W", "_", request.node.name), next(_numbers))
    path = tmp_path_factory.getbasetemp() / name
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def no_thread_is_left():
    """Fails if the test leaves a thread behind."""
    before = threading.enumerate()
    yield
    added = [thread for thread in threading.enumerate() if thread not in before]
    for thread in added:
        thread.join(2.0)  # a call in the background reports its result just before its thread ends
    assert [thread.name for thread in added if thread.is_alive()] == []


@pytest.fixture
def transport_settings():
    """Default settings of a transport. Test files may override this fixture."""
    return {"request_timeout": 10.0, "proxy": "none"}


@pytest.fixture
def new_transport(transport_settings):
    """A function that makes transports; they are closed after the test."""
    with contextlib.ExitStack() as stack:

        def new(headers=None, **settings):
            made = Transport(Profile(**dict(transport_settings, **settings)), headers)
            stack.callback(made.close)
            return made

        yield new


@pytest.fixture
def fetch(new_transport):
    """A function that sends one request, with a new transport."""

    def send(url, etag=None, headers=None, **settings):
        transport = new_transport(headers, **settings)
        return transport.fetch(Request(url, transport.check(url), etag))

    return send


@pytest.fixture
def strict_rules(monkeypatch):
    """VERIFY_X509_STRICT by default, as in Python 3.13, on earlier versions, too."""
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
    """A function that runs a command and returns its exit code, stdout and stderr."""

    def run_command(*words):
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return run_command


@pytest.fixture
def environment(monkeypatch):
    """The environment of the process without proxies, as a monkeypatch."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name == "REQUEST_METHOD":
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
def doctor(pollkit, environment):
    """A function that runs `pollkit doctor` and returns its Report."""

    def examine(*words):
        code, out, err = pollkit("doctor", *words)
        assert err == ""
        return Report(code, out)

    return examine


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request):
    """The kind of storage: all tests of ledgers run with each (ledger_host.new_place)."""
    if request.param == "postgres":
        postgres_server.skip_unless_available()
    return request.param


@pytest.fixture
def path(storage, request):
    """The place of a ledger; it does not exist yet, unless the test uses the fixture `ledger`."""
    if "ledger" in request.fixturenames:
        new = ledger_host.place_of_new_ledger
    else:
        new = ledger_host.new_place
    with new(storage) as place:
        yield place


@pytest.fixture
def clock():
    """A clock that the test moves."""
    return ledger_host.HostClock()


@pytest.fixture
def ledger(path, clock):
    """An empty ledger."""
    with Ledger(path, clock) as ledger:
        yield ledger


@pytest.fixture
def leases(ledger):
    return ledger._leases


@pytest.fixture
def outages(ledger):
    return ledger._outages


@pytest.fixture
def notifications(ledger):
    return ledger._notifications


@pytest.fixture
def statistics(ledger):
    return ledger.statistics


@pytest.fixture
def place(monkeypatch):
    """A temporary home, which is also the working directory, so that ledgers have short names."""
    with ledger_host.home(monkeypatch) as path:
        yield path
        os.environ.pop("POLLKIT_PROFILES", None)


@pytest.fixture
def api(place):
    """A server, with a profile for it in the temporary home."""
    with FakeJobApi() as served:
        profile(served.base)
        yield served


@pytest.fixture
def described(place):
    """A profile of an API that does not exist."""
    profile("http://127.0.0.1:9")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A temporary home, without profiles in /etc."""
    monkeypatch.setattr(profiles, "SYSTEM_FILE", str(tmp_path / "etc.ini"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("USERPROFILE", "POLLKIT_PROFILES", "POLLKIT_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def write(tmp_path):
    """A function that writes a file, of profiles for example, and returns its path."""

    def write_file(text, name="mine.ini"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return str(path)

    return write_file
