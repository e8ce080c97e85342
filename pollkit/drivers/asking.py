"""What every driver needs to ask an API about jobs: profile, rules, transport, events."""
import enum
import logging
import random
from typing import Callable, Mapping, Optional, Union

from ..core import events, machine
from ..core.addresses import fill
from ..core.model import Job, Outcome
from ..core.pace import Pace, parse_pace
from ..core.profile import Profile
from ..core.reading import Reader, Reading, Verdict
from ..core.units import seconds
from ..edges.clock import Clock
from ..edges.transport import Transport
from ..errors import ConfigError

log = logging.getLogger("pollkit")
log.addHandler(logging.NullHandler())

_LEVELS = {events.POLL: logging.DEBUG, events.PAUSE: logging.DEBUG, events.STATUS: logging.INFO,
           events.END: logging.INFO, events.FAULT: logging.WARNING, events.WARNING: logging.WARNING}

_QUIET = (Verdict.PENDING, Verdict.DONE)  # these quote nothing but a status word

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
        if profile is not None and not isinstance(profile, Profile):
            raise ConfigError("profile must be a pollkit.Profile, not %r" % (profile,))
        self.profile = _settled(profile or Profile(), pace, timeout, max_faults)
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
        seen = self.transport.fetch(poll.url, home, poll.etag, poll.fresh_credential)
        return self.scrubbed(self.reader.read(seen, poll.moved), poll.url)

    def scrubbed(self, reading: Reading, url: str) -> Reading:
        """A reading that repeats no secret, even where the server did."""
        if reading.verdict in _QUIET:
            return reading
        message = reading.error_message
        return reading._replace(because=self.transport.scrub(reading.because, url),
                                error_message=message and self.transport.scrub(message, url))

    def outcome(self, progress: machine.Progress) -> Outcome:
        """An ended wait as an Outcome."""
        return machine.outcome(progress, self.profile, self.clock.wall() - self.clock.now())

    @property
    def is_heard(self) -> bool:
        """Whether anybody wants to know of events."""
        return self._on_event is not None or log.isEnabledFor(logging.INFO)

    def tell_poll(self, before: machine.Progress, after: machine.Progress, reading: Reading, now: float) -> None:
        """Tell whoever listens what a poll brought about."""
        if self.is_heard:
            for event in events.events(before, after, reading, now):
                self.tell(event)

    def tell(self, event: events.Event) -> None:
        """Tell whoever listens of an event."""
        level = _LEVELS[event.kind]
        if log.isEnabledFor(level):
            log.log(level, "%s", event)
        if self._on_event is not None:
            self._on_event(event)


def _settled(profile: Profile, pace: Union[Pace, str, None], timeout: Timeout,
             max_faults: Optional[int]) -> Profile:
    """The profile with what was given besides it."""
    if pace is not None:
        profile = profile._replace(pace=parse_pace(pace) if isinstance(pace, str) else pace)
    if not isinstance(timeout, Default):
        profile = profile._replace(timeout=None if timeout is None else seconds(timeout, "timeout"))
    if max_faults is not None:
        if max_faults < 1:
            raise ConfigError("max_faults must be at least 1, not %r" % max_faults)
        profile = profile._replace(max_faults=max_faults)
    return profile
