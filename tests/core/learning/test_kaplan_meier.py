"""The survival function from finished and pending jobs."""

import random

import pytest

from pollkit.core.learning.curve import Curve, cold_interval
from pollkit.core.learning.kaplan_meier import OLDEST, PRIOR_S, corners_of, corners_of_pending


def heights(ages, pending=()):
    """The share of jobs that still run at each age, without the prior."""
    return dict(corners_of(sorted(ages), sorted(pending)).knots)


def test_without_pending_jobs_the_durations_divide_the_jobs_into_equal_shares():
    found = heights([10.0, 20.0, 30.0])
    assert [found[age] for age in (10.0, 20.0, 30.0)] == pytest.approx([0.75, 0.5, 0.25])


def test_a_pending_job_counts_at_the_ages_that_it_has_reached():
    """Kaplan and Meier: each finish takes 1 / (at risk + 1) of the jobs that are left."""
    found = heights([10.0, 20.0], pending=[15.0, 25.0])
    assert found[10.0] == pytest.approx(4 / 5)  # four jobs reached 10 s
    assert found[20.0] == pytest.approx(4 / 5 * 2 / 3)  # the one last seen at 15 s does not count


def test_the_first_finishes_of_a_wave_do_not_make_the_others_look_as_short():
    rng = random.Random(1)
    wave = sorted(rng.uniform(120, 900) for _ in range(200))
    found = Curve(wave[:40], [wave[39]] * 160)
    biased = Curve(wave[:40])
    truth = 1 - (wave[39] - 120) / 780
    assert found.survival(wave[39]) == pytest.approx(truth, abs=0.05)
    assert biased.survival(wave[39]) < 0.1


def test_the_order_in_which_jobs_are_given_makes_no_difference():
    rng = random.Random(2)
    durations = [rng.uniform(10, 90) for _ in range(50)]
    assert Curve(durations).at(40.0) == Curve(sorted(durations)).at(40.0)


# The tail


@pytest.mark.parametrize("longest", [14.0, 140.0, 1400.0])
def test_just_past_the_longest_duration_polls_are_as_dense_as_before_and_then_less_dense(longest):
    curve = Curve([longest * (0.5 + i / 40) for i in range(21)])
    before = curve.next_delay(0.95 * longest, 1.0, 0.01, 1e6)
    waits = [
        curve.next_delay(longest * past, 1.0, 0.01, 1e6) for past in (1.0, 1.1, 1.5, 3.0, 10.0)
    ]
    assert waits[0] < min(3 * before, cold_interval(1, longest) / 3)
    assert waits == sorted(waits) and waits[-1] > 3 * waits[0]


def test_a_job_slightly_longer_than_seven_known_ones_is_noticed_soon():
    """It was noticed 9.8 s late, because past the longest only the prior counted."""
    rng = random.Random(1)
    late = []
    for _ in range(200):
        curve = Curve([rng.uniform(5, 13) for _ in range(6)] + [14.0])
        age = 0.0
        while age < 15.05:
            age += curve.next_delay(age, 1.0, 0.5, 300.0)
        late.append(age - 15.05)
    assert max(late) < 6.0 and sum(late) / len(late) < 1.6


def test_pending_jobs_past_the_last_finish_make_the_tail_longer():
    ages = [100.0 + i for i in range(20)]
    alone = corners_of(ages, []).tail_s
    assert corners_of(ages, [200.0] * 5).tail_s > 3 * alone
    assert corners_of(ages, [50.0] * 5).tail_s == alone  # they did not get that far


# No job has finished


def test_nothing_known_is_the_prior():
    assert corners_of_pending([]) == ([(0.0, 1.0)], PRIOR_S)


def test_past_the_oldest_pending_job_the_next_poll_is_that_of_a_job_alone():
    curve = Curve([], [20.0, 60.0])
    assert curve.next_delay(60.0, 1.0, 0.5, 300.0) == pytest.approx(cold_interval(1, 60), rel=1e-3)


def test_the_more_jobs_are_pending_the_longer_a_younger_one_waits():
    delays = [Curve([], [60.0] * count).next_delay(0.0, 1.0, 0.5, 300.0) for count in (0, 1, 5, 30)]
    assert delays == sorted(set(delays))
    assert 55.0 < delays[-1] <= 60.0 + cold_interval(1, 60)


def test_one_old_job_says_less_about_later_ages_than_many():
    one = Curve([], [10.0] * 20 + [1000.0])
    many = Curve([], [10.0] * 20 + [1000.0] * 20)
    assert one.survival(1000.0) < 0.5 < many.survival(1000.0)


def test_of_many_pending_jobs_only_the_oldest_count():
    oldest = [60.0 + i for i in range(OLDEST)]
    assert Curve([], [1.0] * 500 + oldest).at(80.0) == Curve([], oldest).at(80.0)
