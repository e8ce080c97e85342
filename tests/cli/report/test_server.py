"""`report --serve`: one page for browsers on this host, made again for each visit."""

import http.client
import signal
import socket
import sys
import threading
import time

import pytest

from ledger_shell import start
from pollkit import ConfigError
from pollkit.cli.report import server
from pollkit.errors import LedgerError
from raw_server import wait_for


@pytest.fixture
def served(monkeypatch):
    """A function that serves pages and returns the port; the server stops after the test."""
    servers = []
    monkeypatch.setattr(server, "FRESH_S", 0.0)
    monkeypatch.setattr(server._Server, "serve_forever", lambda self, **_: run(self))

    def run(made):
        servers.append(made)
        started.set()
        super(server._Server, made).serve_forever(poll_interval=0.01)

    started = threading.Event()

    def serve(make_page, address="127.0.0.1:0"):
        urls = []
        thread = threading.Thread(
            target=server.serve_page, args=(address, make_page, urls.append), daemon=True
        )
        thread.start()
        assert started.wait(10)
        return int(urls[0].rpartition(":")[2].strip("/"))

    yield serve
    for made in servers:
        made.shutdown()


def request(port, method="GET", path="/", host=None, address="127.0.0.1"):
    connection = http.client.HTTPConnection(address, port, timeout=10)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    response = connection.getresponse()
    found = response.status, response.read(), response.headers
    connection.close()
    return found


def test_each_visit_gets_a_new_page(served):
    visits = []
    port = served(lambda refresh_s: visits.append(refresh_s) or b"page %d" % len(visits))
    status, page, headers = request(port)
    assert (status, page) == (200, b"page 2")  # the first one was made before the first visit
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    give_up_at = time.monotonic() + 5
    while page == b"page 2" and time.monotonic() < give_up_at:  # it is kept for a moment
        page = request(port)[1]
    assert page == b"page 3"
    assert request(port, "HEAD")[:2] == (200, b"")
    assert set(visits) == {server.REFRESH_S}


def test_there_is_only_this_page_and_it_can_only_be_read(served):
    port = served(lambda refresh_s: b"page")
    assert request(port, path="/?x=1")[0] == 200
    assert request(port, path="/etc/passwd")[0] == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert request(port, method)[0] == 501


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_this_host_may_be_named_with_or_without_the_port(served, host):
    port = served(lambda refresh_s: b"page")
    assert request(port, host=host)[0] == 200
    assert request(port, host="%s:%d" % (host, port))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "", "["])
def test_a_site_that_resolves_to_this_host_can_not_read_the_page(served, host):
    port = served(lambda refresh_s: b"page")
    status, body, _ = request(port, host=host)
    assert status == 403 and b"page" not in body


@pytest.mark.skipif(sys.platform != "linux", reason="needs all of 127.0.0.0/8")
def test_the_page_can_be_read_at_the_address_that_was_given(served):
    port = served(lambda refresh_s: b"page", "127.0.0.5:0")
    assert request(port, address="127.0.0.5")[:2] == (200, b"page")


def test_slow_clients_are_limited_in_number_and_time(served, monkeypatch):
    """They send a byte now and then, which is a request that never ends."""
    monkeypatch.setattr(server, "REQUEST_S", 0.5)
    port = served(lambda refresh_s: b"page")
    threads = threading.active_count()
    clients = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(100)]
    connected = set(clients)
    most = 0
    give_up_at = time.monotonic() + 20
    while connected and time.monotonic() < give_up_at:
        most = max(most, threading.active_count() - threads)
        for client in list(connected):
            try:
                client.sendall(b"G")
            except OSError:
                connected.remove(client)
        time.sleep(0.01)
    for client in clients:
        client.close()
    # A thread that makes room for the next client may still be about to exit.
    assert not connected and most <= server.MAX_CLIENTS + 4
    assert request(port)[:2] == (200, b"page")


def test_a_page_may_take_longer_to_make_than_a_request(served, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_S", 0.1)
    checks = []
    check = server._Server.service_actions

    def count_and_check(self):
        check(self)
        checks.append(time.monotonic())

    monkeypatch.setattr(server._Server, "service_actions", count_and_check)
    is_first = iter([True])

    def make_page(refresh_s):
        too_late = time.monotonic() + 0.2
        if not next(is_first, False):
            wait_for(lambda: checks and checks[-1] > too_late)
        return b"page"

    port = served(make_page)
    assert request(port)[:2] == (200, b"page")


def test_a_ledger_that_can_not_be_read_for_a_moment_is_reported(served, capsys):
    pages = iter([b"first"])

    def make_page(refresh_s):
        try:
            return next(pages)
        except StopIteration:
            raise LedgerError("jobs.db is locked") from None

    port = served(make_page)
    assert request(port)[0] == 503
    assert "pollkit: jobs.db is locked\n" in capsys.readouterr().err


def test_a_page_is_kept_for_a_moment_and_longer_if_it_takes_long_to_make(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(server.time, "monotonic", lambda: now[0])
    made = []

    def make_page(refresh_s):
        now[0] += 3.0
        made.append(refresh_s)
        return b"%d" % len(made)

    pages = server._Pages(make_page)
    assert pages.get() == b"1"
    now[0] += 11.0
    assert pages.get() == b"1"
    now[0] += 2.0
    assert pages.get() == b"2"
    assert made == [server.REFRESH_S, 30]


@pytest.mark.parametrize("address", ["0.0.0.0:8099", "[::]:8099", "192.0.2.1:80", "example.com:80"])
def test_only_loopback_addresses_are_served(address):
    with pytest.raises(ConfigError, match="can be reached from other hosts"):
        server.serve_page(address, lambda refresh_s: b"", None)


def test_the_command_serves_until_a_signal(described, pollkit):
    pollkit("add", "jobs.db", "job_1", "--profile", "fake")
    process = start("report", "jobs.db", "--serve", "0")
    url = process.stderr.readline()
    port = int(url.split(":")[-1].split("/")[0])
    status, page, _ = request(port)
    assert status == 200 and b"job_1" in page and b'http-equiv="refresh"' in page
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130
    process.stdout.close()
    process.stderr.close()
