"""When to retry a failed notification, and when to give up.

The text of a policy is a pace without jitter, or 'none'. `for` limits the time since the first
attempt; without it, that is a day.

    backoff 10s..1h x2 for 1d     after 10 s, 20 s, 40 s and so on, up to an hour apart
    fixed 1m attempts=5           five attempts, a minute apart
    none                          give up after the first failure
"""

from typing import NamedTuple, Optional, Union

from ...errors import ConfigError
from ..units import to_seconds
from .pace import Adaptive, Backoff, Fixed, parse_pace

DAY_S = 86400.0


class RetryPolicy(NamedTuple):
    """The delays between attempts; without a pace, there is only one attempt.

    >>> RetryPolicy.parse("fixed 1m for 2h")
    RetryPolicy(pace=Fixed(every=60.0, attempts=None), give_up_s=7200.0)
    """

    pace: Union[Fixed, Backoff, None]
    give_up_s: float = DAY_S  # since the first attempt

    @classmethod
    def parse(cls, text: str) -> "RetryPolicy":
        """A policy from its text, or a ConfigError."""
        if not isinstance(text, str):
            raise ConfigError("a retry policy is text such as 'fixed 1m for 1h', not %r" % (text,))
        if text.strip().lower() == "none":
            return cls(None, 0.0)
        pace_text, separator, duration = text.strip().lower().partition(" for ")
        has_jitter = "jitter=" in pace_text
        if has_jitter or not pace_text.startswith(("backoff ", "fixed ")):
            raise ConfigError(
                "%r is no way to retry: write 'backoff 10s..1h x2 for 1d', 'fixed 1m for 1h', "
                "'fixed 1m attempts=5' or none" % text
            )
        pace = parse_pace(pace_text)
        if isinstance(pace, Backoff):
            pace = pace._replace(jitter="none")
        assert not isinstance(pace, Adaptive)
        return cls(pace, to_seconds(duration.strip(), "for") if separator else DAY_S)

    def delay_s(self, attempt: int) -> Optional[float]:
        """Seconds from this attempt, which failed, to the next; None if it was the last.

        >>> [DEFAULT_RETRY.delay_s(attempt) for attempt in (1, 2, 3, 10, 10000)]
        [10.0, 20.0, 40.0, 3600.0, 3600.0]
        """
        if self.pace is None:
            return None
        return self.pace.delay(attempt, 0.0, 0.0, 0.5)


DEFAULT_RETRY = RetryPolicy(Backoff(10, 3600, factor=2, jitter="none"))
