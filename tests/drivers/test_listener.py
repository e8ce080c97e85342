"""BatchPoller.listen: a signed callback polls its job at once; nothing else does any harm."""

import logging
import re
import socket
import threading
import time

import pytest

from callback_client import CallbackClient, read_status
from pollkit import BatchPoller, ConfigError, PollkitError
from pollkit.drivers import listener as module
from pollkit.edges.callbacks import server
from pollkit.edges.callbacks.request_parser import MAX_BODY
from pollkit.testing import FakeJobApi
from raw_server import wait_for

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
SECRET = b"s3cret"


@pytest.fixture
def api():
    with FakeJobApi() as served:
        yield served


@pytest.fixture
def batch(api):
    poller = BatchPoller(api.profile, pace="fixed 1h", timeout=None)
    yield poller
    poller.close(wait=False)


@pytest.fixture
def client(batch):
    return CallbackClient(batch.listen("127.0.0.1:0", secret=SECRET))


def wait_for_polls(api, count):
    wait_for(lambda: len(api.requests) >= count)


def test_a_signed_callback_polls_its_job_at_once(api, batch, client):
    api.add("job/1", lasts="1h")
    future = batch.submit("job/1")
    wait_for_polls(api, 1)
    api.add("job/1", lasts=0.0)  # now it has finished
    sent_at = time.monotonic()
    assert client.post("/hooks/job%2F1", b'{"any": "thing"}') == 204
    assert future.result(5).state == "done"
    assert time.monotonic() < sent_at + 1
    assert len(api.requests) == 2


def test_a_callback_without_a_valid_signature_gets_401_and_causes_no_poll(api, batch, client):
    api.add("job_1", lasts=0.0)
    api.add("job_2", lasts=60)
    batch.submit("job_2")
    wait_for_polls(api, 1)
    assert client.post("/job_2", b"x", signature="sha256=" + "0" * 64) == 401
    assert client.post("/job_2", b"x", signature="wrong") == 401
    assert client.post("/job_2", b"x", header="X-Other") == 401
    assert client.send(b"POST /job_2 HTTP/1.1\r\n\r\n") == 401
    assert batch.submit("job_1").result(5).polls == 1  # any poll of job_2 would come first
    assert [request.ids for request in api.requests] == [("job_2",), ("job_1",)]


def test_an_unknown_job_gets_the_same_reply(client):
    assert client.post("/nonesuch") == 204


def test_other_requests_are_refused(client):
    assert client.send(b"GET /job_1 HTTP/1.1\r\n\r\n") == 405
    assert client.send(b"hello\r\n\r\n") == 400
    assert client.send(b"POST /job_1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n") == 411
    assert client.send(b"POST /" + b"x" * 20000) == 431
    assert client.post("/") == 404


def test_a_profile_names_another_header_and_the_place_of_the_id(api):
    api.add("7", lasts="1h")
    profile = api.profile._replace(callback_header="X-Hub-Signature-256", callback_id="job.id")
    with BatchPoller(profile, pace="fixed 1h") as batch:
        client = CallbackClient(batch.listen("127.0.0.1:0", secret=SECRET))
        future = batch.submit("7")
        wait_for_polls(api, 1)
        api.add("7", lasts=0.0)  # now it has finished
        body = b'{"job": {"id": 7}}'
        assert client.post("/hook", body) == 401
        assert client.post("/hook", b"{}", header="X-Hub-Signature-256") == 400
        assert client.post("/hook", body, header="X-Hub-Signature-256") == 204
        assert future.result(5).state == "done"


def test_a_client_that_expects_100_continue_gets_it(client):
    with client.connect() as connection:
        connection.sendall(
            b"POST /job_1 HTTP/1.1\r\nX-Pollkit-Signature: s3cret\r\n"
            b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        )
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"hello")
        assert read_status(connection) == 204


def test_the_largest_body_is_accepted_and_a_larger_one_refused_early(client):
    assert client.post("/job_1", b"x" * MAX_BODY) == 204
    with client.connect() as connection:
        connection.sendall(b"POST /job_1 HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1))
        assert read_status(connection) == 413
    # The reply arrives although the client is still sending.
    assert client.send(b"POST / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n" + b"x" * 999999) == 413


def test_slow_clients_are_disconnected_and_do_not_delay_others(client, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_S", 0.5)
    stop = threading.Event()

    def drip():
        with client.connect() as connection:
            connection.sendall(b"POST /job_1 HTTP/1.1\r\nX: ")
            try:
                while not stop.wait(0.02):
                    connection.sendall(b"x")
            except OSError:
                disconnected.append(time.monotonic() - began_at)

    disconnected = []
    began_at = time.monotonic()
    threads = [threading.Thread(target=drip) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert client.post("/job_1") == 204
    assert time.monotonic() < began_at + 0.5
    wait_for(lambda: len(disconnected) == 5)
    stop.set()
    for thread in threads:
        thread.join()
    assert max(disconnected) < 2


def test_silent_clients_take_up_a_bounded_number_of_places(client, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_S", 0.5)
    accepted = []
    accept = socket.socket.accept
    monkeypatch.setattr(
        socket.socket, "accept", lambda sock: accepted.append(time.monotonic()) or accept(sock)
    )
    silent = [client.connect() for _ in range(3 * server.MAX_CONNECTIONS)]
    began_at = time.monotonic()
    assert client.post("/job_1") == 204  # after all of them were disconnected
    assert time.monotonic() - began_at > 1.0
    within_first_period = [at for at in accepted if at < accepted[0] + 0.4]
    assert len(within_first_period) == server.MAX_CONNECTIONS
    for connection in silent:
        connection.close()


def test_clients_that_disappear_do_no_harm(client):
    for data in (b"", b"POST", b"POST /job_1 HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"):
        with client.connect() as connection:
            connection.sendall(data)
    assert client.post("/job_1") == 204


def test_a_client_that_sends_without_end_does_not_delay_others(client):
    is_flooding = threading.Event()

    def send_without_end():
        with client.connect() as connection:
            try:
                while True:
                    connection.sendall(b"x" * 65536)
                    is_flooding.set()
            except OSError:
                pass  # disconnected

    thread = threading.Thread(target=send_without_end)
    thread.start()
    assert is_flooding.wait(5)
    began_at = time.monotonic()
    assert client.post("/job_1") == 204
    assert time.monotonic() < began_at + 0.5
    assert thread.is_alive()
    thread.join(5)
    assert not thread.is_alive()


def test_connections_are_accepted_at_a_bounded_rate(client, monkeypatch):
    monkeypatch.setattr(server, "RATE", 100.0)
    began_at = time.monotonic()
    for _ in range(50):
        assert client.post("/job_1") == 204
    assert time.monotonic() - began_at > (50 - 100 * server.BURST_S - 1) / 100


def test_a_lack_of_descriptors_is_survived(client, monkeypatch):
    accept = socket.socket.accept
    errors = [OSError(24, "Too many open files"), BlockingIOError(), ConnectionAbortedError()]

    def fail_thrice(sock):
        if errors:
            raise errors.pop(0)
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", fail_thrice)
    assert client.post("/job_1") == 204
    assert errors == []


def test_a_failed_nudge_is_logged_and_the_next_one_works(api, caplog):
    nudged = []

    def nudge(job_id):
        nudged.append(job_id)
        if job_id == "bad":
            raise PollkitError("no")

    listener = module.Listener("127.0.0.1:0", SECRET, api.profile)
    listener.start(nudge)
    client = CallbackClient(str(listener.address))
    with caplog.at_level(logging.ERROR, "pollkit"):
        assert client.post("/bad") == client.post("/good") == 204
        wait_for(lambda: nudged == ["bad", "good"])
    listener.close()
    assert "a callback could not be used" in caplog.text


def test_polling_continues_if_the_listener_has_a_bug(api, batch, monkeypatch, caplog):
    monkeypatch.setattr(module, "judge", lambda callback, rules: 1 // 0)
    with caplog.at_level(logging.ERROR, "pollkit"):
        client = CallbackClient(batch.listen("127.0.0.1:0", secret=SECRET))
        assert client.post("/job_1") is None
        wait_for(lambda: "can't receive callbacks any more" in caplog.text)
    api.add("job_1")
    assert batch.submit("job_1").result(5).state == "done"


def test_closing_the_batch_closes_the_address_within_a_second(api):
    batch = BatchPoller(api.profile)
    client = CallbackClient(batch.listen("127.0.0.1:0", secret=SECRET))
    with client.connect():  # in the middle of a request
        began_at = time.monotonic()
        batch.close()
        assert time.monotonic() < began_at + 1
    with pytest.raises(ConnectionRefusedError):
        client.connect()
    with pytest.raises(PollkitError, match="this BatchPoller is closed"):
        batch.listen("127.0.0.1:0", secret=SECRET)


def test_an_address_that_other_hosts_can_reach_is_logged(batch, caplog):
    with caplog.at_level(logging.WARNING, "pollkit"):
        batch.listen("127.0.0.1:0", secret=SECRET)
        assert caplog.text == ""
        batch.listen("0.0.0.0:0", secret=SECRET)
    assert re.search(r"other hosts can send callbacks to 0\.0\.0\.0:\d+, over plain", caplog.text)


@pytest.mark.parametrize(
    "address, secret, message",
    [
        ("127.0.0.1", SECRET, "is not an address"),
        (8099, SECRET, "address must be text"),
        ("127.0.0.1:0", b"", "secret must be 'env:VAR', 'file:PATH', or the secret as bytes"),
        ("127.0.0.1:0", None, "secret must be"),
        ("127.0.0.1:0", "", "write env:VAR or file:PATH"),
        ("127.0.0.1:0", "hunter22", "write env:VAR or file:PATH, never the secret itself"),
        ("127.0.0.1:0", "env:", "write env:VAR"),
        ("127.0.0.1:0", "file:", "write env:VAR"),
        ("127.0.0.1:0", "env:NO_SUCH_VAR", "NO_SUCH_VAR is not set, or empty"),
        ("127.0.0.1:0", "file:/nonesuch", "can't read the credential file /nonesuch"),
    ],
)
def test_bad_arguments_are_refused(batch, address, secret, message):
    with pytest.raises(ConfigError, match=message) as refused:
        batch.listen(address, secret=secret)
    assert "hunter22" not in str(refused.value)


def test_the_secret_comes_from_the_environment_or_a_file(batch, monkeypatch, write):
    monkeypatch.setenv("CALLBACK_SECRET", "caf\u00e9")
    path = write("from a file\n", "secret")
    first = batch.listen("127.0.0.1:0", secret="env:CALLBACK_SECRET")
    second = batch.listen("127.0.0.1:0", secret="file:" + path)
    assert CallbackClient(first, "caf\u00e9".encode("utf-8")).post("/job_1") == 204
    assert CallbackClient(second, b"from a file").post("/job_1") == 204
    assert CallbackClient(second, b"from a file\n").post("/job_1") == 401


def test_a_bad_header_name_in_a_profile_is_refused(api):
    profile = api.profile._replace(callback_header="X Y")
    with BatchPoller(profile) as batch, pytest.raises(ConfigError, match="can't be a header's"):
        batch.listen("127.0.0.1:0", secret=SECRET)


def test_a_thread_that_can_not_start_is_reported(batch, monkeypatch):
    def fail(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(
        PollkitError, match="can't receive callbacks: can't start a thread.*ulimit -u"
    ):
        batch.listen("127.0.0.1:0", secret=SECRET)
