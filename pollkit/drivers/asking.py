"""What every driver needs to ask an API about jobs: profile, rules, transport, events."""
import enum
import logging
import random
from typing import Any, Callable, Mapping, Optional, Union

from ..core import events, machine
from ..core.addresses import fill
from ..core.model import Job, Outcome
from ..core.pace import Pace
from ..core.profile import Profile, checked
from ..core.reading import Reader, Reading, Verdict
from ..edges.clock import Clock
from ..edges.token_bucket import TokenBucket
from ..edges.transport import Transport
from ..errors import ConfigError

log = logging.getLogger("pollkit")
log.addHandler(logging.NullHandler())

_LEVELS = {events.POLL: logging.DEBUG, events.PAUSE: logging.DEBUG, events.STATUS: logging.INFO,
           events.END: logging.INFO, events.FAULT: logging.WARNING, events.WARNING: logging.WARNING}

_QUIET = (Verdict.PENDING, Verdict.DONE)

OnEvent = Callable[[events.Event], object]


class Default(enum.Enum):
    """Says 'as the profile has it' where None already means something."""

    AS_PROFILE = "as the profile has it"


Timeout = Union[float, str, None, Default]


class Asker:
    """One API, and how it is asked."""

    def __init__(self, profile: Optional[Profile], pace: Union[Pace, str, None], timeout: Timeout,
                 headers: Optional[Mapping[str, str]], max_faults: Optional[int], on_event: Optional[OnEvent],
                 clock: Optional[Clock], rng: Optional[Callable[[], float]]) -> None:
        if on_event is not None and not callable(on_event):
            raise ConfigError("on_event must be callable, not %r" % (on_event,))
        if headers is not None and not isinstance(headers, Mapping):
            raise ConfigError("headers must be a mapping of names to values")
        self.profile = _settled(Profile() if profile is None else checked(profile), pace, timeout, max_faults)
        self.reader = Reader(self.profile)
        self.transport = Transport(self.profile, headers)
        self.clock = clock or Clock()
        self.rng = rng or random.random
        self._on_event = on_event

    def url(self, job: Job) -> str:
        """Where a job is asked about."""
        if job.url:
            return job.url
        if not self.profile.url:
            raise ConfigError("%r is not a URL, and no profile says where to find it" % job.id)
        values = {"id": job.id}
        if job.label is not None:
            values["label"] = job.label
        return fill(self.profile.url, **values)

    def fetch(self, poll: machine.Poll, home: str) -> Reading:
        """Ask about one job, and read the answer."""
        seen = self.transport.fetch(poll.url, home, poll.etag, poll.fresh_credential, poll.moved)
        return self.scrubbed(self.reader.read(seen, poll.moved, poll.accepted), poll.url)

    def scrubbed(self, reading: Reading, url: str) -> Reading:
        """A reading that repeats no secret, even where the server did."""
        if reading.verdict in _QUIET and not reading.warnings:
            return reading  # these quote nothing but a word that everybody knows

        def scrub(text: Optional[str]) -> Optional[str]:
            return text and self.transport.scrub(text, url)

        return reading._replace(
            because=self.transport.scrub(reading.because, url), status=scrub(reading.status),
            error_code=scrub(reading.error_code),
            error_message=scrub(reading.error_message),
            warnings=tuple(self.transport.scrub(warning, url) for warning in reading.warnings))

    def outcome(self, progress: machine.Progress) -> Outcome:
        """An ended wait as an Outcome."""
        return machine.outcome(progress, self.profile, self.clock.wall() - self.clock.now())

    @property
    def is_heard(self) -> bool:
        """Whether anybody wants to know of every event, and not of warnings and faults alone."""
        return self._on_event is not None or log.isEnabledFor(logging.INFO)

    def is_told(self, reading: Reading) -> bool:
        """Whether anybody wants to know of a poll that brought this."""
        return self.is_heard or bool(reading.warnings) or reading.verdict in events.TROUBLES

    def tell_poll(self, before: machine.Progress, after: machine.Progress, reading: Reading, now: float) -> None:
        """Tell whoever listens what a poll brought about."""
        if self.is_told(reading):
            for event in events.events(before, after, reading, now):
                self.tell(event)

    def tell(self, event: events.Event) -> None:
        """Tell whoever listens of an event."""
        level = _LEVELS[event.kind]
        if log.isEnabledFor(level):
            log.log(level, "%s", event)
        if self._on_event is not None:
            self._on_event(event)


def checked_bucket(bucket: Any) -> TokenBucket:
    """A bucket, or a ConfigError; text such as '60/m' belongs into the profile's limit."""
    if not isinstance(bucket, TokenBucket):
        raise ConfigError("bucket must be a TokenBucket, not %r" % (bucket,))
    return bucket


def _settled(profile: Profile, pace: Union[Pace, str, None], timeout: Timeout,
             max_faults: Optional[int]) -> Profile:
    """The profile with what was given besides it."""
    if pace is not None:
        profile = profile._replace(pace=pace)
    if not isinstance(timeout, Default):
        profile = profile._replace(timeout=timeout)
    if max_faults is not None:
        profile = profile._replace(max_faults=max_faults)
    return checked(profile)
