"""The rows of polling-theory.md for many jobs under one limit of 60 requests a minute."""

import json

import pytest

from pollkit import Simulation
from pollkit.cli import main
from pollkit.core import agenda

SEEDS = range(1, 6)


def printed(capsys, *words):
    assert main(["simulate"] + list(words)) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "scenario, jobs, arrive, mean, p95",
    [
        ("lipsync", 100, "burst", 30, 77),
        ("lipsync", 500, "burst", 213, 439),
        ("models", 500, "burst", 248, 476),
        ("models", 500, "poisson 40/m", 53, 95),
    ],
)
def test_adaptive_without_any_history_keeps_the_limit_and_is_no_later_than_the_limiter_row(
    scenario, jobs, arrive, mean, p95
):
    """The row of 'limiter + FIFO exponential backoff'; what is learned meanwhile helps where labels differ."""
    runs = [
        Simulation(
            scenario, jobs=jobs, arrive=arrive, limit="60/m", timestamps=True, seed=seed
        ).run("adaptive")
        for seed in SEEDS
    ]
    assert [run.rate_limited for run in runs] == [0] * len(runs)
    assert (
        sum(run.mean for run in runs) / len(runs) <= 1.15 * mean
    )  # a burst of 100 leaves tokens unused: 34 s
    assert sum(run.p95 for run in runs) / len(runs) <= 1.15 * p95  # Poisson arrivals: 106 s


@pytest.mark.parametrize(
    "scenario, jobs, p95", [("lipsync", 100, 77), ("lipsync", 500, 439), ("models", 500, 476)]
)
def test_a_backoff_that_learns_nothing_meets_the_rows_of_bursts(scenario, jobs, p95):
    runs = [
        Simulation(scenario, jobs=jobs, arrive="burst", limit="60/m", seed=seed).run(
            "backoff 2s..10s x1.5"
        )
        for seed in SEEDS
    ]
    assert [run.rate_limited for run in runs] == [0] * len(runs)
    assert sum(run.p95 for run in runs) / len(runs) <= 1.1 * p95


def test_where_nothing_is_learned_no_order_by_age_is_much_better(monkeypatch):
    """The study's 95 s for Poisson arrivals fit 250 jobs of this mix: so the row is made here, on the same jobs."""

    def p95():
        return sum(
            Simulation("models", jobs=500, arrive="poisson 40/m", limit="60/m", seed=seed)
            .run("backoff 2s..10s x1.5")
            .p95
            for seed in SEEDS
        )

    ours = p95()
    monkeypatch.setattr(
        agenda, "_place", lambda entry, now: entry.state.wait_from
    )  # who waits longest
    assert ours <= 1.1 * p95()


def test_adaptive_is_shown_with_no_more_polls_than_each_of_its_rivals_makes(capsys):
    said = printed(capsys, "--scenario", "healthcare", "--jobs", "40", "--warm-up", "10", "--json")[
        "paces"
    ]
    adaptive = [one for one in said if one["pace"].startswith("adaptive")]
    for rival in (said[1], said[3]):
        assert any(
            one["polls_per_job"] <= rival["polls_per_job"]
            and one["notice_delay_s"]["mean"] <= rival["notice_delay_s"]["mean"]
            for one in adaptive
        ), rival
    assert all(one["rate_limited"] == 0 for one in said)
