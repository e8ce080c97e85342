"""When a job will finish, judged by the progress that it reports.

House rules: a forecast is only evidence about one job. It is mixed with the durations of past jobs,
with a weight by how far it can be trusted. Ages are seconds since the wait began.

Theory. A fraction p done after t seconds points to a finish near t/p. If it is not known how old
the job was when the wait began, its first fraction is only the point to count from. The finish is
assumed to be evenly distributed around the average of the points so far: within a quarter at first,
later within their scatter. The odds of the forecast against the past jobs follow Bayes' rule:

  * a fraction that points to the same age as the earlier ones raises the odds, the more the longer
    ago those were; one that points elsewhere lowers them;
  * each poll that sees the job pending lowers the odds by how much likelier that was by the past
    jobs. So a job that reports 95 % for ever soon loses all trust.

The odds never exceed three to one. So even if a forecast is wrong and never found out, the past
jobs keep a quarter of the weight. Intervals grow with the square root of that: they double at most,
which costs at most a quarter more, because cost is flat near its minimum: (2 + 1/2) / 2.
"""

from math import sqrt
from typing import NamedTuple, Optional

from ..units import LONGEST_S, NEVER
from .curve import Curve
from .estimate import Estimate

FIRST_SPREAD = 0.25
LEAST_SPREAD = 0.04
VARIANCES = 3.0  # an even distribution reaches as far as the root of so many variances
FIRST_ODDS = 0.7
MOST_ODDS = 3.0
LEAST_ODDS = 0.02
NEWS = 4.0  # a fraction is fully new once the age has grown by a quarter of itself
NEAR_DEVIATIONS = 2.0  # a fraction agrees with the earlier ones within so many deviations,
NEAREST = 0.1  # but at least within this share of the finish
FARTHEST = 0.3  # and at most within this one: a fraction that jumps about agrees with nothing
FAR = 2.0  # times that distance: from there on, it contradicts them
CONTRADICTED = 0.25  # the factor of the odds then
MEMORY = 0.3  # the least weight of the newest fraction
MOST_READINGS = 9
MOST_POSTPONED = 4.0  # a forecast makes a delay at most so many times as long
JUMP = 4.0  # one fraction can move the finish as if it were at most so many times later


class Forecast(NamedTuple):
    """The finish that a job's progress points to; before any reading, the point to count from.

    core/snapshot.py stores it by position.
    """

    from_age: float
    from_fraction: float
    at: float  # the age at the last poll
    readings: int = 0
    end: float = 0.0  # the age at the expected finish
    variance: float = 0.0  # of the points so far, relative to `end`
    odds: float = 0.0

    @property
    def spread(self) -> float:
        """How many seconds before or after `end` the job may finish."""
        return self.end * max(LEAST_SPREAD, sqrt(VARIANCES * self.variance / self.readings))

    @property
    def estimate(self) -> Optional[Estimate]:
        """The forecast for the pace; None if it has no weight."""
        if self.odds <= LEAST_ODDS:
            return None
        trust = self.odds / (1.0 + self.odds)
        return Estimate(self.end - self.spread, self.end + self.spread, trust, MOST_POSTPONED)


FROM_START = Forecast(0.0, 0.0, 0.0)


def update_forecast(
    forecast: Optional[Forecast],
    fraction: Optional[float],
    age: float,
    curve: Curve,
    is_fresh: bool,
) -> Optional[Forecast]:
    """The forecast after a poll at `age` that saw the job pending, perhaps with a fraction.

    A fresh job started when the wait began.
    """
    if forecast is None:
        if fraction is None:
            return None
        if not is_fresh:
            return Forecast(age, fraction, age)
        forecast = FROM_START
    if not forecast.readings:
        return forecast if fraction is None else _with_first_reading(forecast, fraction, age)
    outlived = _outlive(forecast, age, curve)
    if fraction is None:
        return outlived
    end = min(_projected_end(forecast, fraction, age), JUMP * forecast.end)
    return _with_reading(outlived, end, forecast.at)


def _projected_end(forecast: Forecast, fraction: float, age: float) -> float:
    """The age at which the job finishes if it continues at its average speed."""
    gained = min(fraction, 1.0) - forecast.from_fraction
    if gained <= 0.0:
        return NEVER
    elapsed = age - forecast.from_age
    return forecast.from_age + elapsed * (1.0 - forecast.from_fraction) / gained


def _with_first_reading(forecast: Forecast, fraction: float, age: float) -> Forecast:
    end = _projected_end(forecast, fraction, age)
    if end >= LONGEST_S or age <= forecast.from_age:
        return forecast
    return forecast._replace(
        at=age, readings=1, end=end, variance=FIRST_SPREAD**2 / VARIANCES, odds=FIRST_ODDS
    )


def _with_reading(forecast: Forecast, end: float, last_age: float) -> Forecast:
    """The forecast after one more reading, which points to `end`; the last was at `last_age`."""
    off = max(end / forecast.end, forecast.end / end) - 1.0
    near = min(FARTHEST, max(NEAREST, NEAR_DEVIATIONS * sqrt(forecast.variance)))
    odds = forecast.odds
    if off <= near:
        odds *= 1.0 + min(1.0, NEWS * (forecast.at - last_age) / forecast.at)
    elif off > FAR * near:
        odds *= CONTRADICTED
    gain = max(MEMORY, 1.0 / (forecast.readings + 1))
    return forecast._replace(
        readings=min(forecast.readings + 1, MOST_READINGS),
        end=forecast.end + gain * (end - forecast.end),
        variance=forecast.variance + gain * (off * off - forecast.variance),
        odds=_bounded(odds),
    )


def _outlive(forecast: Forecast, age: float, curve: Curve) -> Forecast:
    """The forecast after a poll that saw the job pending once more."""
    opens = max(forecast.end - forecast.spread, forecast.at)
    closes = forecast.end + forecast.spread
    if age <= opens:
        chance = 1.0
    elif age < closes:
        chance = (closes - age) / (closes - opens)
    else:
        chance = 0.0
    chance_by_past_jobs = curve.survival(age) / curve.survival(forecast.at)
    return forecast._replace(at=age, odds=_bounded(forecast.odds * chance / chance_by_past_jobs))


def _bounded(odds: float) -> float:
    return max(LEAST_ODDS, min(MOST_ODDS, odds))
