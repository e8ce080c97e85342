"""Endpoint: how the jobs of one profile and label are polled at one origin.

One poll passes through here twice: an Endpoint builds the request and hands it to its transport,
and it turns the reply into readings, from which it removes secrets.
"""

from typing import TYPE_CHECKING, List, NamedTuple, Optional, Set, Tuple

from ..core.machine import next_action
from ..core.model import FaultCode, Job
from ..core.origins import origin_text
from ..core.profile import Profile, fill_base
from ..core.reading.reader import Reader, Seen
from ..core.reading.verdict import Reading, Verdict
from ..core.units import NEVER
from ..core.urls import fill_ids, fill_template, parse_url, redact_url
from ..core.wait_settings import WaitSettings
from ..core.wait_state import Poll
from ..edges.history_file import Kind
from ..edges.http.request import Request
from ..edges.http.transport import Transport
from ..edges.limits.token_bucket import TokenBucket
from ..errors import ConfigError
from .publisher import INFO, is_logged, logger

if TYPE_CHECKING:
    from ..core.lane import Entry
    from ..edges.multiplexer import Finished, Steps

_MAX_REPORTED_ORIGINS = 100  # a server may invent new ones for ever
_WITHOUT_SERVER_TEXT = (Verdict.PENDING, Verdict.DONE)

Readings = Tuple[Reading, List[Reading]]  # of the reply as a whole, and of each job


def job_url(profile: Profile, job: Job) -> str:
    """The URL at which a job is polled, or a ConfigError."""
    if job.url:
        return job.url
    url = profile.url
    if not url:
        raise ConfigError("%r is not a URL, and no profile says where to find it" % job.id)
    if "{base}" in url:
        fill_base(profile)  # raises a ConfigError: the client fills in every base that is known
    values = {"id": job.id}
    if job.label is not None:
        values["label"] = job.label
    return fill_template(url, **values)


class Endpoint:
    """How the jobs of one profile and label are polled at one origin."""

    def __init__(
        self,
        profile: Profile,
        transport: Transport,
        *,
        origin: str,
        shown_origin: str,
        asks_many: bool,
        kind: Kind,
        bucket: TokenBucket,
        settings: WaitSettings,
    ) -> None:
        self.profile = profile
        self.transport = transport
        self.origin = origin  # the only one that gets credentials
        self.shown_origin = shown_origin  # the same in its usual form, for displays and outages
        self.asks_many = asks_many  # one request asks about many jobs
        self.kind = kind  # the name of these jobs in the duration history
        self.bucket = bucket
        self.settings = settings
        self.reader = Reader(profile)
        self._reported_origins: Set[str] = set()

    def request(self, poll: Poll) -> Request:
        """The request for one job."""
        return Request(poll.url, self.origin, poll.etag, poll.needs_fresh_credential, poll.is_moved)

    def place(self, job: Job, url: str = "") -> Tuple[object, Optional[str]]:
        """The URL and the profile of a job; two jobs with one id must agree in both."""
        return (url or job_url(self.profile, job), self.profile.name)

    def polled_origin(self, url: str) -> str:
        """The origin at which a job with this URL is polled, in its usual form."""
        if self.asks_many or url.startswith(self.shown_origin + "/"):
            return self.shown_origin
        return origin_text(parse_url(url))

    def batch_url(self, ids: List[str]) -> str:
        """The URL that asks about many jobs."""
        return fill_ids(self.profile.batch_url or "", ids)

    def poll(self, poll: Poll) -> Reading:
        """Poll one job in the caller's thread."""
        request = self.request(poll)
        reply = self.transport.fetch(request, self.settings.timeout)
        return self.read(reply, poll, request)

    def exchange(self, request: Request) -> "Steps[Seen]":
        """Send a request, for the multiplexer."""
        return self.transport.exchange(request, self.settings.timeout)

    def read(self, seen: Seen, poll: Poll, request: Request) -> Reading:
        """Read the reply to a request for one job."""
        reading = self.reader.read(seen, poll.is_moved, poll.is_accepted)
        has_link = reading.location is not None and reading.location != request.url
        if has_link and request.refused_link is not None:
            reading = self.reader.read(request.refused_link)
        if request.hops:
            reading = self._report_hops(reading, request)
        return self._scrub(reading, request.url)

    def read_many(self, seen: Seen, ids: List[str], request: Request) -> Readings:
        """Read the reply to a request for many jobs."""
        whole, readings = self.reader.read_many(seen, ids)
        if request.hops and readings:
            readings[0] = self._report_hops(readings[0], request)
        url = request.url
        return self._scrub(whole, url), [self._scrub(reading, url) for reading in readings]

    def _report_hops(self, reading: Reading, request: Request) -> Reading:
        """Log each redirect or link to another origin; the first to each becomes a warning."""
        for hop in request.hops:
            text = (
                "the server points to another origin, %s, which gets no credentials"
                % origin_text(hop)
            )
            if is_logged(INFO):
                line = "%s: %s" % (redact_url(request.url), text)
                logger().info("%s", self.transport.scrub(line, request.url))
            reported = self._reported_origins
            if hop.origin not in reported and len(reported) < _MAX_REPORTED_ORIGINS:
                reported.add(hop.origin)
                reading = reading._replace(warnings=reading.warnings + (text,))
        return reading

    def _scrub(self, reading: Reading, url: str) -> Reading:
        """Remove secrets from a reading: the server may have repeated them."""
        may_quote = reading.quotes_server or reading.verdict not in _WITHOUT_SERVER_TEXT
        if not may_quote and not reading.warnings:
            return reading

        def scrub(text: Optional[str]) -> Optional[str]:
            return text and self.transport.scrub(text, url)

        return reading._replace(
            because=self.transport.scrub(reading.because, url),
            status=scrub(reading.status),
            error_code=scrub(reading.error_code),
            error_message=scrub(reading.error_message),
            warnings=tuple(self.transport.scrub(warning, url) for warning in reading.warnings),
        )


class Target(NamedTuple):
    """A job, with its URL and the endpoint that polls it."""

    job: Job
    url: str
    endpoint: Endpoint

    def check(self) -> None:
        """Raise a ConfigError if the URL, its proxy or the credential can't be used."""
        endpoint = self.endpoint
        url = endpoint.batch_url([self.job.id]) if endpoint.asks_many else self.url
        endpoint.transport.check(url, endpoint.settings.timeout)


class PollInFlight(NamedTuple):
    """Jobs that are being polled with one request; `poll` is None if it asks about many."""

    entries: "List[Entry]"
    endpoint: Endpoint
    poll: Optional[Poll]
    request: Request

    @classmethod
    def from_entries(cls, entries: "List[Entry]") -> "PollInFlight":
        """The poll of jobs that the agenda dispatched together."""
        endpoint: Endpoint = entries[0].endpoint
        if endpoint.asks_many:
            is_fresh = any(entry.state.retry.needs_fresh_credential for entry in entries)
            url = endpoint.batch_url(_ids(entries))
            return cls(entries, endpoint, None, Request(url, endpoint.origin, None, is_fresh))
        poll = next_action(entries[0].state, NEVER)
        assert isinstance(poll, Poll)
        return cls(entries, endpoint, poll, endpoint.request(poll))

    def exchange(self) -> "Steps[Seen]":
        """Send the request, for the multiplexer."""
        return self.endpoint.exchange(self.request)

    def read(self, finished: "Finished") -> Readings:
        """Read the reply. After a bug every job gets a fault: otherwise it would wait for ever."""
        error = finished.error
        if error is None:
            try:
                if self.poll is None:
                    ids = _ids(self.entries)
                    return self.endpoint.read_many(finished.result, ids, self.request)
                reading = self.endpoint.read(finished.result, self.poll, self.request)
                return reading, [reading]
            except Exception as bug:
                error = bug
        logger().error("pollkit failed to poll %s", self.entries[0].state.job.id, exc_info=error)
        text = "pollkit failed: %s" % type(error).__name__
        reading = Reading(Verdict.FAULT, text, code=FaultCode.BUG)
        return reading, [reading] * len(self.entries)


def _ids(entries: "List[Entry]") -> List[str]:
    return [entry.state.job.id for entry in entries]
