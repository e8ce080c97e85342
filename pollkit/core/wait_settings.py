"""The settings of a wait: its pace, its timeout, and how many faults it tolerates."""

from typing import NamedTuple, Optional

from .learning.durations import Durations
from .model import NO_TIMEOUT, Job
from .pace import Adaptive, Pace
from .profile import DEFAULT_TIMEOUT, Profile, to_pace, validate_profile
from .units import NEVER, Duration, to_seconds


class Defaults(NamedTuple):
    """The values that apply if neither the profile nor the caller sets others."""

    timeout: float = 300.0
    max_faults: Optional[int] = 10  # None: retry until the deadline


DEFAULTS = Defaults()
# A ledger's jobs outlive processes and reboots, so they also wait out an outage of the API.
LEDGER_DEFAULTS = Defaults(timeout=24 * 3600.0, max_faults=None)


class WaitSettings(NamedTuple):
    """The settings of a wait, which stay the same from its start to its end."""

    pace: Pace = Adaptive()
    retry: Pace = to_pace(Profile().retry)
    timeout: Optional[float] = DEFAULTS.timeout
    max_faults: Optional[int] = DEFAULTS.max_faults  # in a row; None: retry until the deadline
    not_found_grace: float = 10.0
    retry_after_default: Optional[float] = None
    can_reauthorise: bool = False
    spacing: float = 0.0  # seconds that the rate limit always keeps between two polls
    patience: float = 30.0  # the final poll may begin so many seconds after the deadline
    durations: Optional[Durations] = None  # of past jobs; more may be added during the wait
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
        """The settings of a profile, with `defaults` for those that it does not set."""
        profile = validate_profile(profile)
        max_faults = defaults.max_faults if profile.max_faults is None else profile.max_faults
        return cls(
            pace=to_pace(profile.pace),
            retry=to_pace(profile.retry),
            timeout=profile_timeout(profile, defaults),
            max_faults=max_faults,
            not_found_grace=to_seconds(profile.not_found_grace),
            retry_after_default=_seconds(profile.retry_after_default),
            can_reauthorise=profile.auth is not None,
            spacing=spacing,
            patience=to_seconds(profile.request_timeout),
            durations=durations,
            is_fresh=is_fresh,
        )

    @property
    def outlasts_outages(self) -> bool:
        """Whether a wait lasts until its origin is back, as in a ledger."""
        return self.max_faults is None

    def deadline(self, job: Job, started_at: float) -> float:
        """The instant at which a wait times out; the job's own timeout takes precedence."""
        if job.timeout is None:
            timeout = self.timeout
        elif job.timeout == NO_TIMEOUT:
            timeout = None
        else:
            timeout = to_seconds(job.timeout)
        return NEVER if timeout is None else started_at + timeout


def profile_timeout(profile: Profile, defaults: Defaults = DEFAULTS) -> Optional[float]:
    """The timeout of a profile's jobs in seconds; None if there is none."""
    return defaults.timeout if profile.timeout == DEFAULT_TIMEOUT else _seconds(profile.timeout)


def _seconds(value: Optional[Duration]) -> Optional[float]:
    return None if value is None else to_seconds(value)
