"""When to begin a poll that the server holds for up to h seconds.

Theory. A held poll costs as much as any other, and sees a job that finishes during the hold without
delay. So a poll is held whenever that is possible, and the question is how long to wait before it.
Let x be the age at which the job was last seen pending. At a later age y, P is the chance that the
job has finished since, and A its accrued delay (curve.py):

    P(y) = 1 - S(y) / S(x)        A(y) = (y - x) - (I(y) - I(x)) / S(x)

One round, the wait until y and then the hold, takes y - x + h seconds and costs price + A(y).
Rounds follow one another until the job finishes, so the cost per second is what counts:
(price + A) / (y - x + h). If P grows steadily, this is lowest at the y with

    A(y) + h P(y) = price

For h = 0 this is the rule for ordinary polls. The longer a poll is held, the sooner it begins:
once the chance of being too late is worth price / h. If P does not grow steadily, the same rule
still waits while no job finishes, and begins just when the first ones do. Measured with the true S,
it costs at most 1 % more than the exact optimum (drivers/simulation/optimum.py), for holds of 10,
25 and 60 s and the scenarios lipsync, models, documents and media-agency.
"""

from typing import Optional

from .curve import Curve
from .estimate import Estimate

_STEPS = 20  # of the bisection: to a millionth of the longest delay


def delay_before_hold(
    curve: Curve,
    last_age: float,
    hold_s: float,
    *,
    price: float,
    least: float,
    most: float,
    estimate: Optional[Estimate] = None,
) -> float:
    """The delay from a poll that saw the job pending to the next one, if that is held."""
    last_age = max(0.0, last_age)  # a clock may have been set back
    survival, integral = curve.at(last_age)
    own = None if estimate is None else estimate.after(last_age)
    low = least
    high = most
    for _ in range(_STEPS):
        delay = (low + high) / 2
        later_survival, later_integral = curve.at(last_age + delay)
        accrued = delay - (later_integral - integral) / survival
        finished = 1.0 - later_survival / survival
        if own is not None:
            own_accrued, own_finished = own.accrued_delay(last_age, last_age + delay)
            accrued += own.trust * (own_accrued - accrued)
            finished += own.trust * (own_finished - finished)
        if accrued + hold_s * finished >= price:
            high = delay
        else:
            low = delay
    return high
