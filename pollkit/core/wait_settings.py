"""What holds for a wait from its start to its end: pace, deadline, how much trouble to bear."""

from typing import NamedTuple, Optional

from .learning.durations import Durations
from .model import NEVER, Job
from .pace import Adaptive, Pace
from .profile import DEFAULT_TIMEOUT, Profile, to_pace, validate_profile
from .units import Duration, to_seconds

FOREVER = float("inf")


class Defaults(NamedTuple):
    """What applies if neither the profile nor the caller says otherwise."""

    timeout: float = 300.0
    max_faults: Optional[int] = 10  # None: retry until the deadline


DEFAULTS = Defaults()
# A ledger's jobs outlive processes and reboots, so they also wait out an outage of the API.
LEDGER_DEFAULTS = Defaults(timeout=24 * 3600.0, max_faults=None)


class WaitSettings(NamedTuple):
    """What holds for a wait from its start to its end."""

    pace: Pace = Adaptive()
    retry: Pace = to_pace(Profile().retry)
    timeout: Optional[float] = DEFAULTS.timeout
    max_faults: Optional[int] = DEFAULTS.max_faults  # in a row; None: retry until the deadline
    not_found_grace: float = 10.0
    retry_after_default: Optional[float] = None
    can_reauthorise: bool = False
    spacing: float = 0.0
    patience: float = 30.0  # how long after the deadline the last look may begin
    durations: Optional[Durations] = None  # of jobs of this kind; it may learn while jobs wait
    is_fresh: bool = False  # jobs are submitted just when their wait begins

    @classmethod
    def from_profile(
        cls,
        profile: Profile,
        spacing: float = 0.0,
        durations: Optional[Durations] = None,
        is_fresh: bool = False,
        defaults: Defaults = DEFAULTS,
    ) -> "WaitSettings":
        """The rules a profile lays down; `defaults` fill in what it leaves open."""
        profile = validate_profile(profile)
        max_faults = defaults.max_faults if profile.max_faults is None else profile.max_faults
        return cls(
            to_pace(profile.pace),
            to_pace(profile.retry),
            profile_timeout(profile, defaults),
            max_faults,
            to_seconds(profile.not_found_grace),
            _seconds(profile.retry_after_default),
            profile.auth is not None,
            spacing,
            to_seconds(profile.request_timeout),
            durations,
            is_fresh,
        )

    def deadline(self, job: Job, started_at: float) -> float:
        """When the wait for a job times out; the job's own timeout takes precedence."""
        if job.timeout is None:
            timeout = self.timeout
        elif job.timeout == NEVER:
            timeout = None
        else:
            timeout = to_seconds(job.timeout)
        return FOREVER if timeout is None else started_at + timeout


def profile_timeout(profile: Profile, defaults: Defaults = DEFAULTS) -> Optional[float]:
    """How long a job of that profile is waited for, in seconds; None: for ever."""
    return defaults.timeout if profile.timeout == DEFAULT_TIMEOUT else _seconds(profile.timeout)


def _seconds(value: Optional[Duration]) -> Optional[float]:
    return None if value is None else to_seconds(value)
