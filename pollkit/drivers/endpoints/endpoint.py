"""Endpoint: how the jobs of one profile and label are polled at one origin.

One poll passes through here twice: an Endpoint builds the request and hands it to its transport,
and it turns the reply into readings, from which it removes secrets.
"""

from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ...core.model import Job, display_id
from ...core.profiles.bodies import fill_batch_body, fill_body, has_id, has_placeholder, job_values
from ...core.profiles.hold_templates import NO_HOLD, without_hold
from ...core.profiles.origins import origin_text
from ...core.profiles.profile import Profile, fill_base
from ...core.reading.reader import Reader, Seen
from ...core.reading.verdict import Reading, Verdict
from ...core.urls import fill_ids, fill_template, has_ids, is_link_template, parse_url, redact_url
from ...core.waiting.ends.result_stage import template_url
from ...core.waiting.wait_settings import WaitSettings
from ...core.waiting.wait_state import Poll
from ...edges.clock import Clock
from ...edges.history_file import Kind
from ...edges.http.request import Request
from ...edges.http.transport import Transport
from ...edges.limits.token_bucket import TokenBucket
from ...edges.multiplexer import run
from ...errors import ConfigError
from ..publisher import INFO, is_logged, logger

if TYPE_CHECKING:
    from ...core.reading.result_reader import ResultReader
    from ...edges.multiplexer import Steps
    from ...edges.results.save_path import SavePath
    from .held_requests import HeldRequests

PENDING_FOR_UNKNOWN_IDS = "this API answers pending for ids that it does not know, too"
NOT_HELD = "the server does not hold polls, so they are ordinary ones from now on (help hold)"
ANY_NUMBER = 1000000  # of jobs in one request
_MAX_REPORTED_ORIGINS = 100  # a server may invent new ones for ever
_MAX_WARNINGS = 100
_WITHOUT_SERVER_TEXT = (Verdict.PENDING, Verdict.DONE)

Readings = Tuple[Reading, List[Reading]]  # of the reply as a whole, and of each job


def job_url(profile: Profile, job: Job) -> str:
    """The URL at which a job is polled, or a ConfigError."""
    if job.url:
        return job.url
    url = profile.url
    if not url:
        raise ConfigError(
            "%r is not a URL, and no profile has the URL for it: "
            "give the job's whole URL, or a profile with url" % job.id
        )
    if "{id}" not in url and not has_id(profile.body or ""):
        raise ConfigError(
            "the profile's url has no {id}, so it does not name the job %r: write {id} where "
            "the URL needs it, or in the body" % display_id(job)
        )
    if "{base}" in url:
        fill_base(profile)  # raises a ConfigError: the client fills in every base that is known
    if profile.hold is not None:
        url = without_hold(url)
    return fill_template(url, **job_values(job))


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
        save: "Optional[SavePath]" = None,
    ) -> None:
        self.profile = profile
        self.transport = transport
        self.origin = origin  # the only one that gets credentials
        self.shown_origin = shown_origin  # the same in its usual form, for displays and outages
        self.asks_many = asks_many  # one request asks about many jobs
        self.kind = kind  # the name of these jobs in the duration history
        self.bucket = bucket
        self.settings = settings
        self.save = save  # the files for the results of jobs
        self.reader = Reader(profile)
        self._results: "Optional[ResultReader]" = None
        self._reported_origins: Set[str] = set()
        self._warnings: Set[str] = set()
        self._has_body_per_job = has_placeholder(profile.body or "")
        self.pending_at: Dict[str, float] = {}  # jobs that a list lacks: when last found pending
        self._held: "Optional[HeldRequests]" = None
        if settings.holding is not None:
            from .held_requests import HeldRequests  # late: few servers hold polls

            self._held = HeldRequests(profile)

    def request(self, poll: Poll, job: Job, origin: Optional[str] = None) -> Request:
        """The request for one job; `origin` gets the credentials, if it is not that of all jobs."""
        if poll.is_result:
            return self._result_request(poll)
        if poll.is_cancel:
            return self.cancel_request(job, poll.url, poll.needs_fresh_credential)
        if self._held is not None:
            is_profile_url = poll.hold_s > 0.0 and poll.url == job_url(self.profile, job)
            return self._held.request(
                poll, self.origin if origin is None else origin, job_values(job), is_profile_url
            )
        return Request(
            poll.url,
            self.origin if origin is None else origin,
            poll.etag,
            poll.needs_fresh_credential,
            poll.is_moved,
            body=self.job_body(job),
        )

    def job_body(self, job: Job) -> Optional[bytes]:
        """The body of the request for one job, or a ConfigError; None if all have the same body."""
        if not self._has_body_per_job:
            return None
        return fill_body(self.profile.body or "", job_values(job)).encode("utf-8")

    def check_job(self, job: Job) -> None:
        """Raise a ConfigError if the job lacks a value for one of its requests, also later ones."""
        self.job_body(job)
        profile = self.profile
        templates = [profile.result_url]
        if profile.on_timeout == "cancel":
            templates.append(profile.cancel_url)
        if self._held is not None and job.url is None:
            templates.append(profile.hold_url)
        values = {**NO_HOLD, **job_values(job)}
        for template in templates:
            if template is not None and is_link_template(template):
                fill_template(template, **values)

    def _result_request(self, poll: Poll) -> Request:
        is_link = not is_link_template(self.profile.result_url or "")
        request = Request(
            poll.url,
            self.origin if is_link else self.trusted_origin_for(poll.url),
            fresh_credential=poll.needs_fresh_credential,
            method=b"GET",
            body=b"",
            link_from=self.origin + "/" if is_link else None,
        )
        request.follows_303 = True
        return request

    def cancel_request(self, job: Job, url: str, is_fresh: bool = False) -> Request:
        """The request to cancel a job, which is at this URL; a ConfigError without cancel_url."""
        template = self.profile.cancel_url
        if template is None:
            name = self.profile.name
            raise ConfigError(
                "%s can't be cancelled: %s has no cancel_url"
                % (
                    display_id(job),
                    "there is no profile, which" if name is None else "the profile " + name,
                )
            )
        cancel_url = template_url(template, job, url)
        return Request(
            cancel_url,
            self.trusted_origin_for(cancel_url),
            fresh_credential=is_fresh,
            method=self.profile.cancel_method.encode("ascii"),
            body=b"",
        )

    def trusted_origin_for(self, url: str) -> str:
        """The origin that gets credentials, for a URL that the profile names."""
        address = parse_url(url)
        is_listed = origin_text(address) in self.profile.origins
        return address.origin if is_listed else self.origin

    @property
    def results(self) -> "ResultReader":
        """Reads the replies to requests for results."""
        if self._results is None:
            from ...core.reading.result_reader import ResultReader  # late: few profiles need it

            self._results = ResultReader(self.profile)
        return self._results

    def batch_request(self, ids: List[str], is_fresh: bool) -> Request:
        """The request for many jobs."""
        url = fill_ids(self.profile.batch_url or "", ids)
        method = None
        body = None
        if self.profile.batch_body is not None:
            method = b"POST" if self.profile.method == "GET" else None
            body = fill_batch_body(self.profile.batch_body, ids).encode("utf-8")
        elif self._has_body_per_job:  # that body asks about one job
            method = b"GET"
            body = b""
        return Request(url, self.origin, None, is_fresh, method=method, body=body)

    @property
    def batch_size(self) -> int:
        """How many jobs one request asks about: any number if it lists all jobs."""
        if not self.asks_many:
            return 1
        templates = (self.profile.batch_url or "") + (self.profile.batch_body or "")
        return self.profile.batch_size if has_ids(templates) else ANY_NUMBER

    def is_first_warning(self, text: str) -> bool:
        """Whether a warning about these jobs has not been given before."""
        if text in self._warnings or len(self._warnings) >= _MAX_WARNINGS:
            return False
        self._warnings.add(text)
        return True

    def place(self, job: Job, url: str = "") -> Tuple[object, Optional[str]]:
        """The URL and the profile of a job; two jobs with one id must agree in both."""
        return (url or job_url(self.profile, job), self.profile.name)

    def polled_origin(self, url: str) -> str:
        """The origin at which a job with this URL is polled, in its usual form."""
        if self.asks_many or url.startswith(self.shown_origin + "/"):
            return self.shown_origin
        return origin_text(parse_url(url))

    def poll(self, poll: Poll, job: Job, clock: Clock) -> Reading:
        """Poll one job in the caller's thread, or fetch its result, or cancel it."""
        request = self.request(poll, job)
        if poll.is_result:
            request.may_block = True
            return run(self.fetch_result(request, job, clock))
        reply = self.transport.fetch(request, self.settings.timeout)
        return self.read(reply, poll, request)

    def exchange(self, request: Request) -> "Steps[Seen]":
        """Send a request, for the multiplexer."""
        return self.transport.exchange(request, self.settings.timeout)

    def fetch_result(self, request: Request, job: Job, clock: Clock) -> "Steps[Reading]":
        """Fetch the result of a done job, for the multiplexer."""
        from .results import fetch_result  # late: few profiles need it

        reading = yield from fetch_result(self, request, job, clock)
        if reading.verdict is Verdict.DONE:
            reading = self._without_repeats(reading)
        return self.scrub(reading, request.url)

    def read(self, seen: Seen, poll: Poll, request: Request) -> Reading:
        """Read the reply to a request for one job."""
        if poll.is_cancel:
            from ...core.reading.result_reader import read_cancel_reply  # late: it is rare

            return self.scrub(read_cancel_reply(seen), request.url)
        reading = self._without_repeats(self.reader.read(seen, poll.is_moved, poll.is_accepted))
        has_link = reading.location is not None and reading.location != request.url
        if has_link and request.refused_link is not None:
            reading = self.reader.read(request.refused_link)
        if request.hops:
            reading = self._report_hops(reading, request)
        is_pending = reading.verdict is Verdict.PENDING
        may_be_unknown = is_pending and self.profile.unknown_ids == "pending"
        if may_be_unknown and self.is_first_warning(PENDING_FOR_UNKNOWN_IDS):
            reading = reading._replace(warnings=reading.warnings + (PENDING_FOR_UNKNOWN_IDS,))
        if self._held is not None:
            reading = self._held.add_index(reading, seen)
            is_given_up = self.settings.holding is not None and self.settings.holding.is_given_up
            if is_given_up and self.is_first_warning(NOT_HELD):
                reading = reading._replace(warnings=reading.warnings + (NOT_HELD,))
        return self.scrub(reading, request.url)

    def read_many(
        self, pages: Sequence[Seen], ids: List[str], request: Request, is_complete: bool = True
    ) -> Readings:
        """Read the replies to a request for many jobs: the pages of a list."""
        whole, readings = self.reader.read_many(pages, ids, is_complete)
        readings = [self._without_repeats(reading) for reading in readings]
        if request.hops and readings:
            readings[0] = self._report_hops(readings[0], request)
        url = request.url
        return self.scrub(whole, url), [self.scrub(reading, url) for reading in readings]

    def _without_repeats(self, reading: Reading) -> Reading:
        """A reading without the warnings that another job has given: most concern the server."""
        if not reading.warnings:
            return reading
        return reading._replace(warnings=tuple(filter(self.is_first_warning, reading.warnings)))

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

    def scrub(self, reading: Reading, url: str) -> Reading:
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
        """Raise a ConfigError if the URL, the body, the proxy or the credential can't be used."""
        endpoint = self.endpoint
        endpoint.check_job(self.job)
        url = self.url
        if endpoint.asks_many:
            url = endpoint.batch_request([self.job.id], is_fresh=False).url
        endpoint.transport.check(url, endpoint.settings.timeout)
