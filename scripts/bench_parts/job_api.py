"""A job API on loopback, faster than all clients: one process with one selector.

It answers GET /v1/jobs/ID as such APIs do: 8 headers and about 300 bytes of JSON. The job is always
running, or done if its id begins with `done`. Connections are kept open unless the client sends
`Connection: close`.
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

from .common import ROOT, Failure, child_environment

HEAD = (
    "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 16 Nov 2025 09:30:00 GMT\r\n"
    "Content-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\n"
    "Connection: keep-alive\r\nCache-Control: no-store\r\nX-Request-Id: 5f0c6f0e9b7d4a51\r\n"
    "X-RateLimit-Remaining: 57\r\n\r\n"
)
DATA = os.path.join(ROOT, "tests", "data")  # the server's certificate, and its CA


class Api(NamedTuple):
    """The addresses of the server; https clients must trust `ca_file`."""

    http: str
    https: str
    ca_file: str
    pid: int

    def url(self, scheme: str, job: str) -> str:
        """The URL of a job."""
        return "{}/v1/jobs/{}".format(self.https if scheme == "https" else self.http, job)


@contextlib.contextmanager
def run_job_api() -> Iterator[Api]:
    """Run the API in a separate process while the context lasts."""
    if not os.path.exists(os.path.join(DATA, "localhost.key")):
        raise Failure("{} is missing; the certificate for https is in it".format(DATA))
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
            raise Failure("the job API did not start")
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
    """The reply about the job that the target of a request names."""
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
    """Answers complete requests; one may arrive in pieces, and several at once."""

    def __init__(self) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(
            os.path.join(DATA, "localhost.pem"), os.path.join(DATA, "localhost.key")
        )
        self._selector = selectors.DefaultSelector()
        self._partial: Dict[socket.socket, bytes] = {}

    def _listen(self, context: Optional[ssl.SSLContext]) -> int:
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
        """Print the ports for http and https, and serve forever."""
        print(self._listen(None), self._listen(self._tls), flush=True)
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
            is_open = bool(data)
            if sock in self._partial:
                data = self._partial.pop(sock) + data
            while is_open:
                head, end, data = data.partition(b"\r\n\r\n")
                if not end:
                    if head:
                        self._partial[sock] = head
                    break
                is_open = b"connection: close" not in head.lower()
                sock.sendall(reply_to(head.split(b" ", 2)[1]))
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError:
            is_open = False
        if not is_open:
            self._selector.unregister(sock)
            self._partial.pop(sock, None)
            sock.close()


def _exit_with_parent() -> None:
    os.read(0, 1)  # returns when the parent has exited, because it never writes anything
    os._exit(0)


if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the parent, which kills this process
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    _Server().run()
