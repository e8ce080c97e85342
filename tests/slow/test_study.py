"""Many jobs under one limit of 60 requests per minute, against the figures of a simulation study.

The study polled the same scenarios with a rate limiter, a FIFO queue and exponential backoff; its
means and 95th percentiles of the notice delay, in seconds, are the figures below.
"""

import json

import pytest

from one_python import not_with_the_oldest
from pollkit import Simulation
from pollkit.cli import main
from pollkit.core.scheduling import lane

pytestmark = not_with_the_oldest

SEEDS = range(1, 6)


def simulate(capsys, *words):
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
def test_adaptive_without_any_history_keeps_the_limit_and_is_hardly_later_than_in_the_study(
    scenario, jobs, arrive, mean, p95
):
    """Durations that are learned during the run help if labels differ."""
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
def test_a_backoff_is_hardly_later_than_in_the_study_for_bursts(scenario, jobs, p95):
    runs = [
        Simulation(scenario, jobs=jobs, arrive="burst", limit="60/m", seed=seed).run(
            "backoff 2s..10s x1.5"
        )
        for seed in SEEDS
    ]
    assert [run.rate_limited for run in runs] == [0] * len(runs)
    assert sum(run.p95 for run in runs) / len(runs) <= 1.1 * p95


def test_without_learning_the_job_that_waited_longest_first_is_hardly_better(monkeypatch):
    """The study's 95 s for Poisson arrivals fit 250 such jobs, so the figure is computed here."""

    def p95():
        return sum(
            Simulation("models", jobs=500, arrive="poisson 40/m", limit="60/m", seed=seed)
            .run("backoff 2s..10s x1.5")
            .p95
            for seed in SEEDS
        )

    ours = p95()
    # The job that has waited longest goes first.
    monkeypatch.setattr(lane, "_urgency", lambda entry, now: -entry.state.wait_from)
    assert ours <= 1.1 * p95()


def test_adaptive_is_shown_with_no_more_polls_than_each_of_its_rivals_makes(capsys):
    paces = simulate(
        capsys, "--scenario", "healthcare", "--jobs", "40", "--warm-up", "10", "--json"
    )["paces"]
    adaptive = [one for one in paces if one["pace"].startswith("adaptive")]
    for rival in (paces[1], paces[3]):
        assert any(
            one["polls_per_job"] <= rival["polls_per_job"]
            and one["notice_delay_s"]["mean"] <= rival["notice_delay_s"]["mean"]
            for one in adaptive
        ), rival
    assert all(one["rate_limited"] == 0 for one in paces)
