"""For your own tests: a clock that you control, and a job API that runs inside the test.

Within pollkit, only the demo uses this module.
"""

import json
import re
import threading
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote, unquote

from .core.model import iso_text
from .core.profiles.profile import Profile
from .core.units import Limit, parse_limit, to_seconds
from .drivers.simulation.server import FixedWindow, seconds_left
from .edges.clock import Clock, VirtualClock
from .errors import ConfigError
from .testing_server import Answer, ApiServer

__all__ = ["FakeJobApi", "Request", "VirtualClock"]

RESET = "reset"
_ONE_JOB = re.compile(r"/jobs/([^/?]+)")
_WAIT = re.compile(r"\bwait=([0-9]{1,4})\b")
_MANY_JOBS = re.compile(r"/jobs\?ids=([^&]*)")


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

    A POST to /jobs adds a job, too: its JSON has `lasts`, `result` and `fails` as for `add`. One
    that repeats an Idempotency-Key gets the same job again.

    `limit` ('20/s', or '20/s, 500/h') is counted in fixed windows; above it the answer is a 429
    with Retry-After. With a limit, every answer has RateLimit headers of the shortest period.

    A request with `Prefer: wait=25` is held until the job has finished, for up to 25 seconds. On a
    VirtualClock, time moves on at once:

    >>> with FakeJobApi(clock=clock) as api:
    ...     profile = api.profile._replace(hold="25s", headers={"Prefer": "wait={hold}"})
    ...     api.add("job_3", lasts="20s")
    ...     outcome = pollkit.Poller(profile, clock=clock).poll("job_3")
    >>> outcome.polls, outcome.notice_delay_s
    (2, 0.0)
    """

    def __init__(
        self, limit: Union[str, Limit, None] = None, clock: Optional[Clock] = None
    ) -> None:
        self._limit = parse_limit(limit) if isinstance(limit, str) else limit
        self._clock = clock or Clock()
        self._jobs: Dict[str, _Job] = {}
        self._ids_by_key: Dict[str, str] = {}  # of submitted jobs
        self._faults: List[_PlannedFault] = []
        parts = () if self._limit is None else self._limit.parts
        self._windows = [FixedWindow(part) for part in parts]
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.requests: List[Request] = []  #: every Request so far
        self._server = ApiServer(self._answer, self._clock)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="fake-api", daemon=True
        )
        self.base = "http://127.0.0.1:%d" % self._server.server_address[1]  #: the base URL
        self.batch_url = self.base + "/jobs?ids={ids}"  #: for `batch_url` in a profile

    def __enter__(self) -> "FakeJobApi":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
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
            submit_url=self.base + "/jobs",
            submit_id="id",
            idempotency_header="Idempotency-Key",
        )

    def _answer(
        self, path: str, headers: Mapping[str, str], body: Optional[bytes] = None
    ) -> Answer:
        """The answer to a request, which is a POST if it has a body."""
        ids = _ids_in(path)
        self._hold(ids, headers.get("prefer", ""))
        now = self._clock.now()
        with self._lock:
            answer = self._next_fault(ids) or self._refuse_excess(now)
            if answer is None:
                answer = self._answer_jobs(path, ids, now)
                if body is not None:
                    answer = self._add_submitted(headers.get("idempotency-key", ""), body, now)
            self.requests.append(Request(now, path, ids, headers, answer.status))
            return answer._replace(headers={**self._limit_headers(now), **answer.headers})

    def _hold(self, ids: Tuple[str, ...], preference: str) -> None:
        """Hold a request about one unfinished job for as long as it asks for (RFC 7240, 4.3)."""
        asked = _WAIT.search(preference)
        job = self._jobs.get(ids[0]) if len(ids) == 1 else None
        if asked is None or job is None:
            return
        latest = self._clock.now() + int(asked.group(1))
        self._clock.sleep_until(min(latest, job.finishes_at), self._stopping)

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
        retry_after = max((window.retry_after(now) or 0 for window in self._windows), default=0)
        if not retry_after:
            return None
        headers = {"Retry-After": "%d" % retry_after}
        return Answer(429, headers, _error("rate_limited", "too many requests"))

    def _limit_headers(self, now: float) -> Dict[str, str]:
        if self._limit is None:
            return {}
        return {
            "RateLimit-Limit": "%d" % self._limit.polls,
            "RateLimit-Reset": "%d" % seconds_left(now, self._limit.per),
            "RateLimit-Remaining": "%d" % self._windows[0].left,
        }

    def _add_submitted(self, key: str, body: bytes, now: float) -> Answer:
        """Add the job of a POST, unless the key is known already."""
        try:
            fields = json.loads(body.decode("utf-8") or "{}")
            lasts = to_seconds(fields.get("lasts", 0.0), "lasts")
        except (AttributeError, ValueError) as error:
            return Answer(422, {}, _error("bad_job", str(error)))
        job_id = self._ids_by_key.get(key, "job_%d" % (len(self._jobs) + 1))
        if key:
            self._ids_by_key[key] = job_id
        if job_id not in self._jobs:
            fails = fields.get("fails")
            reason = None if fails is None else {"code": None, "message": fails}
            self._jobs[job_id] = _Job(now, now, now + lasts, None, fields.get("result"), reason)
        return Answer(202, {}, {"id": job_id, "status": "pending"})

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


def _ids_in(path: str) -> Tuple[str, ...]:
    names: List[str] = []
    many = _MANY_JOBS.match(path)
    one = _ONE_JOB.match(path)
    if many:
        names = many.group(1).split(",")
    elif one:
        names = [one.group(1)]
    return tuple(map(unquote, names))


def _error(code: str, message: str) -> Dict[str, Any]:
    return {"error": {"code": code, "message": message}}
