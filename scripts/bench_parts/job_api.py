"""A job API on loopback, fast enough not to be what is measured: one process, one selector.

GET /v1/jobs/ID is answered with a status as such APIs send it: 8 headers, some 300 bytes of
JSON, the job always running, or done if its id begins with `done`. Connections are kept open
unless the client says `close`.
"""

import contextlib
import functools
import json
import os
import selectors
import signal
import socket
import ssl
import subprocess
import sys
import threading
from typing import Dict, Iterator, NamedTuple, Optional

from .common import ROOT, Trouble, child_environment

HEAD = (
    "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 16 Nov 2025 09:30:00 GMT\r\n"
    "Content-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\nConnection: keep-alive\r\n"
    "Cache-Control: no-store\r\nX-Request-Id: 5f0c6f0e9b7d4a51\r\nX-RateLimit-Remaining: 57\r\n\r\n"
)
DATA = os.path.join(ROOT, "tests", "data")  # a server's certificate, and the CA that signed it


class Api(NamedTuple):
    """Where it listens; `ca_file` is what https clients have to trust."""

    http: str
    https: str
    ca_file: str
    pid: int

    def url(self, scheme: str, job: str) -> str:
        return "{}/v1/jobs/{}".format(self.https if scheme == "https" else self.http, job)


@contextlib.contextmanager
def serving() -> Iterator[Api]:
    """The API, in a process of its own for as long as the context lasts."""
    if not os.path.exists(os.path.join(DATA, "localhost.key")):
        raise Trouble("{} is missing: it has the certificate for https".format(DATA))
    process = subprocess.Popen(
        [sys.executable, "-m", "bench_parts.job_api"],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        ports = process.stdout.readline().split()
        if len(ports) != 2:
            raise Trouble("the job API did not start")
        yield Api(
            "http://127.0.0.1:{}".format(int(ports[0])),
            "https://127.0.0.1:{}".format(int(ports[1])),
            os.path.join(DATA, "ca.pem"),
            process.pid,
        )
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@functools.lru_cache(maxsize=4096)
def reply_to(target: bytes) -> bytes:
    """The whole reply about the job that the target names."""
    job = target.decode("ascii").rpartition("/")[2]
    body = json.dumps(
        {
            "job_id": job,
            "status": "done" if job.startswith("done") else "running",
            "source_type": "file",
            "model": "base",
            "created_at": "2025-11-16T09:28:41.310Z",
            "started_at": "2025-11-16T09:28:43.004Z",
            "finished_at": None,
            "progress": {"total_pages": 120, "processed_pages": 57},
            "result_url": None,
            "error": None,
        }
    )
    return (HEAD.format(len(body)) + body).encode("ascii")


class _Server:
    """Answers whatever is whole; a request may come in pieces, and several in one."""

    def __init__(self) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(
            os.path.join(DATA, "localhost.pem"), os.path.join(DATA, "localhost.key")
        )
        self._selector = selectors.DefaultSelector()
        self._partial: Dict[socket.socket, bytes] = {}

    def listen(self, context: Optional[ssl.SSLContext]) -> int:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(512)
        listener.setblocking(False)
        self._selector.register(
            listener, selectors.EVENT_READ, functools.partial(self._accept, listener, context)
        )
        port: int = listener.getsockname()[1]
        return port

    def run(self) -> None:
        print(self.listen(None), self.listen(self._tls), flush=True)
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _accept(self, listener: socket.socket, context: Optional[ssl.SSLContext]) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            # The first reads do the handshake.
            sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._selector.register(sock, selectors.EVENT_READ, functools.partial(self._serve, sock))

    def _serve(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(65536)
            going_on = bool(data)
            if sock in self._partial:
                data = self._partial.pop(sock) + data
            while going_on:
                head, end, data = data.partition(b"\r\n\r\n")
                if not end:
                    if head:
                        self._partial[sock] = head
                    break
                going_on = b"connection: close" not in head.lower()
                sock.sendall(reply_to(head.split(b" ", 2)[1]))
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError:
            going_on = False
        if not going_on:
            self._selector.unregister(sock)
            self._partial.pop(sock, None)
            sock.close()


def _end_with_parent() -> None:
    os.read(0, 1)  # nothing is ever written: it returns when the parent is gone
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _Server().run()
