"""The settings of a wait: its pace, its timeout, and how many faults it tolerates."""

from functools import lru_cache
from typing import NamedTuple, Optional

from ..learning.durations import Durations
from ..model import NO_TIMEOUT, Job
from ..profiles.hold_templates import is_hold_in_url, needs_index
from ..profiles.profile import DEFAULT_TIMEOUT, Profile, to_pace, validate_profile
from ..units import NEVER, Duration, to_seconds
from .holding import Holding
from .pace import Adaptive, Pace


class Defaults(NamedTuple):
    """The values that apply if neither the profile nor the caller sets others."""

    timeout: float = 300.0
    max_faults: Optional[int] = 10  # None: retry until the deadline
    result_timeout: float = 300.0  # how long the result of a done job may take


DEFAULTS = Defaults()
# A ledger's jobs outlive processes and reboots, so they also wait out an outage of the API.
LEDGER_DEFAULTS = Defaults(timeout=24 * 3600.0, max_faults=None, result_timeout=24 * 3600.0)


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
    weight: float = 1.0  # a second of delay counts so many times
    confirm: int = 1  # an end counts when it was seen so many times in a row
    holding: Optional[Holding] = None  # if polls may be held
    result_url: Optional[str] = None  # None: the reply has the result
    result_timeout: float = DEFAULTS.result_timeout
    cancels_on_timeout: bool = False

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
        holding = None
        if profile.hold is not None:
            holding = Holding(
                to_seconds(profile.hold),
                needs_index=needs_index(profile),
                is_in_url=is_hold_in_url(profile),
            )
        max_faults = defaults.max_faults if profile.max_faults is None else profile.max_faults
        return cls(
            pace=_weighted_pace(to_pace(profile.pace), profile.weight),
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
            weight=profile.weight,
            confirm=profile.confirm,
            holding=holding,
            result_url=profile.result_url,
            result_timeout=defaults.result_timeout,
            cancels_on_timeout=profile.on_timeout == "cancel",
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
        return NEVER if timeout is None else _later(started_at, timeout)


@lru_cache(maxsize=1)
def _later(instant: float, seconds: float) -> float:
    """An instant later; jobs that start together share the number, 32 bytes less per job."""
    return instant + seconds


def profile_timeout(profile: Profile, defaults: Defaults = DEFAULTS) -> Optional[float]:
    """The timeout of a profile's jobs in seconds; None if there is none."""
    return defaults.timeout if profile.timeout == DEFAULT_TIMEOUT else _seconds(profile.timeout)


def _weighted_pace(pace: Pace, weight: float) -> Pace:
    """The pace for jobs of a weight.

    To pay `price` per poll and `weight` per second of delay is the same as to pay price / weight
    and 1. Only an adaptive pace has a price.
    """
    if not isinstance(pace, Adaptive):
        return pace
    return pace._replace(price=pace.price / weight)


def _seconds(value: Optional[Duration]) -> Optional[float]:
    return None if value is None else to_seconds(value)
