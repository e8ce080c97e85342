"""What is known about when jobs end.

House rules: ages are seconds since the wait began. Nothing here knows what a poll is.

Theory. A job that was not done at age x has, by age y, probably been done for a while already:
its accrued delay is E[(y - T)+ | T > x] = (y - x) - (I(y) - I(x)) / S(x), where S is the
survival function of durations and I its integral. A pace looks when that is worth one poll;
a batch that is short of tokens gives the next one to the job with the most of it.

While nothing is known of a kind of job, its prior is heavy-tailed: S(t) = (1 + t/s)^-1/2 with
s = 8 s. Then the accrued delay is simply (sqrt(y + s) - sqrt(x + s))^2.
"""
from math import sqrt

PRIOR_S = 8.0
# Where jobs compete for tokens, so short a scale would starve the old for the young. Measured on
# 500 jobs of five models, 40 jobs and 60 polls a minute, p95 as the mean of three seeds: 183 s with
# 8 s, 124 s with 300 s, 119 s for whoever was not looked at for longest. All orders tie where the
# jobs are of one kind.
RIVAL_PRIOR_S = 300.0


def accrued_delay(looked: float, age: float, scale: float = RIVAL_PRIOR_S) -> float:
    """Seconds of delay expected to have built up at `age`, for a job not done when `looked` at.

    It grows with age, and never faster than age itself.
    """
    return (sqrt(age + scale) - sqrt(looked + scale)) ** 2


def cold_interval(price: float, age: float) -> float:
    """How long after a look at `age` the accrued delay is worth `price`."""
    # From the closed form: sqrt(y + s) = sqrt(age + s) + sqrt(price).
    return 2 * sqrt(price * (age + PRIOR_S)) + price
