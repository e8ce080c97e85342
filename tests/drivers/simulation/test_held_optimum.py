"""Simulations of a server that holds polls, and the optimum with holding."""

import random

import pytest

from pollkit import ConfigError, Simulation
from pollkit.core.reading.verdict import Verdict
from pollkit.drivers.simulation.distributions import Measured, ages_at_jumps, parse_distribution
from pollkit.drivers.simulation.optimum import Grid, optimal_schedules, optimum, schedule_cost
from pollkit.drivers.simulation.server import SimJob, SimulatedApi


def lowest_cost_by_brute_force(durations, price, hold_s):
    """The cost of the cheapest schedule on whole seconds whose last poll sees the last end."""
    last = int(max(durations))
    best = float("inf")
    for chosen in range(1, 2 ** (last + 1)):
        ages = [float(age) for age in range(last + 1) if chosen >> age & 1]
        if ages[-1] + hold_s >= last:
            best = min(best, schedule_cost(ages, durations, price, hold_s).cost)
    return best


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("hold_s", [1.0, 3.0])
def test_the_optimum_is_that_of_all_schedules(seed, hold_s):
    rng = random.Random(seed)
    durations = [float(rng.randint(2, 10)) for _ in range(6)]
    price = rng.choice([0.5, 1.0, 2.0])
    grid = Grid.from_survival(
        lambda age: sum(one > age for one in durations) / len(durations), ages_at_jumps(range(12))
    )
    by_schedule = lowest_cost_by_brute_force(durations, price, hold_s)
    assert optimum(grid, price, hold_s).cost == pytest.approx(by_schedule, abs=1e-3)


def test_the_optimum_with_holding_approaches_one_poll_and_that_without():
    lipsync = parse_distribution("uniform 2m..15m")
    costs = [optimal_schedules(lipsync, [1.0], hold_s=hold)[0] for hold in (0.0, 1.0, 25.0, 600.0)]
    assert [round(one.cost, 1) for one in costs] == [26.8, 25.9, 12.5, 1.2]
    assert all(one.cost == pytest.approx(one.polls + one.delay, rel=1e-6) for one in costs)


def test_the_optimum_is_steady_between_gaps_of_the_theory():
    """A gap w before each hold of h seconds, with w^2/2 + h w = price / hazard."""
    found = optimal_schedules(parse_distribution("uniform 0s..10000s"), [1.0], hold_s=60.0)[0]
    gap = found.poll_ages[1] - found.poll_ages[0] - 60.0
    expected = (60.0**2 + 2 * 10000.0) ** 0.5 - 60.0
    assert gap == pytest.approx(expected, rel=0.1)


def test_a_schedule_of_held_polls_sees_the_ends_within_them_without_delay():
    found = schedule_cost([10.0, 50.0], [5.0, 12.0, 35.0, 60.0, 100.0], 1.0, 20.0)
    # delays 5, 0, 15, 0, 0; the last one is seen by a third poll, 40 s after the second
    assert (found.polls, found.delay) == (pytest.approx(9 / 5), 4.0)


def test_the_optimum_of_a_list_with_holding_is_below_that_without():
    rng = random.Random(1)
    sample = Measured.from_durations([rng.uniform(60, 600) for _ in range(200)])
    (held,) = optimal_schedules(sample, [1.0], hold_s=25.0)
    (unheld,) = optimal_schedules(sample, [1.0])
    assert 0.3 < held.cost / unheld.cost < 0.7


def test_the_server_holds_a_poll_until_the_job_ends():
    api = SimulatedApi([SimJob("a", None, 0.0, 30.0)], timestamps=True)
    reading, sent_at = api.hold("a", 1.0, 25.0, 0.1)
    assert (reading.verdict, sent_at) == (Verdict.PENDING, 26.0)
    reading, sent_at = api.hold("a", 27.0, 25.0, 0.1)
    assert (reading.verdict, sent_at) == (Verdict.DONE, 30.0)
    assert reading.notice_delay_s == pytest.approx(0.1)
    assert api.hold("a", 31.0, 25.0, 0.1)[1] == 31.0


def test_adaptive_comes_near_the_optimum_with_holding():
    """tests/slow/test_held_simulations.py has more scenarios, holds and seeds."""
    simulation = Simulation("lipsync", hold="60s", warm_up=50, seed=2)
    figures = simulation.run("adaptive")
    assert figures.cost_ratio < 1.15
    assert figures.cost / simulation.unheld_optimum.cost < 0.35


def test_other_paces_hold_their_polls_too():
    plain = Simulation("lipsync").run("fixed 30s")
    held = Simulation("lipsync", hold="25s").run("fixed 30s")
    assert held.polls_per_job < plain.polls_per_job and held.mean < plain.mean / 1.5


def test_without_a_hold_both_optima_and_frontiers_are_the_same():
    simulation = Simulation("lipsync")
    assert simulation.unheld_optimum is simulation.optimum
    assert simulation.unheld_frontier is simulation.frontier


@pytest.mark.parametrize("hold", ["2h", "0s", "soon", -1])
def test_an_absurd_hold_is_refused(hold):
    with pytest.raises(ConfigError):
        Simulation("lipsync", hold=hold)
