"""Scenarios, and the arrival of their jobs."""

import random

import pytest

from pollkit import ConfigError, Simulation
from pollkit.drivers.simulation.scenarios import SCENARIOS, arrivals


def test_every_scenario_runs_and_no_pace_is_far_below_its_optimum():
    for name in SCENARIOS:
        simulation = Simulation(name, jobs=12)
        for pace in ("adaptive", "fixed 30s"):
            figures = simulation.run(pace)
            assert figures.rate_limited == figures.timed_out == 0 and figures.cost_ratio > 0.8, (
                name,
                pace,
            )


def test_labels_are_as_frequent_as_their_scenario_says():
    labels = [job.label for job in Simulation("mixed-models", jobs=5000).jobs]
    for label, percent in SCENARIOS["mixed-models"].percent.items():
        assert labels.count(label) / 5000 == pytest.approx(percent / 100, abs=0.02)
    assert {sum(each.percent.values()) for each in SCENARIOS.values()} == {0, 100}


@pytest.mark.parametrize(
    "text, check",
    [
        ("burst", lambda at: set(at) == {0.0}),
        ("every 10m", lambda at: at[:3] == [0.0, 600.0, 1200.0]),
        ("over 1h", lambda at: at == sorted(at) and at[0] >= 0 and 3000 < at[-1] <= 3600),
        (
            "Poisson  40/m",
            lambda at: at == sorted(at) and 200 * 1.5 * 0.8 < at[-1] < 200 * 1.5 * 1.2,
        ),
    ],
)
def test_arrivals_follow_their_text(text, check):
    assert check(arrivals(text, 200, random.Random(3).random))


@pytest.mark.parametrize(
    "text", ["", "burst 5", "every", "every day", "over -1h", "poisson 0/m", "poisson 4/m burst 3"]
)
def test_invalid_arrivals_are_refused(text):
    with pytest.raises(ConfigError, match="arrivals"):
        arrivals(text, 5, random.random)
