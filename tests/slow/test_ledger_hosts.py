"""Several hosts on one PostgreSQL: restarts of the server, and network namespaces as hosts."""

import collections
import contextlib
import os
import subprocess
import sys
import time

import pytest

import postgres_server
from job_api import JobApi
from ledger_host import folder, states
from ledger_place import Place, placed
from pollkit import Ledger
from raw_server import wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="for POSIX only")
RATE = 60
DELAY_S = 0.3  # of a request on a busy machine, from its token to the server


@pytest.fixture
def server():
    postgres_server.skip_unless_available()
    made = postgres_server.PostgresServer()
    yield made
    made.remove()


def check_limit(times, rate, burst):
    for i, begin in enumerate(times):
        for count, end in enumerate(times[i:], 1):
            assert count <= rate * (end - begin + DELAY_S) + burst, (begin, end, count)


def test_runs_survive_three_restarts_of_the_server(server):
    """Every outcome is written once, and every line at least once."""
    names = ["job_%d" % i for i in range(400)]
    url = server.new_database()
    with JobApi(lambda name, count: "done" if count >= 2 else "running") as api, folder() as path:
        place = Place(path, api.url, "limit = 150/s burst 5\n", url)
        place.add(names)
        runs = [place.start("run", url, "--outbox", "outbox", "--processes", "2") for _ in range(4)]
        for part in (200, 500, 800):
            wait_for(lambda part=part: len(api.asked) > part)
            server.restart(down_s=0.5)
        results = [run.communicate(timeout=120) + (run.returncode,) for run in runs]
        assert results == [("", "", 0)] * 4
        lines = collections.Counter(line["id"] for line in place.lines("outbox"))
        assert set(lines) == set(names)
        with Ledger(url) as ledger:
            assert states(ledger) == {"done": len(names)}
            assert ledger.summary().pending_notifications == 0
        check_limit(sorted(api.times), 150, 5)


# Network namespaces


class Host:
    """A network namespace with its own address, connected to this machine."""

    def __init__(self, number):
        self.name = "pollkit-%d-%d" % (os.getpid() % 10000, number)
        self.near = "pk%d-%d" % (os.getpid() % 10000, number)
        # Other suites may run on this machine, and two networks must not have the same addresses.
        network = "10.%d.%d" % (128 + os.getpid() // 256 % 128, os.getpid() % 256)
        self.gateway = "%s.%d" % (network, 4 * number + 1)
        self.address = "%s.%d" % (network, 4 * number + 2)

    def create(self):
        far = self.near + "f"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.near, "type", "veth", "peer", "name", far)
        run("ip", "link", "set", far, "netns", self.name)
        run("ip", "addr", "add", self.gateway + "/30", "dev", self.near)
        run("ip", "link", "set", self.near, "up")
        self.run("ip", "addr", "add", self.address + "/30", "dev", far)
        self.run("ip", "link", "set", far, "up")
        self.run("ip", "link", "set", "lo", "up")

    def remove(self):
        subprocess.call(["ip", "netns", "del", self.name], stderr=subprocess.DEVNULL)
        subprocess.call(["ip", "link", "del", self.near], stderr=subprocess.DEVNULL)

    def run(self, *words):
        run("ip", "netns", "exec", self.name, *words)

    def cut_off(self):
        run("ip", "link", "set", self.near, "down")


def run(*words):
    subprocess.check_output(words, stderr=subprocess.STDOUT)


@contextlib.contextmanager
def hosts(count):
    """Network namespaces; the test is skipped if this machine does not allow them."""
    made = [Host(number) for number in range(1, count + 1)]
    try:
        try:
            for host in made:
                host.create()
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip("no network namespaces here: %s" % error)
        yield made
    finally:
        for host in made:
            host.remove()


def relay(address, port):
    """Forward connections to an address of this machine to the same port of the loopback."""
    code = (
        "import socket, threading, sys\n"
        "def pump(a, b):\n"
        "    try:\n"
        "        for data in iter(lambda: a.recv(65536), b''): b.sendall(data)\n"
        "    except OSError: pass\n"
        "    for each in (a, b):\n"
        "        try: each.shutdown(2)\n"
        "        except OSError: pass\n"
        "server = socket.socket()\n"
        "server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "server.bind((sys.argv[1], int(sys.argv[2]))); server.listen(128)\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    near, _ = server.accept()\n"
        "    far = socket.create_connection(('127.0.0.1', int(sys.argv[2])))\n"
        "    for a, b in ((near, far), (far, near)):\n"
        "        threading.Thread(target=pump, args=(a, b), daemon=True).start()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, address, str(port)], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"ready\n"
    return process


def test_several_hosts_share_a_ledger_and_one_of_them_is_cut_off(server):
    """Its leases expire, and the others finish its jobs within the limit."""
    names = ["job_%d" % i for i in range(240)]
    database = server.new_database().rpartition("/")[2]
    with JobApi(lambda name, count: "done" if count >= 1 else "running") as api, hosts(
        3
    ) as machines, contextlib.ExitStack() as stack:
        place = stack.enter_context(placed(api, "limit = %d/s burst 3\n" % RATE))
        with Ledger(server.url(database)) as ledger:
            ledger.add([pollkit_job(name) for name in names])
        runs = []
        for number, host in enumerate(machines):
            for port in (server.port, api.port):
                process = relay(host.gateway, port)
                stack.callback(process.communicate)
                stack.callback(process.kill)
            runs.append(start_run(place, host, number, server.port, api.port, database))
        wait_for(lambda: len(api.asked) > 120)
        machines[0].cut_off()
        began = time.monotonic()
        for process in runs[1:]:
            assert process.communicate(timeout=150) + (process.returncode,) == ("", "", 0)
        assert time.monotonic() - began < 120
        out, err = runs[0].communicate(timeout=150)
        assert runs[0].returncode == 2 and "can't be reached" in err, (out, err)
        with Ledger(server.url(database)) as ledger:
            assert states(ledger) == {"done": len(names)}
            ((outcomes,),) = ledger._storage.database.query("SELECT count(*) FROM pollkit.outcome")
            assert outcomes == len(names)
        notified = {line["id"] for i in range(3) for line in place.lines("outbox %d" % i)}
        assert notified == set(names)
        check_limit(sorted(api.times), RATE, 3)


def pollkit_job(name):
    from pollkit import Job

    return Job(name, profile="fake")


def start_run(place, host, number, server_port, api_port, database):
    """A run in a network namespace; the servers have the address of its gateway."""
    path = place.file("%d.ini" % number)
    with open(place.env["POLLKIT_PROFILES"]) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace("127.0.0.1", host.gateway))
    url = "postgresql://%s@%s:%d/%s" % (postgres_server.USER, host.gateway, server_port, database)
    words = ["run", url, "--profiles", path, "--outbox", "outbox %d" % number]
    process = subprocess.Popen(
        ["ip", "netns", "exec", host.name, sys.executable, "-m", "pollkit", *words],
        cwd=place.path,
        env=dict(place.env, PATH="/usr/sbin:/usr/bin:/sbin:/bin"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    place.started.append(process)
    return process
