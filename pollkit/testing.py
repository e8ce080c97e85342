"""For your own tests: a clock that you move, and a job API that runs inside the test.

Nothing in pollkit imports this, save the demo.
"""

import json
import math
import os
import re
import socket
import struct
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote, unquote

from .core.model import iso_text
from .core.profile import Profile
from .core.units import Limit, parse_limit, to_seconds
from .edges.clock import Clock, VirtualClock
from .errors import ConfigError

__all__ = ["FakeJobApi", "Request", "VirtualClock"]

RESET = "reset"
_ONE, _MANY = re.compile(r"/jobs/([^/?]+)"), re.compile(r"/jobs\?ids=([^&]*)")

Answer = Tuple[
    int, Mapping[str, str], Any
]  # status, headers, data; status 0: the connection is reset


class Request(NamedTuple):
    """What FakeJobApi was asked, when (on its clock), and the HTTP status it answered with; 0 for a reset."""

    at: float
    path: str
    ids: Tuple[str, ...]
    headers: Mapping[str, str]
    status: int


class _Job(NamedTuple):
    begins_at: float
    starts_at: float
    ends_at: float
    pages: Optional[int]
    result: Any
    error: Optional[Mapping[str, Optional[str]]]


class FakeJobApi:
    """A job API on a loopback port, for tests of code that waits for jobs.

    Its jobs end by themselves, `lasts` seconds after they were added, by the clock it is given:

    >>> import pollkit
    >>> clock = VirtualClock()                          # minutes pass at once
    >>> with FakeJobApi(clock=clock) as api, pollkit.Poller(api.profile, clock=clock) as poller:
    ...     api.add("job_1", lasts="2m", pages=40, result={"words": 9000})
    ...     api.add("job_2", lasts="1m", fails="bad input")
    ...     api.fault("reset", "job_1")                 # the next request about job_1
    ...     api.fault(500, "job_1", request=2)          # the one after that
    ...     one, two = poller.poll("job_1"), poller.poll("job_2")
    >>> one.state.value, one.result, one.faults
    ('done', {'words': 9000}, 2)
    >>> two.state.value, two.error.message, two.polls
    ('failed', 'bad input', 1)
    >>> [request.status for request in api.requests][:3]
    [0, 500, 200]

    `limit` ('20/s') is counted in fixed windows; past it the answer is a 429 with Retry-After,
    and every answer has RateLimit headers.
    """

    def __init__(
        self, limit: Union[str, Limit, None] = None, clock: Optional[Clock] = None
    ) -> None:
        self._limit = parse_limit(limit) if isinstance(limit, str) else limit
        self._clock = clock or Clock()
        self._jobs: Dict[str, _Job] = {}
        self._faults: List[
            Tuple[Answer, Optional[str], int]
        ] = []  # for which job, and how many requests away
        self._window, self._used = 0.0, 0
        self._lock = threading.Lock()
        self.requests: List[Request] = []  #: every Request so far
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="fake-api", daemon=True
        )
        self.base = "http://127.0.0.1:%d" % self._server.server_address[1]  #: where it listens
        self.batch_url = (
            self.base + "/jobs?ids={ids}"
        )  #: answers for many jobs; may go into a profile

    def __enter__(self) -> "FakeJobApi":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.end()

    def add(
        self,
        job_id: str,
        lasts: Union[float, str] = 0.0,
        pages: Optional[int] = None,
        result: Any = None,
        fails: Optional[str] = None,
        code: Optional[str] = None,
        queued: Union[float, str] = 0.0,
    ) -> None:
        """Begin a job now: pending for `queued`, over after `lasts`; it `fails` with these words, if there are any.

        A job with `pages` tells how many of them are processed; without, it reports no progress.
        """
        now = self._clock.now()
        error = None if fails is None else {"code": code, "message": fails}
        job = _Job(
            now,
            now + to_seconds(queued, "queued"),
            now + to_seconds(lasts, "lasts"),
            pages,
            result,
            error,
        )
        with self._lock:
            self._jobs[job_id] = job

    def fault(
        self,
        what: Union[int, str],
        job_id: Optional[str] = None,
        request: int = 1,
        retry_after: Optional[float] = None,
    ) -> None:
        """Answer a coming request with an HTTP status such as 500, or with "reset": a broken connection.

        It is the next request (or with `request` the second, third, … from now), counting those
        about one job, or without `job_id` all of them.
        """
        if what != RESET and not (isinstance(what, int) and 200 <= what <= 599):
            raise ConfigError('a fault is an HTTP status or "reset", not %r' % (what,))
        headers = {} if retry_after is None else {"Retry-After": "%g" % retry_after}
        answer: Answer = (
            0 if what == RESET else int(what),
            headers,
            _error(str(what), "a fault on purpose"),
        )
        with self._lock:
            self._faults.append((answer, job_id, request))

    def url(self, job_id: str) -> str:
        """Where a job is asked about."""
        return "%s/jobs/%s" % (self.base, quote(job_id, safe=""))

    @property
    def profile(self) -> Profile:
        """How this API speaks; `_replace` what you want otherwise."""
        return Profile(
            name="fake",
            url=self.base + "/jobs/{id}",
            status="status",
            done=("done",),
            failed=("failed",),
            result="result",
            error="error.message",
            error_code="error.code",
            progress="progress.processed_pages / progress.total_pages",
            created="created_at",
            finished="finished_at",
            limit=self._limit,
            proxy="none",
        )

    def _reply(self, path: str, headers: Mapping[str, str]) -> Answer:
        now = self._clock.now()
        with self._lock:
            ids = _ids_in(path)
            status, more, data = (
                self._faulty(ids) or self._limited(now) or self._answer(path, ids, now)
            )
            self.requests.append(Request(now, path, ids, headers, status))
            return status, {**self._quota(now), **more}, data

    def _faulty(self, ids: Tuple[str, ...]) -> Optional[Answer]:
        self._faults = [
            (answer, job_id, left - (job_id is None or job_id in ids))
            for answer, job_id, left in self._faults
        ]
        due = next(
            (
                i
                for i, (_, job_id, left) in enumerate(self._faults)
                if left <= 0 and (job_id is None or job_id in ids)
            ),
            None,
        )
        return None if due is None else self._faults.pop(due)[0]

    def _limited(self, now: float) -> Optional[Answer]:
        if self._limit is None:
            return None
        window = now // self._limit.per
        self._used = 1 if window != self._window else self._used + 1
        self._window = window
        if self._used <= self._limit.polls:
            return None
        return (
            429,
            {"Retry-After": _left(now, self._limit.per)},
            _error("rate_limited", "too many requests"),
        )

    def _quota(self, now: float) -> Dict[str, str]:
        if self._limit is None:
            return {}
        return {
            "RateLimit-Limit": "%d" % self._limit.polls,
            "RateLimit-Reset": _left(now, self._limit.per),
            "RateLimit-Remaining": "%d" % max(0, self._limit.polls - self._used),
        }

    def _answer(self, path: str, ids: Tuple[str, ...], now: float) -> Answer:
        if path.startswith("/jobs?"):
            return 200, {}, {"items": [self._said(name, now) for name in ids if name in self._jobs]}
        if not ids or ids[0] not in self._jobs:
            return 404, {}, _error("not_found", "there is no such job")
        return 200, {}, self._said(ids[0], now)

    def _said(self, job_id: str, now: float) -> Dict[str, Any]:
        """A job as the API tells of it."""
        job = self._jobs[job_id]
        wall = self._clock.wall() - self._clock.now()
        over = now >= job.ends_at
        status = (
            ("failed" if job.error else "done")
            if over
            else "running"
            if now >= job.starts_at
            else "pending"
        )
        said: Dict[str, Any] = {
            "id": job_id,
            "status": status,
            "created_at": iso_text(job.begins_at + wall),
        }
        if job.pages:
            share = (
                1.0
                if over
                else max(0.0, now - job.starts_at) / max(1e-9, job.ends_at - job.starts_at)
            )
            said["progress"] = {"processed_pages": int(share * job.pages), "total_pages": job.pages}
        if over:
            said.update(
                finished_at=iso_text(job.ends_at + wall),
                error=job.error,
                result=None if job.error else job.result,
            )
        return said


class _Server(ThreadingMixIn, TCPServer):
    """A thread a connection. TCPServer, because HTTPServer asks DNS for the name of the host."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, api: FakeJobApi) -> None:
        self.api = api
        self._open: Dict[socket.socket, threading.Thread] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="fake-api-connection",
            daemon=True,
        )
        self._open[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        self.close_request(request)  # without the usual shutdown: a reset must come as one

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""

    def end(self) -> None:
        """Close it all, and wait for the threads."""
        self.server_close()
        for request, thread in list(self._open.items()):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
            thread.join(1.0)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one piece
    server: _Server

    def do_GET(self) -> None:
        api = self.server.api
        status, headers, data = api._reply(
            self.path, {name.lower(): value for name, value in self.headers.items()}
        )
        if not status:
            self._reset()
            return
        body = json.dumps(data).encode("utf-8")
        self.send_response_only(status)
        for name, value in [
            ("Content-Type", "application/json"),
            ("Content-Length", "%d" % len(body)),
            ("Date", self.date_time_string(api._clock.wall())),
        ] + list(headers.items()):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        # Within a reply: before it, clients may quietly try again on another connection.
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        self.wfile.flush()
        linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        """Quiet."""


def _ids_in(path: str) -> Tuple[str, ...]:
    many, one = _MANY.match(path), _ONE.match(path)
    names = many.group(1).split(",") if many else [one.group(1)] if one else []
    return tuple(unquote(name) for name in names)


def _left(now: float, per: float) -> str:
    """Whole seconds to the next window."""
    return "%d" % max(1, math.ceil(per - now % per))


def _error(code: str, message: str) -> Dict[str, Any]:
    return {"error": {"code": code, "message": message}}
