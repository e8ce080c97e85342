"""Simulation makes the polls that BatchPoller makes, and measures them correctly."""

import json
import random

import pytest

from pollkit import ConfigError, Simulation
from pollkit.drivers.simulation import simulation as module
from pollkit.drivers.simulation.distributions import Measured
from pollkit.drivers.simulation.optimum import optimal_schedules


def run_and_list_polls(simulation, pace):
    """Each poll as (instant, job id), and the figures."""
    polls = []
    return polls, simulation.run(pace, on_poll=lambda at, job_id: polls.append((at, job_id)))


# Figures


def test_the_figures_of_three_jobs_are_as_computed_by_hand():
    simulation = Simulation(durations=[12, 7, 30], arrive="every 1m")
    figures = simulation.run("fixed 5s")
    assert figures.polls_per_job == pytest.approx((4 + 3 + 7) / 3)
    assert figures.mean == pytest.approx((3 + 3 + 0) / 3) and figures.max == pytest.approx(3.0)
    assert figures.cost == pytest.approx(figures.polls_per_job + figures.mean)
    assert figures.as_dict()["cost_ratio"] == round(figures.cost / simulation.optimum.cost, 3)


def test_a_higher_price_raises_the_cost_and_adaptive_uses_it():
    simulation = Simulation(durations="uniform 2m..15m", jobs=20, arrive="every 20m", price="5s")
    figures = simulation.run("fixed 30s")
    assert figures.cost == pytest.approx(5 * figures.polls_per_job + figures.mean)
    assert str(simulation.run("adaptive").pace) == "adaptive price=5s"
    assert str(simulation.run("adaptive price=2s").pace) == "adaptive price=2s"
    assert simulation.optimum.cost > Simulation(durations="uniform 2m..15m", jobs=20).optimum.cost


def test_jobs_of_the_warm_up_are_not_counted():
    durations = [100] * 5 + [10] * 5
    whole = Simulation(durations=durations, arrive="every 2m").run("fixed 10s")
    rest = Simulation(durations=durations, arrive="every 2m", warm_up=5).run("fixed 10s")
    assert (whole.polls_per_job, rest.polls_per_job) == (6.5, 2.0)
    assert sum(whole.per_minute.values()) == sum(rest.per_minute.values()) == 65


def test_jobs_that_were_given_up_are_counted_but_not_in_the_delay():
    simulation = Simulation(durations=[10, 1000], arrive="every 1m", timeout=60)
    figures = simulation.run("fixed 5s")
    assert (figures.timed_out, figures.jobs, figures.mean) == (1, 2, 0.0)
    assert figures.cost > 0.0 and figures.cost_ratio is None  # the optimum waits for all jobs
    none_seen = Simulation(durations=[1000], arrive="burst").run("fixed 5s attempts=3")
    assert none_seen.timed_out == 1
    assert (none_seen.mean, none_seen.cost, none_seen.cost_ratio) == (None, None, None)
    json.dumps(none_seen.as_dict(), allow_nan=False)


def test_no_window_of_the_server_gets_more_requests_than_the_limit():
    simulation = Simulation(durations="uniform 1m..3m", jobs=100, limit="60/m")
    for pace in ("fixed 2s", "backoff 5s..300s x2 jitter=full", "adaptive"):
        figures = simulation.run(pace)
        assert figures.rate_limited == 0 and max(figures.per_minute.values()) <= 60


@pytest.mark.parametrize(
    "limit, window, is_refused",
    [
        ("30/m burst 30", "fixed", True),
        ("30/m burst 30", "bucket", False),
        ("30/m", "fixed", False),
    ],
)
def test_a_known_limit_is_exceeded_only_by_a_burst_on_top_of_a_fixed_window(
    limit, window, is_refused
):
    simulation = Simulation(
        durations="uniform 20s..60s", jobs=300, arrive="over 1h", limit=limit, window=window
    )
    assert (simulation.run("backoff 2s..10s x1.5").rate_limited > 0) == is_refused


def test_latency_adds_delay_and_workers_bound_the_requests_in_flight():
    quick = Simulation(durations="uniform 1m..3m", jobs=40).run("fixed 10s")
    slow = Simulation(durations="uniform 1m..3m", jobs=40, latency="2s").run("fixed 10s")
    assert slow.mean > quick.mean + 0.5
    polls, _ = run_and_list_polls(
        Simulation(durations=[5] * 12, workers=3, latency="1s", limit="none"), "fixed 1m"
    )
    first = [at for at, _ in polls[:12]]
    assert all(sum(1 for at in first if start <= at < start + 1) <= 3 for start in first)


@pytest.mark.parametrize("timestamps", [True, False])
def test_adaptive_learns_from_finished_jobs(timestamps):
    options = {"durations": "uniform 2m..15m", "arrive": "every 20m", "timestamps": timestamps}
    first = Simulation(jobs=5, **options).run("adaptive")
    later = Simulation(jobs=160, warm_up=60, **options).run("adaptive")
    assert later.cost_ratio < 1.2 and later.cost_ratio < first.cost_ratio


def test_the_poller_learns_a_limit_that_it_does_not_know():
    simulation = Simulation(durations="uniform 1m..3m", jobs=60, limit="30/m", knows_limit=False)
    figures = simulation.run("fixed 2s")
    assert 0 < figures.rate_limited < 40 and figures.timed_out == 0


def test_each_label_has_its_own_optimum_weighted_by_its_jobs():
    simulation = Simulation("documents", jobs=300)
    alone = {
        label: optimal_schedules(distribution, [1.0])[0].cost
        for label, distribution in simulation.distributions.items()
    }
    share = {label: sum(job.label == label for job in simulation.jobs) / 300 for label in alone}
    assert simulation.optimum.cost == pytest.approx(
        sum(share[label] * alone[label] for label in alone)
    )


def test_a_list_that_jobs_repeat_counts_as_known_to_the_optimum():
    rng = random.Random(3)
    durations = {label: [rng.uniform(120, 900) for _ in range(25)] for label in "ab"}
    lists = [Measured.from_durations(each) for each in durations.values()]
    best = sum(optimal_schedules(each, [1.0], jobs=50)[0].cost for each in lists) / 2
    assert Simulation(durations=durations, jobs=400).optimum.cost == pytest.approx(best, rel=0.02)
    assert Simulation(durations=durations, jobs=50).optimum.cost > 1.1 * best


def test_the_same_seed_gives_the_same_figures_and_another_seed_does_not():
    one, again, other = [
        Simulation("healthcare", jobs=20, seed=seed).run("backoff 2s..60s x1.5")
        for seed in (1, 1, 2)
    ]
    assert one == again and one != other


def test_a_pace_that_makes_too_many_polls_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_POLLS", 1000)
    # The first is refused in advance, the second when it has made too many.
    for pace in ("fixed 100ms", "adaptive price=1ms min=10ms"):
        with pytest.raises(ConfigError, match="more than 1000 polls"):
            Simulation(durations="uniform 2m..15m", jobs=10, limit="none").run(pace)


@pytest.mark.parametrize(
    "options, pace",
    [
        ({}, "fixed 100ms attempts=60"),
        ({"timeout": "1s"}, "fixed 100ms"),
        ({"limit": "60/m"}, "fixed 100ms"),
        ({"latency": "1m"}, "fixed 100ms"),
        ({"workers": 1, "latency": "10s"}, "backoff 1ms..10ms"),
        ({"fault_rate": 0.99}, "fixed 100ms"),
    ],
    ids=repr,
)
def test_a_pace_is_not_refused_for_polls_that_it_would_not_make(monkeypatch, options, pace):
    monkeypatch.setattr(module, "MOST_POLLS", 1000)
    assert Simulation(durations=[300] * 10, **options).run(pace).polls_per_job <= 100


def test_a_pace_that_would_take_minutes_is_refused_before_it_starts():
    polls = []
    with pytest.raises(ConfigError, match="'fixed 1ms' makes more than 3000000 polls"):
        Simulation(durations="uniform 2m..15m").run(
            "fixed 1ms", on_poll=lambda at, job_id: polls.append(at)
        )
    assert not polls


def test_many_jobs_may_make_more_polls(monkeypatch):
    monkeypatch.setattr(module, "MOST_POLLS", 1000)
    assert Simulation(durations=[50], jobs=300).run("fixed 10s").polls_per_job == 6


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scenario": "nowhere"},
        {"scenario": "models", "durations": "uniform 1s..2s"},
        {"scenario": "models", "jobs": -1},
        {"scenario": "models", "jobs": 0},
        {"durations": [5], "jobs": 0},
        {"durations": [5], "arrive": ""},
        {"durations": [5], "limit": ""},
        {"scenario": "models", "jobs": 10**9},
        {"scenario": "models", "jobs": 2.5},
        {"scenario": "models", "price": 0},
        {"scenario": "models", "warm_up": 1000},
        {"scenario": "models", "window": "sliding"},
        {"durations": []},
        {"durations": {}},
        {"durations": {"a": []}},
        {"scenario": "models", "arrive": "soon"},
        {"scenario": "models", "limit": "much"},
        {"durations": [-1]},
        {"scenario": "models", "fault_rate": 1.0},
        {"scenario": "models", "workers": 0},
        {"durations": "normal 5m"},
        {"durations": 5},
        {"durations": b"5"},
        {"durations": {"a": 5}},
        {"durations": {1: [5], 2: [6]}},
        {"scenario": []},
        {"durations": [5], "limit": 60},
        {"durations": [5], "fault_rate": "2%"},
        {"durations": [5], "fault_rate": None},
        {"durations": [5], "jobs": "x"},
        {"durations": [5], "jobs": b"5"},
        {"durations": [5], "jobs": [5]},
        {"durations": [5], "jobs": {}},
        {"durations": [5], "warm_up": "x"},
        {"durations": [5], "window": []},
        {"durations": [5], "arrive": 5},
        {"durations": [5], "seed": None},
        {"durations": [5], "seed": "1"},
    ],
    ids=repr,
)
def test_invalid_arguments_are_refused(options):
    with pytest.raises(ConfigError):
        Simulation(**options)


def test_a_timeout_may_be_never():
    assert Simulation(durations=[5, 6], timeout="never").run("fixed 4s") == Simulation(
        durations=[5, 6]
    ).run("fixed 4s")
