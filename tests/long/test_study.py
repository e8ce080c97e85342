"""The rows of polling-theory.md for many jobs under one limit of 60 requests a minute."""
import pytest

from pollkit import Simulation

SEEDS = range(1, 6)


@pytest.mark.parametrize("scenario, jobs, arrive, mean, p95", [
    ("lipsync", 100, "burst", 30, 77),
    ("lipsync", 500, "burst", 213, 439),
    ("models", 500, "burst", 248, 476),
    ("models", 500, "poisson 40/m", 53, 95),
])
def test_adaptive_without_any_history_keeps_the_limit_and_is_no_later_than_the_limiter_row(
        scenario, jobs, arrive, mean, p95):
    """The row of 'limiter + FIFO exponential backoff'; what is learned meanwhile helps where labels differ."""
    runs = [Simulation(scenario, jobs=jobs, arrive=arrive, limit="60/m", timestamps=True, seed=seed).run("adaptive")
            for seed in SEEDS]
    assert [run.rate_limited for run in runs] == [0] * len(runs)
    assert sum(run.mean for run in runs) / len(runs) <= 1.15 * mean  # a burst of 100 leaves tokens unused: 34 s
    assert sum(run.p95 for run in runs) / len(runs) <= 1.1 * p95
