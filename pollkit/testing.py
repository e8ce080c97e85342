"""For your own tests: a clock that you control, and a job API that runs inside the test.

Within pollkit, only the demo uses this module.
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
_ONE_JOB = re.compile(r"/jobs/([^/?]+)")
_MANY_JOBS = re.compile(r"/jobs\?ids=([^&]*)")


class Answer(NamedTuple):
    """The answer to a request; status 0 resets the connection."""

    status: int
    headers: Mapping[str, str]
    data: Any


class Request(NamedTuple):
    """A request that FakeJobApi received at `at`, on its clock.

    `status` is the HTTP status of its answer, 0 for a connection that was reset.
    """

    at: float
    path: str
    ids: Tuple[str, ...]
    headers: Mapping[str, str]
    status: int


class _PlannedFault:
    """An answer to a coming request: about one job, or about any if `job_id` is None."""

    def __init__(self, answer: Answer, job_id: Optional[str], request: int) -> None:
        self.answer = answer
        self.job_id = job_id
        self.requests_left = request

    def matches(self, ids: Tuple[str, ...]) -> bool:
        """Whether a request about these jobs counts."""
        return self.job_id is None or self.job_id in ids


class _Job(NamedTuple):
    added_at: float
    starts_at: float
    finishes_at: float
    pages: Optional[int]
    result: Any
    error: Optional[Mapping[str, Optional[str]]]


class FakeJobApi:
    """A job API on a loopback port, for tests of code that waits for jobs.

    A job finishes `lasts` seconds after it was added, on the clock that the API is given:

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

    `limit` ('20/s') is counted in fixed windows; above it the answer is a 429 with Retry-After.
    With a limit, every answer has RateLimit headers.
    """

    def __init__(
        self, limit: Union[str, Limit, None] = None, clock: Optional[Clock] = None
    ) -> None:
        self._limit = parse_limit(limit) if isinstance(limit, str) else limit
        self._clock = clock or Clock()
        self._jobs: Dict[str, _Job] = {}
        self._faults: List[_PlannedFault] = []
        self._window = 0.0  # the number of the current window of the limit
        self._used = 0  # requests in that window
        self._lock = threading.Lock()
        self.requests: List[Request] = []  #: every Request so far
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="fake-api", daemon=True
        )
        self.base = "http://127.0.0.1:%d" % self._server.server_address[1]  #: the base URL
        self.batch_url = self.base + "/jobs?ids={ids}"  #: for `batch_url` in a profile

    def __enter__(self) -> "FakeJobApi":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.stop()

    def add(
        self,
        job_id: str,
        lasts: Union[float, str] = 0.0,
        pages: Optional[int] = None,
        result: Any = None,
        fails: Optional[str] = None,
        *,
        code: Optional[str] = None,
        queued: Union[float, str] = 0.0,
    ) -> None:
        """Add a job that begins now, is pending for `queued`, and has finished after `lasts`.

        With `fails`, it fails with this message and the error code `code`; otherwise it is done,
        with `result`. With `pages`, it reports how many of them are processed.
        """
        now = self._clock.now()
        starts_at = now + to_seconds(queued, "queued")
        finishes_at = now + to_seconds(lasts, "lasts")
        error = None if fails is None else {"code": code, "message": fails}
        with self._lock:
            self._jobs[job_id] = _Job(now, starts_at, finishes_at, pages, result, error)

    def fault(
        self,
        what: Union[int, str],
        job_id: Optional[str] = None,
        request: int = 1,
        retry_after: Optional[float] = None,
    ) -> None:
        """Answer a coming request with an HTTP status such as 500, or reset it (`what="reset"`).

        This is the next request about `job_id`, or about any job if that is None; with
        `request=2` the second one from now, and so on.
        """
        is_status = isinstance(what, int) and 200 <= what <= 599
        if what != RESET and not is_status:
            raise ConfigError('a fault is an HTTP status or "reset", not %r' % (what,))
        status = 0 if what == RESET else int(what)
        headers = {} if retry_after is None else {"Retry-After": "%g" % retry_after}
        answer = Answer(status, headers, _error(str(what), "a fault on purpose"))
        with self._lock:
            self._faults.append(_PlannedFault(answer, job_id, request))

    def url(self, job_id: str) -> str:
        """The URL of a job."""
        return "%s/jobs/%s" % (self.base, quote(job_id, safe=""))

    @property
    def profile(self) -> Profile:
        """The profile of this API; change it with `_replace`."""
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

    def _answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        now = self._clock.now()
        with self._lock:
            ids = _ids_in(path)
            answer = self._next_fault(ids) or self._refuse_excess(now)
            if answer is None:
                answer = self._answer_jobs(path, ids, now)
            self.requests.append(Request(now, path, ids, headers, answer.status))
            return answer._replace(headers={**self._limit_headers(now), **answer.headers})

    def _next_fault(self, ids: Tuple[str, ...]) -> Optional[Answer]:
        matching = [fault for fault in self._faults if fault.matches(ids)]
        for fault in matching:
            fault.requests_left -= 1
        for fault in matching:
            if fault.requests_left <= 0:
                self._faults.remove(fault)
                return fault.answer
        return None

    def _refuse_excess(self, now: float) -> Optional[Answer]:
        """Count a request; a 429 if there are too many in this window."""
        if self._limit is None:
            return None
        window = now // self._limit.per
        if window != self._window:
            self._window = window
            self._used = 0
        self._used += 1
        if self._used <= self._limit.polls:
            return None
        headers = {"Retry-After": _seconds_left(now, self._limit.per)}
        return Answer(429, headers, _error("rate_limited", "too many requests"))

    def _limit_headers(self, now: float) -> Dict[str, str]:
        if self._limit is None:
            return {}
        return {
            "RateLimit-Limit": "%d" % self._limit.polls,
            "RateLimit-Reset": _seconds_left(now, self._limit.per),
            "RateLimit-Remaining": "%d" % max(0, self._limit.polls - self._used),
        }

    def _answer_jobs(self, path: str, ids: Tuple[str, ...], now: float) -> Answer:
        if path.startswith("/jobs?"):
            items = [self._describe(name, now) for name in ids if name in self._jobs]
            return Answer(200, {}, {"items": items})
        if not ids or ids[0] not in self._jobs:
            return Answer(404, {}, _error("not_found", "there is no such job"))
        return Answer(200, {}, self._describe(ids[0], now))

    def _describe(self, job_id: str, now: float) -> Dict[str, Any]:
        """The JSON of a job."""
        job = self._jobs[job_id]
        wall_offset = self._clock.wall() - self._clock.now()
        data: Dict[str, Any] = {"id": job_id, "created_at": iso_text(job.added_at + wall_offset)}
        fraction = max(0.0, now - job.starts_at) / max(1e-9, job.finishes_at - job.starts_at)
        if now >= job.finishes_at:
            fraction = 1.0
            data["status"] = "failed" if job.error else "done"
            data["finished_at"] = iso_text(job.finishes_at + wall_offset)
            data["error"] = job.error
            data["result"] = None if job.error else job.result
        elif now >= job.starts_at:
            data["status"] = "running"
        else:
            data["status"] = "pending"
        if job.pages:
            processed = int(fraction * job.pages)
            data["progress"] = {"processed_pages": processed, "total_pages": job.pages}
        return data


class _Server(ThreadingMixIn, TCPServer):
    """One thread per connection. Not an HTTPServer, which looks up the name of the host."""

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
        self.close_request(request)  # without the usual shutdown, which would undo a reset

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close their connection early."""

    def stop(self) -> None:
        """Close all connections, and wait for their threads."""
        self.server_close()
        for request, thread in list(self._open.items()):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
            thread.join(1.0)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # sends headers and body together
    server: _Server

    def do_GET(self) -> None:
        api = self.server.api
        received = {name.lower(): value for name, value in self.headers.items()}
        answer = api._answer(self.path, received)
        if answer.status == 0:
            self._reset()
            return
        body = json.dumps(answer.data).encode("utf-8")
        self.send_response_only(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "%d" % len(body))
        self.send_header("Date", self.date_time_string(api._clock.wall()))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        # During the reply: if it came before, clients might retry on another connection.
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        self.wfile.flush()
        linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        """Log nothing."""


def _ids_in(path: str) -> Tuple[str, ...]:
    names: List[str] = []
    many = _MANY_JOBS.match(path)
    one = _ONE_JOB.match(path)
    if many:
        names = many.group(1).split(",")
    elif one:
        names = [one.group(1)]
    return tuple(map(unquote, names))


def _seconds_left(now: float, per: float) -> str:
    """Whole seconds until the next window."""
    return "%d" % max(1, math.ceil(per - now % per))


def _error(code: str, message: str) -> Dict[str, Any]:
    return {"error": {"code": code, "message": message}}
