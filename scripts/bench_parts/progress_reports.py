"""Ways in which jobs report their progress, honest or not."""

import math
import random
from typing import Callable, Dict

# The progress that a job reports, from its age and its duration.
Reported = Callable[[float, float], float]

HONEST: Dict[str, Callable[[random.Random], Reported]] = {
    "steady, +-10 % of the value": lambda rng: (
        lambda age, whole: min(1.0, age / whole * rng.uniform(0.9, 1.1))
    ),
    "steady, +-10 points": lambda rng: (
        lambda age, whole: min(1.0, max(0.0, age / whole + rng.uniform(-0.1, 0.1)))
    ),
}
LYING: Dict[str, Callable[[random.Random], Reported]] = {
    "stuck at 5 %": lambda rng: lambda age, whole: 0.05,
    "stuck at 95 %": lambda rng: lambda age, whole: 0.95,
    "jumps about": lambda rng: lambda age, whole: rng.random(),
    "goes backwards": lambda rng: lambda age, whole: 1.0 - age / whole,
    "above 100 % at half time": lambda rng: lambda age, whole: min(1.0, 2 * age / whole),
    "never above 50 %": lambda rng: lambda age, whole: 0.5 * age / whole,
    "never above 90 %": lambda rng: lambda age, whole: 0.9 * age / whole,
    "stops at 70 %": lambda rng: lambda age, whole: min(0.7, age / whole),
    "unrelated to the duration": lambda rng: lambda age, whole: 1.0 - math.exp(-age / 60),
    "slow, then quick": lambda rng: lambda age, whole: (age / whole) ** 4,
}
