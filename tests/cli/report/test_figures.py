"""The headline figures."""

import pytest

from pollkit.cli.report.figures import (
    MOST_SIMULATED_JOBS,
    Loop,
    Quantiles,
    _sample,
    outage_seconds,
    saved_share,
    saved_text,
    simulate_loop,
    state_counts,
)
from pollkit.core.scheduling.outages import Outage


def test_the_loop_polls_at_once_and_then_every_30_s():
    loop = simulate_loop([45.0, 75.0])
    assert loop.polls_per_job == pytest.approx(3.5)  # at 0, 30, 60; at 0, 30, 60, 90
    assert loop.mean_delay_s == pytest.approx(15.0)
    assert saved_share(loop, 0.7) == pytest.approx(0.8)
    assert saved_share(Loop(2.0, 15.0), 3.0) == pytest.approx(-0.5)


@pytest.mark.parametrize("share, text", [(0.8, "80% saved"), (-0.5, "50% more"), (0, "0% saved")])
def test_more_polls_than_the_loop_are_not_called_savings(share, text):
    assert saved_text(share) == text


def test_without_durations_there_is_no_loop():
    assert simulate_loop([]) is None
    assert simulate_loop([0.0]) is None


def test_many_or_long_durations_are_sampled():
    assert len(_sample([60.0] * 10000)) <= MOST_SIMULATED_JOBS
    week_long = _sample([604800.0] * 200)
    assert 1 <= len(week_long) <= 3
    assert len(_sample([60.0] * 7)) == 7


def test_quantiles():
    assert Quantiles.of_values([]) is None
    assert Quantiles.of_values([3.0, 1.0, 2.0]) == (2.0, 3.0, 2.0)


def test_an_outage_that_lasts_counts_until_now():
    ended = Outage("https://a", 100.0, "refused", 0.0, ended_at=160.0)
    current = Outage("https://b", 200.0, "refused", 0.0)
    assert outage_seconds([ended, current], 230.0) == 90.0


def test_states_are_counted_with_the_finished_ones_first():
    counts = state_counts(["waiting", "failed", "done", "done", "timed_out"])
    assert list(counts.items()) == [("done", 2), ("failed", 1), ("timed_out", 1), ("waiting", 1)]
