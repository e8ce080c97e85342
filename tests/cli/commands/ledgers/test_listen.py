"""pollkit run --listen, as a real process: callbacks end waits at once, and do no harm."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from callback_client import CallbackClient
from ledger_shell import posix, profile, start, wait_for_exit
from pollkit.cli import main
from pollkit.cli.commands.program.help import text_of
from ports import unused_port
from raw_server import wait_for

SECRET = "s3cret"
LISTEN = ["--listen-secret", "env:CALLBACK_SECRET"]


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("CALLBACK_SECRET", SECRET)


@pytest.fixture
def port():
    """A port that was free a moment ago."""
    return unused_port()


@pytest.fixture
def address(port):
    return "127.0.0.1:%d" % port


@pytest.fixture
def started(api, address):
    """A function that starts a run with a pace of an hour; it is killed after the test."""
    processes = []

    def start_run(*words):
        process = start(
            "run", "jobs.db", "--pace", "fixed 1h", "--listen", address, *LISTEN, *words
        )
        processes.append(process)
        wait_for(lambda: api.requests or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        return process

    yield start_run
    for process in processes:
        if process.returncode is None:
            process.kill()
            process.communicate()


def add_jobs(api, *names):
    for name in names:
        api.add(name, lasts="1h")
    assert main(["add", "jobs.db", "--profile", "fake", "--quiet", *names]) == 0


def test_a_signed_callback_ends_the_wait_for_its_job_within_a_second(api, address, started):
    add_jobs(api, "job_1")
    process = started()
    api.add("job_1", lasts=0.0)  # it has finished
    sent_at = time.monotonic()
    assert CallbackClient(address).post("/hooks/job_1", b"{}") == 204
    assert wait_for_exit(process) == (0, "", "")
    assert time.monotonic() < sent_at + 1
    assert len(api.requests) == 2


def test_a_wrong_signature_gets_401_and_causes_no_poll(api, address, started):
    add_jobs(api, "job_1")
    process = started()
    api.add("job_1", lasts=0.0)
    stranger = CallbackClient(address, b"another secret")
    assert [stranger.post("/job_1", b"{}") for _ in range(20)] == [401] * 20
    process.send_signal(signal.SIGTERM)
    assert wait_for_exit(process)[0] == 143
    assert len(api.requests) == 1


def test_the_profile_of_the_run_names_the_place_of_the_id(api, address, started):
    add_jobs(api, "job_1")
    profile(api.base, "callback_id = job\n")
    process = started("--profile", "fake")
    api.add("job_1", lasts=0.0)
    client = CallbackClient(address)
    assert client.post("/job_1", b"{}") == 400
    assert client.post("/hook", b'{"job": "job_1"}') == 204
    assert wait_for_exit(process)[0] == 0


def test_a_storm_of_callbacks_costs_a_few_polls_and_delays_no_other_job(api, address, started):
    add_jobs(api, "job_1", "job_2")
    started()
    wait_for(lambda: len(api.requests) == 2)
    client = CallbackClient(address)
    statuses = []

    def send_many():
        statuses.extend(client.post("/job_1") for _ in range(500))

    threads = [threading.Thread(target=send_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(statuses) > 100 or not any(map(threading.Thread.is_alive, threads)))
    api.add("job_2", lasts=0.0)
    sent_at = time.monotonic()
    assert client.post("/job_2") == 204
    wait_for(lambda: any("job_2" in each.ids for each in api.requests[2:]))
    assert time.monotonic() < sent_at + 1
    for thread in threads:
        thread.join()
    assert statuses == [204] * 2000
    assert sum("job_1" in each.ids for each in api.requests) <= 4


@posix
def test_ctrl_c_works_within_a_second_while_clients_are_connected(api, address, started):
    add_jobs(api, "job_1")
    process = started()
    client = CallbackClient(address)
    silent = [client.connect() for _ in range(50)]
    silent[0].sendall(b"POST /job_1 HTTP/1.1\r\n")
    interrupted_at = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, _, err = wait_for_exit(process)
    assert time.monotonic() < interrupted_at + 1
    assert (code, err) == (130, "pollkit: interrupted: 1 job still waits; run it again\n")
    for connection in silent:
        connection.close()


@posix
def test_with_several_processes_the_first_one_listens_for_all(api, address, started):
    names = ["job_%d" % number for number in range(20)]
    add_jobs(api, *names)
    process = started("--processes", "3")
    wait_for(lambda: len(api.requests) == 20)
    client = CallbackClient(address)
    for name in names:
        api.add(name, lasts=0.0)
        assert client.post("/" + name) == 204
    assert wait_for_exit(process)[0] == 0
    assert len(api.requests) == 40


def test_a_job_that_was_added_later_is_nudged_too(api, address, started):
    add_jobs(api, "job_1")
    process = started()
    add_jobs(api, "job_2")
    wait_for(lambda: len(api.requests) == 2)
    for name in ("job_1", "job_2"):
        api.add(name, lasts=0.0)
        assert CallbackClient(address).post("/" + name) == 204
    assert wait_for_exit(process)[0] == 0


# Bad input


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


@pytest.fixture
def refused(api, pollkit):
    """A function that starts a run which must fail; its message, of one line."""
    add_jobs(api, "job_1")

    def run(*words):
        before = read_bytes("jobs.db")
        code, out, err = pollkit("run", "jobs.db", *words)
        assert (code, out) == (2, "") and api.requests == []
        assert re.fullmatch("pollkit: [^\n]+\n", err), err
        assert read_bytes("jobs.db") == before
        return err

    return run


def test_a_listener_without_a_secret_is_refused(refused, address):
    assert "--listen needs --listen-secret env:VAR or file:PATH" in refused("--listen", address)
    assert "--listen-secret needs --listen ADDRESS" in refused(*LISTEN)


@pytest.mark.parametrize(
    "spec, message",
    [
        ("hunter22", "--listen-secret: write env:VAR or file:PATH, never the secret itself"),
        ("", "--listen-secret: write env:VAR or file:PATH"),
        ("env:NOT_SET", "--listen-secret: the environment variable NOT_SET is not set, or empty"),
        ("env:EMPTY", "--listen-secret: the environment variable EMPTY is not set, or empty"),
        ("file:none", "--listen-secret: can't read the credential file none: No such file"),
        ("file:empty", "--listen-secret: the credential file empty is empty"),
    ],
)
def test_a_bad_secret_is_refused(refused, address, monkeypatch, spec, message):
    monkeypatch.setenv("EMPTY", " ")
    open("empty", "w").close()
    err = refused("--listen", address, "--listen-secret", spec)
    assert message in err and "hunter22" not in err


@pytest.mark.parametrize(
    "bad, message",
    [
        ("localhost", "--listen: 'localhost' is not an address: write 127.0.0.1:8099"),
        ("", "--listen: '' is not an address"),
        ("127.0.0.1:65536", "--listen: 65536 is not a port"),
        ("192.0.2.1:8099", "--listen: can't listen on 192.0.2.1:8099: "),
        ("nonesuch.invalid:8099", "--listen: can't listen on nonesuch.invalid:8099: "),
    ],
)
def test_a_bad_address_is_refused(refused, bad, message):
    assert message in refused("--listen", bad, *LISTEN)


def test_an_address_in_use_is_refused(refused, address, port):
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen(1)
        for processes in ("1", "3"):
            err = refused("--listen", address, *LISTEN, "--processes", processes)
            assert "--listen: can't listen on %s: Address already in use" % address in err


def test_listening_with_once_is_refused(refused, address):
    assert "--listen has no effect with --once" in refused("--listen", address, *LISTEN, "--once")


def test_a_dry_run_does_not_listen(api, pollkit, address, port):
    add_jobs(api, "job_1")
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen(1)
        assert pollkit("run", "jobs.db", "--dry-run", "--listen", address, *LISTEN)[0] == 0


def test_an_address_that_other_hosts_can_reach_gets_a_warning(api, pollkit, port):
    add_jobs(api, "job_1")
    listen = ["--listen", "0.0.0.0:%d" % port, *LISTEN]
    code, _, err = pollkit("run", "jobs.db", "--for", "100ms", *listen)
    assert code == 0
    assert err == (
        "pollkit: warning: --listen: other hosts can send callbacks to 0.0.0.0:%d, over plain "
        "HTTP: a proxy with TLS that forwards them to 127.0.0.1 is safer\n" % port
    )
    assert pollkit("run", "jobs.db", "--for", "100ms", "--quiet", *listen) == (0, "", "")


def test_a_verbose_run_prints_its_address(api, pollkit):
    """For example the port that the system chose."""
    add_jobs(api, "job_1")
    _, _, err = pollkit("run", "jobs.db", "--for", "100ms", "-v", "--listen", "0", *LISTEN)
    assert re.match(r"pollkit: listening on 127\.0\.0\.1:[1-9]\d+\n", err)


def test_the_secret_is_not_passed_on_to_programs(api, pollkit, address):
    add_jobs(api, "job_1")
    api.add("job_1", lasts=0.0)
    show = "import json, os; json.dump(dict(os.environ), open('seen.json', 'w'))"
    program = ["--exec", sys.executable, "-c", show]
    assert pollkit("run", "jobs.db", "--listen", address, *LISTEN, *program)[0] == 0
    with open("seen.json") as file:
        seen = json.load(file)
    assert seen["POLLKIT_ID"] == "job_1" and "CALLBACK_SECRET" not in seen


# The documentation


@posix
def test_the_commands_of_the_topic_send_a_valid_callback(api, address, started, monkeypatch):
    missing = [name for name in ("openssl", "curl") if shutil.which(name) is None]
    if missing:
        pytest.skip("%s is not installed" % missing[0])
    script = re.search(r"    body=.*?\n\n", text_of("callbacks"), re.DOTALL).group()
    add_jobs(api, "job_1")
    process = started()
    api.add("job_1", lasts=0.0)
    monkeypatch.setenv("HOOK_KEY", SECRET)
    subprocess.check_call(["sh", "-e", "-c", script.replace("127.0.0.1:8099", address)])
    assert wait_for_exit(process)[0] == 0
