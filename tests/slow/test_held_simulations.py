"""Simulations of the adaptive pace with a server that holds polls, with several seeds."""

import pytest

from one_python import not_with_the_oldest
from pollkit import Simulation

pytestmark = not_with_the_oldest


@pytest.mark.parametrize(
    "hold, most_of_unheld", [("25s", 0.7), ("60s", 0.35)], ids=["25 s", "60 s"]
)
def test_adaptive_comes_near_the_optimum_with_holding(hold, most_of_unheld):
    for scenario in ("lipsync", "models"):
        simulations = [
            Simulation(scenario, hold=hold, warm_up=100, seed=seed) for seed in (1, 2, 3)
        ]
        figures = [simulation.run("adaptive") for simulation in simulations]
        mean = sum(one.cost_ratio for one in figures) / 3
        assert mean < 1.15
        unheld = simulations[0].unheld_optimum.cost
        assert sum(one.cost for one in figures) / 3 / unheld < most_of_unheld
