"""Samples of durations of several shapes, and the cost of a schedule."""

import random

RNG = random.Random(6)
UNIFORM = [RNG.uniform(120, 900) for _ in range(200)]
SHAPES = {
    "nothing": [],
    "one": [60.0],
    "two": [60.0, 90.0],
    "uniform": UNIFORM,
    "all the same": [90.0] * 50,
    "all nothing": [0.0] * 50,
    "whole minutes": [60.0 * RNG.randint(1, 8) for _ in range(200)],
    "two kinds": [RNG.uniform(1.5, 2.5) for _ in range(100)]
    + [RNG.uniform(450, 510) for _ in range(100)],
    "heavy tail": [5 * (1 - RNG.random()) ** -0.9 for _ in range(200)],
    "huge": [1e8, 2e8, 3e8],
    "tiny": [1e-6, 2e-6, 1e-6],
    "mixed": [0.0, 1e-6, 1.0, 1e8],
}


def exact_cost(curve, draws):
    """Polls plus delay per job, the mean over these durations."""
    polls = []
    age = 0.0
    while age < max(draws):
        age += curve.next_delay(age, 1.0, 0.5, 300.0)
        polls.append(age)
    return sum(
        1 + sum(poll < draw for poll in polls) + min(poll for poll in polls if poll >= draw) - draw
        for draw in draws
    ) / len(draws)
