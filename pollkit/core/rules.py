"""What holds for a wait from its start to its end: pace, deadline, how much trouble to bear."""
from typing import NamedTuple, Optional, Union

from .durations import Durations
from .pace import Adaptive, Pace
from .profile import Profile, checked, pace_of
from .units import seconds


class Rules(NamedTuple):
    """What holds for a wait from its start to its end."""

    pace: Pace = Adaptive()
    retry: Pace = pace_of(Profile().retry)
    timeout: Optional[float] = 300.0
    max_faults: int = 10
    not_found_grace: float = 10.0
    retry_after_default: Optional[float] = None
    can_reauthorise: bool = False
    spacing: float = 0.0
    patience: float = 30.0       # how long after the deadline the last look may begin
    durations: Optional[Durations] = None  # of jobs of this kind; it may learn while jobs wait
    is_fresh: bool = False       # jobs are submitted just when their wait begins

    @classmethod
    def of(cls, profile: Profile, spacing: float = 0.0, durations: Optional[Durations] = None,
           is_fresh: bool = False) -> "Rules":
        """The rules a profile lays down."""
        profile = checked(profile)
        return cls(pace_of(profile.pace), pace_of(profile.retry),
                   _seconds(profile.timeout), profile.max_faults, seconds(profile.not_found_grace),
                   _seconds(profile.retry_after_default), profile.auth is not None, spacing,
                   seconds(profile.request_timeout), durations, is_fresh)


def _seconds(value: Union[float, str, None]) -> Optional[float]:
    return None if value is None else seconds(value)
