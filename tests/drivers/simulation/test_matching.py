"""Comparing adaptive with a pace that makes as many polls."""

from pollkit import Simulation
from pollkit.drivers.simulation.matching import match_adaptive


def test_a_rival_that_gave_up_jobs_or_polls_too_rarely_is_not_matched():
    simulation = Simulation(durations=[60] * 5, arrive="every 2m", timeout="30s")
    assert match_adaptive(simulation, simulation.run("fixed 5s")) is None
    simulation = Simulation(durations=[60] * 5, arrive="every 2m")
    assert (
        match_adaptive(simulation, simulation.run("fixed 5s")._replace(polls_per_job=0.9)) is None
    )
