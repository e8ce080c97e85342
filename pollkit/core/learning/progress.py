"""What a job's reported progress says about when it ends.

House rules: a forecast is an opinion about one job, never the last word: it is mixed into what
past jobs say, by how far it is to be trusted. Ages are seconds since the wait began.

Theory. A fraction p done after t seconds points to an end near t/p. Where nobody knows how old
the job was when the wait began, its first reading only tells where to count from. The forecast
is evenly spread around the average of where the readings point to: by a quarter at first, then
by as much as they differ. Its odds, forecast against past jobs, are what Bayes makes of them:

  * a reading that points to where the earlier ones did raises them, the more the longer ago
    those were; one that points elsewhere lowers them;
  * each look that sees 'not done' lowers them by how much sooner than past jobs the forecast
    had the end. So progress that stands at 95 % for ever soon counts for nothing.

They never rise above three to one. Then, even where a forecast is wrong and never found out, past
jobs still have a quarter of the say. Intervals go with its square root: they double at most,
which costs at most a quarter more, for near its best, cost is flat: (2 + 1/2) / 2.
"""

from math import sqrt
from typing import NamedTuple, Optional

from .durations import LONGEST_S, Curve, ProgressEstimate

FIRST_SPREAD, LEAST_SPREAD = 0.25, 0.04
VARIANCES = 3.0  # an even spread reaches as far as the root of so many variances
FIRST_ODDS, MOST_ODDS, LEAST_ODDS = 0.7, 3.0, 0.02
NEWS = 4.0  # a reading is news altogether once the age has grown by a quarter of itself
NEAR_DEVIATIONS = 2.0  # a reading that is off by no more agrees with those before it, within
NEAREST, FARTHEST = (
    0.1,
    0.3,
)  # shares of it at the least and the most: who jumps about agrees with nothing
FAR = 2.0  # and differs from so many times that on
DIFFERED = 0.25
MEMORY = 0.3  # what the newest reading counts for, at least
MOST_READINGS = 9
JUMP = 4.0  # a reading moves the end as if it were at most so many times later


class Forecast(NamedTuple):
    """Where a job's progress points to; with no readings yet, where to count from."""

    from_age: float
    from_fraction: float
    at: float  # the age at the last look
    readings: int = 0
    end: float = 0.0  # an age
    off: float = 0.0  # the variance of what the readings point to, as a share of it
    odds: float = 0.0

    @property
    def spread(self) -> float:
        """How far on either side of `end` the end may be, in seconds."""
        return self.end * max(LEAST_SPREAD, sqrt(VARIANCES * self.off / self.readings))

    @property
    def foreseen(self) -> Optional[ProgressEstimate]:
        """As the rule takes it; None where it counts for nothing."""
        if self.odds <= LEAST_ODDS:
            return None
        return ProgressEstimate(
            self.end - self.spread, self.end + self.spread, self.odds / (1.0 + self.odds)
        )


FROM_START = Forecast(0.0, 0.0, 0.0)


def update_forecast(
    forecast: Optional[Forecast],
    fraction: Optional[float],
    age: float,
    curve: Curve,
    is_fresh: bool,
) -> Optional[Forecast]:
    """The forecast after a look at `age` that saw 'not done', and was told a fraction or not.

    A job that is fresh began when the wait did.
    """
    if forecast is None:
        if fraction is None:
            return None
        if not is_fresh:
            return Forecast(age, fraction, age)
        forecast = FROM_START
    since = forecast.at
    if forecast.readings:
        forecast = _outlived(forecast, age, curve)
    if fraction is None:
        return forecast
    begun, gained = forecast.from_age, min(fraction, 1.0) - forecast.from_fraction
    latest = JUMP * forecast.end if forecast.readings else LONGEST_S
    end = latest
    if gained > 0.0:
        end = min(latest, begun + (age - begun) * (1.0 - forecast.from_fraction) / gained)
    if forecast.readings:
        return _agreed(forecast, end, since)
    if end >= latest or age <= begun:
        return forecast
    return forecast._replace(
        at=age, readings=1, end=end, off=FIRST_SPREAD**2 / VARIANCES, odds=FIRST_ODDS
    )


def _agreed(forecast: Forecast, end: float, since: float) -> Forecast:
    """The forecast after one more reading, which points to `end`."""
    off = end / forecast.end - 1.0 if end > forecast.end else forecast.end / end - 1.0
    near = min(FARTHEST, max(NEAREST, NEAR_DEVIATIONS * sqrt(forecast.off)))
    odds = forecast.odds
    if off <= near:
        odds *= 1.0 + min(1.0, NEWS * (forecast.at - since) / forecast.at)
    elif off > FAR * near:
        odds *= DIFFERED
    gain = max(MEMORY, 1.0 / (forecast.readings + 1))
    return forecast._replace(
        readings=min(forecast.readings + 1, MOST_READINGS),
        end=forecast.end + gain * (end - forecast.end),
        off=forecast.off + gain * (off * off - forecast.off),
        odds=_within(odds),
    )


def _outlived(forecast: Forecast, age: float, curve: Curve) -> Forecast:
    """The forecast after 'not done' once more: its odds change as the chances of that were."""
    opens, closes = max(forecast.end - forecast.spread, forecast.at), forecast.end + forecast.spread
    left = 1.0 if age <= opens else (closes - age) / (closes - opens) if age < closes else 0.0
    odds = forecast.odds * left * curve.survival(forecast.at) / curve.survival(age)
    return forecast._replace(at=age, odds=_within(odds))


def _within(odds: float) -> float:
    return max(LEAST_ODDS, min(MOST_ODDS, odds))
