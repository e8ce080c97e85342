"""What every driver needs to ask an API about jobs: profile, rules, transport, events."""

import enum
import functools
import os
import random
import sys
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
    Union,
)

from ..core import events, wait_state
from ..core.learning.completions import observed_duration
from ..core.learning.durations import Durations
from ..core.model import Job, Outcome
from ..core.origins import credential_origins, origin_text
from ..core.pace import Adaptive, Pace
from ..core.profile import Profile, fill_base, profile_for_job, validate_profile
from ..core.reading.reader import Reader, Reading, Seen, Verdict
from ..core.units import Limit
from ..core.urls import fill_ids, fill_template, redact_url
from ..core.wait_settings import DEFAULTS, Defaults, WaitSettings, profile_timeout
from ..edges.clock import Clock
from ..edges.history_file import History, Kind
from ..edges.http.request import Request
from ..edges.http.transport import Transport
from ..edges.http.user_headers import validate_headers
from ..edges.limits.token_bucket import TokenBucket
from ..edges.multiplexer import Steps
from ..errors import ConfigError

if TYPE_CHECKING:
    import logging


_DEBUG, _INFO, _WARNING = 10, 20, 30  # as logging has them
_LEVELS = {
    events.POLL: _DEBUG,
    events.PAUSE: _DEBUG,
    events.STATUS: _INFO,
    events.END: _INFO,
    events.FAULT: _WARNING,
    events.WARNING: _WARNING,
}

# The fields of a profile that make it another conversation; what differs in others shares connections.
_CONNECTION = (
    "method",
    "body",
    "auth",
    "request_timeout",
    "ca_file",
    "client_cert",
    "client_key",
    "proxy",
    "tls_strict",
    "redirects",
)
_MOST_HOPS = 100  # redirects to other origins that are warned of: a server may invent new ones
_QUIET = (Verdict.PENDING, Verdict.DONE)

OnEvent = Callable[[events.Event], object]


@functools.lru_cache(maxsize=None)
def logger() -> "logging.Logger":
    """Where pollkit logs."""
    import logging

    logger = logging.getLogger("pollkit")
    logger.addHandler(logging.NullHandler())
    return logger


def is_logged(level: int) -> bool:
    """Whether anybody reads what is logged: nobody, while nobody has imported logging, which takes its time."""
    return "logging" in sys.modules and logger().isEnabledFor(level)


class Default(enum.Enum):
    """Says 'as the profile has it' where None already means something."""

    AS_PROFILE = "as the profile has it"


Timeout = Union[float, str, None, Default]


class Endpoint:
    """How the jobs of one profile and label are asked about."""

    def __init__(
        self, profile: Profile, label: Optional[str], transport: Transport, timeout: Optional[float]
    ) -> None:
        self.profile = profile
        self.label = label  # the profile need not know it
        self.reader = Reader(profile)
        self.transport = transport
        self._hops: Set[Tuple[str, str]] = set()  # redirects to other origins that were warned of
        self._timeout = timeout

    def url(self, job: Job) -> str:
        """Where a job is asked about."""
        if job.url:
            return job.url
        url = self.profile.url
        if not url:
            raise ConfigError("%r is not a URL, and no profile says where to find it" % job.id)
        if "{base}" in url:
            url = fill_base(self.profile).url or ""
        return fill_template(url, id=job.id, **({} if job.label is None else {"label": job.label}))

    def url_for_many(self, ids: List[str]) -> str:
        """Where many jobs are asked about at once."""
        return fill_ids(self.profile.batch_url or "", ids)

    def check(self, url: str) -> str:
        """The origin of a job's URL; a ConfigError where that, or the credential, is unusable."""
        return self.transport.check(url, self._timeout)

    def request(self, poll: wait_state.Poll, home: str) -> Request:
        """The request that asks about one job."""
        return Request(poll.url, home, poll.etag, poll.needs_fresh_credential, poll.is_moved)

    def request_for_many(self, ids: List[str], home: str, fresh_credential: bool) -> Request:
        """The request that asks about many jobs."""
        return Request(self.url_for_many(ids), home, None, fresh_credential)

    def exchange(self, request: Request) -> "Steps[Seen]":
        """Send a request, for the multiplexer."""
        return self.transport.exchange(request, self._timeout)

    def poll(self, poll: wait_state.Poll, home: str) -> Reading:
        """Poll one job and read the reply, in this thread."""
        request = self.request(poll, home)
        return self.read(self.transport.fetch(request, self._timeout), poll, request)

    def read(self, seen: Seen, poll: wait_state.Poll, request: Request) -> Reading:
        """What the reply to a request for one job says."""
        reading = self.reader.read(seen, poll.is_moved, poll.is_accepted)
        leads_on = reading.location is not None and reading.location != request.url
        if leads_on and request.refused_link is not None:
            reading = self.reader.read(request.refused_link)
        if request.hops:
            reading = self._with_hops(reading, request)
        return self._scrubbed(reading, request.url)

    def read_many(
        self, seen: Seen, ids: List[str], request: Request
    ) -> Tuple[Reading, List[Reading]]:
        """What the reply to a request for many jobs says: as a whole, and of each job."""
        heard, readings = self.reader.read_many(seen, ids)
        if request.hops and readings:
            readings[0] = self._with_hops(readings[0], request)
        url = request.url
        return self._scrubbed(heard, url), [self._scrubbed(reading, url) for reading in readings]

    def _with_hops(self, reading: Reading, request: Request) -> Reading:
        """Log each redirect or link to another origin, and warn of it the first time."""
        for hop in request.hops:
            text = (
                "the server points to another origin, %s, which gets no credentials"
                % origin_text(hop)
            )
            if is_logged(_INFO):
                logger().info(
                    "%s",
                    self.transport.scrub("%s: %s" % (redact_url(request.url), text), request.url),
                )
            if (request.home, hop.origin) not in self._hops and len(self._hops) < _MOST_HOPS:
                self._hops.add((request.home, hop.origin))
                reading = reading._replace(warnings=reading.warnings + (text,))
        return reading

    def _scrubbed(self, reading: Reading, url: str) -> Reading:
        """A reading that repeats no secret, even where the server did."""
        is_quiet = reading.verdict in _QUIET and not reading.warnings
        if is_quiet and not reading.quotes_server:
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


class Client:
    """The APIs of one driver, and how each is asked.

    `profile` speaks for every job that names none itself; names are looked up in `profiles`, too,
    an INI file. What is given besides goes before whatever a profile says.
    """

    def __init__(
        self,
        profile: Union[Profile, str, None],
        pace: Union[Pace, str, None],
        timeout: Timeout,
        headers: Optional[Mapping[str, str]],
        max_faults: Optional[int],
        on_event: Optional[OnEvent],
        clock: Optional[Clock],
        rng: Optional[Callable[[], float]],
        profiles: Optional[str] = None,
        history: Optional[History] = None,
        defaults: Defaults = DEFAULTS,
    ) -> None:
        if on_event is not None and not callable(on_event):
            raise ConfigError("on_event must be callable, not %r" % (on_event,))
        if rng is not None and not callable(rng):
            raise ConfigError(
                "rng must be callable, and give numbers from 0 to below 1, not %r" % (rng,)
            )
        if clock is not None and not hasattr(clock, "now"):
            raise ConfigError(
                "clock must be a Clock, such as pollkit.testing.VirtualClock, not %r" % (clock,)
            )
        if history is not None and not isinstance(history, History):
            raise ConfigError("history must be a History, not %r" % (history,))
        if profiles is not None and not isinstance(profiles, (str, os.PathLike)):
            raise ConfigError("profiles must be the name of a file, not %r" % (profiles,))
        if headers is not None and not isinstance(headers, Mapping):
            raise ConfigError("headers must be a mapping of names to values")
        self._given = _given(pace, timeout, max_faults)
        self._defaults = defaults
        self._headers = headers
        self._profiles_file = profiles
        self._profiles: Dict[Optional[str], Profile] = {}
        self._manners: Dict[Tuple[Optional[str], Optional[str]], Endpoint] = {}
        self._transports: Dict[Tuple[Any, ...], Transport] = {}
        if isinstance(profile, str):
            profile = self._named(profile)
        self._profiles[None] = Profile() if profile is None else validate_profile(profile)
        if (
            self._profiles[None].name is not None
        ):  # who names it means this one, with what was changed in it
            self._profiles[self._profiles[None].name] = self._profiles[None]
        self.clock = clock or Clock()
        self.rng = rng or random.random
        self._on_event = on_event
        self._history = history or History()
        self._offset = (
            self.clock.wall() - self.clock.now()
        )  # once: what began later shall never seem to be earlier
        self.default = self._manner(None, self._profiles[None], None)

    def manner(self, job: Job) -> Endpoint:
        """How a job is asked about."""
        if job.profile is None and job.label is None and job.size is None:
            return self.default
        if job.profile not in self._profiles:
            self._profiles[job.profile] = self._named(job.profile or "")
        return self._manner(
            job.profile,
            profile_for_job(self._profiles[job.profile], job.label, job.size),
            job.label,
        )

    def rules(self, manner: Endpoint, home: str, spacing: float) -> WaitSettings:
        """What holds for waits of that manner, at that origin; an adaptive pace learns from those that end."""
        learns = isinstance(manner.profile.pace, Adaptive)
        durations = self.durations(manner, home) if learns else None
        return WaitSettings.from_profile(
            manner.profile, spacing, durations, defaults=self._defaults
        )

    def durations(self, manner: Endpoint, home: str) -> Durations:
        """What is known of jobs of that manner, at that origin."""
        return self._history.durations(_kind(manner, home))

    def begin(self, manner: Endpoint, home: str) -> Optional[int]:
        """A wait of that manner begins; its turn to be learned from."""
        return self._history.begin(_kind(manner, home))

    def end(
        self, turn: Optional[int], manner: Endpoint, home: str, progress: wait_state.WaitState
    ) -> None:
        """It is over: remember how long its job took, for those that wait, where the pace learns, and for later."""
        self._history.end(
            _kind(manner, home),
            turn,
            progress.started_at + self._offset,
            observed_duration(progress, is_since_submitted=False),
        )

    def limit_of(self, name: Optional[str]) -> Union[Limit, str, None]:
        """The limit of a profile that is in use, for those of its labels that have none of their own."""
        return validate_profile(self._profiles[name if name in self._profiles else None]).limit

    def outcome(self, progress: wait_state.WaitState) -> Outcome:
        """An ended wait as an Outcome."""
        found = progress.outcome(self._profiles[None], self.clock.wall() - self.clock.now())
        return found if found.url is None else found._replace(url=self._scrubbed(found.url))

    def close(self) -> None:
        """Close the connections that nobody uses just now."""
        for transport in list(self._transports.values()):
            transport.close()

    def _scrubbed(self, text: str) -> str:
        for transport in list(self._transports.values()):
            text = transport.scrub(text, "")
        return text

    def _named(self, name: str) -> Profile:
        from ..edges.profiles.catalog import (
            find_profile,
        )  # late: who names no profile need not read any

        return find_profile(name, self._profiles_file)

    def _manner(self, name: Optional[str], profile: Profile, label: Optional[str]) -> Endpoint:
        label = label or profile.label
        key = name, label
        manner = self._manners.get(key)
        if manner is None:
            settled = validate_profile(profile._replace(**self._given))
            if settled.base is not None:
                settled = fill_base(settled)
            headers = validate_headers(settled.headers)
            connected = tuple(getattr(settled, field) for field in _CONNECTION) + (
                tuple(headers.items()),
                credential_origins(settled),
            )
            transport = self._transports.get(connected)
            if (
                transport is None
            ):  # setdefault: of two threads that come here at once, one has its way
                transport = self._transports.setdefault(
                    connected, Transport(settled, self._headers)
                )
            timeout = profile_timeout(settled, self._defaults)
            manner = self._manners.setdefault(key, Endpoint(settled, label, transport, timeout))
        return manner

    @property
    def is_heard(self) -> bool:
        """Whether anybody wants to know of every event, and not of warnings and faults alone."""
        return self._on_event is not None or is_logged(_INFO)

    def wants_events(self, reading: Reading) -> bool:
        """Whether anybody wants to know of a poll that brought this."""
        return self.is_heard or bool(reading.warnings) or reading.verdict in events.FAULT_VERDICTS

    def publish_poll(
        self,
        before: wait_state.WaitState,
        after: wait_state.WaitState,
        reading: Reading,
        now: float,
        rules: WaitSettings,
    ) -> None:
        """Tell whoever listens what a poll brought about."""
        if self.wants_events(reading):
            for event in self.events_of(before, after, reading, now, rules):
                self.tell(event)

    def events_of(
        self,
        before: wait_state.WaitState,
        after: wait_state.WaitState,
        reading: Reading,
        now: float,
        rules: WaitSettings,
    ) -> Iterator[events.Event]:
        """What a poll brought about, in order."""
        for event in events.poll_events(before, after, reading, now, rules):
            # A server may put into a link what it was sent.
            yield (
                event
                if after.url == before.url
                else event._replace(text=self._scrubbed(event.text))
            )

    def tell(self, event: events.Event) -> None:
        """Tell whoever listens of an event."""
        level = _LEVELS[event.kind]
        if is_logged(level):
            logger().log(level, "%s", event)
        if self._on_event is not None:
            self._on_event(event)


def validate_bucket(bucket: Any) -> TokenBucket:
    """A bucket, or a ConfigError; text such as '60/m' belongs into the profile's limit."""
    if not isinstance(bucket, TokenBucket):
        raise ConfigError("bucket must be a TokenBucket, not %r" % (bucket,))
    return bucket


def with_label(job: Job, manner: Endpoint) -> Job:
    """The job with the label that its size gave it, so that its outcome can tell."""
    return (
        job
        if job.label is not None or manner.profile.label is None
        else job._replace(label=manner.profile.label)
    )


def _kind(manner: Endpoint, home: str) -> Kind:
    return Kind(manner.profile.name or home, manner.label)


def _given(
    pace: Union[Pace, str, None], timeout: Timeout, max_faults: Optional[int]
) -> Dict[str, Any]:
    """What goes before whatever a profile says."""
    given: Dict[str, Any] = {}
    if pace is not None:
        given["pace"] = pace
    if not isinstance(timeout, Default):
        given["timeout"] = timeout
    if max_faults is not None:
        given["max_faults"] = max_faults
    return given
