"""The servers of scripts/soak.py: a job API that often fails, and squid; both as processes."""

import contextlib
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from typing import List

START_S = 30.0  # how long a server may take to start
SHARES = {"reset": 0.05, "5xx": 0.05, "html": 0.02, "hang": 0.01}
HANG_S = 5.0  # longer than a request may take
USER = "soak-user-4be1"
PASSWORD = "soak-password-93c7"
SQUID_SETTINGS = """
http_port 127.0.0.1:{port}
auth_param basic program {folder}/check
auth_param basic children 2
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
cache deny all
access_log none
cache_log {folder}/log
pid_filename {folder}/pid
coredump_dir {folder}
shutdown_lifetime 0 seconds
visible_hostname localhost
max_filedescriptors 4096
"""
CHECK_LOGIN = """#!/bin/sh
while read user password rest; do
    if [ "$user $password" = "{user} {password}" ]; then echo OK; else echo ERR; fi
done
"""


class ServerProcess:
    """A server in a process of its own, always at the same port."""

    def __init__(self) -> None:
        with contextlib.closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = "http://127.0.0.1:%d" % self.port
        self.start()

    def command(self) -> List[str]:
        """The command line of the server."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        self._process = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        give_up_at = time.monotonic() + START_S
        while time.monotonic() < give_up_at:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("%s does not start" % self.command()[0])

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it for good."""
        self.stop()


class FlakyServer(ServerProcess):
    """The job API. It keeps nothing in memory: the id of a job says when and how it ends."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        super().__init__()

    def command(self) -> List[str]:
        return [sys.executable, os.path.abspath(__file__), str(self.port), str(self._seed)]


class Squid(ServerProcess):
    """A squid that forwards everything for USER with PASSWORD."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._folder = tempfile.mkdtemp()
        os.chmod(self._folder, 0o777)  # squid gives up its rights if root starts it
        check = os.path.join(self._folder, "check")
        with open(check, "w") as file:
            file.write(CHECK_LOGIN.format(user=USER, password=PASSWORD))
        os.chmod(check, 0o755)
        super().__init__()
        self.proxy = "http://%s:%s@127.0.0.1:%d" % (USER, PASSWORD, self.port)

    def wants_a_login(self) -> bool:
        """Whether it refuses requests without one."""
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), 5)) as asking:
            asking.sendall(b"GET http://127.0.0.1:9/ HTTP/1.0\r\n\r\n")
            return b" 407 " in asking.recv(100)

    def command(self) -> List[str]:
        path = os.path.join(self._folder, "conf")
        with open(path, "w") as file:
            file.write(SQUID_SETTINGS.format(port=self.port, folder=self._folder))
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, "pid"))
        return [self._program, "-N", "-f", path]

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._folder, ignore_errors=True)


# The process of the job API


def serve(port: int, seed: int) -> None:
    """Answer requests, one thread per connection."""
    rng = random.Random(seed + os.getpid())
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(512)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve_connection, args=(connection, rng), daemon=True).start()


def _serve_connection(connection: socket.socket, rng: random.Random) -> None:
    with contextlib.suppress(OSError), contextlib.closing(connection):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                received = connection.recv(65536)
                if not received:
                    return
                data += received
            head, _, data = data.partition(b"\r\n\r\n")
            job = head.split(b" ")[1].rpartition(b"/")[2].decode("ascii")
            if not _answer(connection, job, rng.random()):
                return


def _answer(connection: socket.socket, job: str, chance: float) -> bool:
    """Answer one request; whether the connection can be used again."""
    for kind, share in SHARES.items():
        if chance < share:
            return _fail(connection, kind)
        chance -= share
    number, end_ms, state = job.split("-")
    body = {"status": "running"}
    if time.time() * 1000 >= int(end_ms):
        body = {"status": state, "result": {"number": int(number)}}  # type: ignore[dict-item]
        if state == "failed":
            error = {"message": "page " + number}
            body = {"status": state, "error": error}  # type: ignore[dict-item]
    _send(connection, "200 OK", json.dumps(body), "application/json")
    return True


def _fail(connection: socket.socket, kind: str) -> bool:
    if kind == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False
    if kind == "hang":
        time.sleep(HANG_S)
        return False
    status = "503 Busy" if kind == "5xx" else "200 OK"
    _send(connection, status, "<html><title>Sign in</title>", "text/html")
    return True


def _send(connection: socket.socket, status: str, body: str, content_type: str) -> None:
    head = "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    connection.sendall((head % (status, content_type, len(body)) + body).encode("ascii"))


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
