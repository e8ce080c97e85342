"""What a job's reported progress says about when it ends.

House rules: a forecast is an opinion about one job, never the last word: it is mixed into what
past jobs say, by how far it is to be trusted. Ages are seconds since the wait began.

Theory. A fraction p done after t seconds points to an end near t/p. The forecast is evenly
spread around the average of these, by a quarter at first and then by as much as they were off
from each other. Its odds, forecast against past jobs, are what Bayes makes of them:

  * a reading near where the earlier ones pointed raises them, one far off lowers them;
  * each look that sees 'not done' lowers them by how much sooner than past jobs the forecast
    had expected the end. So progress that stands at 95 % for ever soon counts for nothing.

They never rise above three to one. Then, even where a forecast is wrong and never found out, the
delay that past jobs accrue is a quarter of what it was, so intervals double at most, and that
costs a quarter more: near its optimum, cost is flat.
"""
from typing import NamedTuple, Optional

from .durations import Curve, Foreseen

FIRST_SPREAD = 0.25
LEAST_SPREAD = 0.04
FIRST_ODDS, MOST_ODDS, LEAST_ODDS = 0.5, 3.0, 0.02
AGREED, DIFFERED = 2.0, 0.25
NEWS = 4.0
WIDE = 3.0
MEMORY = 0.3            # what the newest reading counts for, at least


class Forecast(NamedTuple):
    """Where a job's progress points to, as of the age `at`."""

    end: float       # the age
    off: float       # how far a reading is from the others, as a share of the end; squared
    odds: float
    at: float
    readings: int

    @property
    def spread(self) -> float:
        """How far on either side of `end` the end may be, as a share of it."""
        return max(LEAST_SPREAD, (WIDE * self.off / self.readings) ** 0.5)

    @property
    def foreseen(self) -> Optional[Foreseen]:
        """As the rule takes it; None where it counts for nothing."""
        if self.odds <= LEAST_ODDS:
            return None
        spread = self.end * self.spread
        return Foreseen(self.end - spread, self.end + spread, self.odds / (1.0 + self.odds))


def reckoned(forecast: Optional[Forecast], fraction: Optional[float], age: float, curve: Curve) -> Optional[Forecast]:
    """The forecast after a look at `age` that saw 'not done', and a fraction done if one was told."""
    since = age if forecast is None else forecast.at
    if forecast is not None:
        forecast = _outlived(forecast, age, curve)
    if fraction is None or not fraction > 0.0 or age <= 0.0:
        return forecast
    end = age / min(fraction, 1.0)
    if forecast is None:
        return Forecast(end, FIRST_SPREAD ** 2 / WIDE, FIRST_ODDS, age, 1)
    off = end / forecast.end - 1.0 if end > forecast.end else forecast.end / end - 1.0
    allowed = max(0.1, 2 * forecast.off ** 0.5)
    news = min(1.0, NEWS * (age - since) / age)
    odds = forecast.odds * (1+news if off <= allowed else DIFFERED if off > 2 * allowed else 1.0)
    gain = max(MEMORY, 1.0 / (forecast.readings + 1))
    return Forecast(forecast.end + gain * (end - forecast.end),
                    forecast.off + gain * (off * off - forecast.off),
                    max(LEAST_ODDS, min(MOST_ODDS, odds)), age, min(forecast.readings + 1, 9))


def _outlived(forecast: Forecast, age: float, curve: Curve) -> Forecast:
    """The odds after 'not done' once more, for the time since the last look."""
    since = forecast.at
    if age <= since:
        return forecast
    spread = forecast.end * forecast.spread
    opens, closes = max(forecast.end - spread, since), forecast.end + spread
    if age >= closes:
        left = 0.0
    else:
        left = 1.0 if age <= opens else (closes - age) / (closes - opens)
    odds = forecast.odds * left * curve.survival(since) / curve.survival(age)
    return forecast._replace(odds=max(LEAST_ODDS, min(MOST_ODDS, odds)), at=age)
