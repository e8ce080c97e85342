"""What past jobs teach about when to look: the model of one kind of job."""

import json
import math
import random

import pytest

from pollkit import ConfigError
from pollkit.core.learning import durations as module
from pollkit.core.learning.curve import PRIOR_S, Curve, ProgressEstimate, cold_interval
from pollkit.core.learning.durations import ENOUGH, RECENT, Completion, Durations

RNG = random.Random(6)
UNIFORM = [RNG.uniform(120, 900) for _ in range(200)]
SHAPES = {
    "nothing": [],
    "one": [60.0],
    "two": [60.0, 90.0],
    "uniform": UNIFORM,
    "all the same": [90.0] * 50,
    "all nothing": [0.0] * 50,
    "whole minutes": [60.0 * RNG.randint(1, 8) for _ in range(200)],
    "two kinds": [RNG.uniform(1.5, 2.5) for _ in range(100)]
    + [RNG.uniform(450, 510) for _ in range(100)],
    "heavy tail": [5 * (1 - RNG.random()) ** -0.9 for _ in range(200)],
    "huge": [1e8, 2e8, 3e8],
    "tiny": [1e-6, 2e-6, 1e-6],
    "mixed": [0.0, 1e-6, 1.0, 1e8],
}
every_shape = pytest.mark.parametrize("name", sorted(SHAPES))


@every_shape
def test_survival_falls_from_one_and_never_to_zero_and_the_integral_is_its_integral(name):
    curve = Curve(SHAPES[name])
    longest = max(SHAPES[name] + [100.0]) * 1.5
    ages = [longest * (i / 1000.0) ** 2 for i in range(1001)]
    survivals = [curve.survival(age) for age in ages]
    assert curve.survival(0.0) <= 1.0 and curve.integral(0.0) == 0.0
    assert all(0.0 < later <= earlier for earlier, later in zip(survivals, survivals[1:]))
    for low, high in zip(ages, ages[1:]):
        grown = curve.integral(high) - curve.integral(low)
        slack = 1e-9 * (1 + longest)
        assert (
            curve.survival(high) * (high - low) - slack
            <= grown
            <= curve.survival(low) * (high - low) + slack
        )


@every_shape
@pytest.mark.parametrize("price", [0.1, 1.0, 30.0])
def test_the_next_look_comes_when_the_accrued_delay_is_worth_its_price(name, price):
    curve = Curve(SHAPES[name])
    for age in [0.0, 1.0, 59.0, 60.0, 90.0, 300.0, 899.0, 5000.0]:
        wait = curve.next_delay(age, price, 1e-3, 1e7)
        assert 1e-3 <= wait <= 1e7
        if wait > 1e-3:
            assert curve.accrued_delay(age, age + wait) <= price * 1.001
        # Where it comes sooner, nothing that was seen ends between it and when it would have come.
        full = wait
        while wait > 1e-3 and full < 1e7 and curve.accrued_delay(age, age + full) < price * 0.999:
            full *= 1.0005
        assert not any(age + wait < each < age + full * 0.999 for each in SHAPES[name])


@pytest.mark.parametrize("spread", [0.0, 0.01, 0.1])
def test_jobs_that_all_take_as_long_are_looked_at_just_then(spread):
    """And not when the delay of one is worth a poll."""
    curve = Curve([90 + spread * (i * 0.618 % 1) for i in range(100)])
    assert 90 + spread * 0.9 <= curve.next_delay(0.0, 1.0, 0.5, 300.0) <= 90 + spread * 1.1


def test_after_a_cache_hit_a_look_waits_for_stragglers():
    """Those that ended so far do not show the very edge, and the next look is minutes away."""
    curve = Curve([2 + 0.4 * (i * 0.618 % 1) if i % 2 else 460 + i for i in range(60)])
    assert 3.0 < curve.next_delay(0.0, 1.0, 0.5, 300.0) < 5.0


def test_with_nothing_known_it_is_the_cold_law():
    for age in (0.0, 8.0, 60.0, 3600.0):
        assert Durations().curve.next_delay(age, 1.0, 0.5, 1e9) == pytest.approx(
            cold_interval(1.0, age), rel=1e-3
        )
    assert Durations().curve.accrued_delay(0.0, 100.0) == pytest.approx(
        (108**0.5 - PRIOR_S**0.5) ** 2
    )


def test_a_history_says_what_its_curve_does():
    durations = Durations(UNIFORM)
    for age in (0.0, 300.0, 1000.0):
        assert (durations.survival(age), durations.integral(age)) == durations.curve.at(age)


def test_the_survival_mixes_past_jobs_with_the_prior():
    curve = Curve([100.0, 200.0, 300.0])
    prior = (1 + 200 / 8.0) ** -0.5
    assert curve.survival(200.0) == pytest.approx((3 * 0.5 + 0.25 * prior) / 3.25)
    assert curve.survival(250.0) == pytest.approx(
        (3 * 0.375 + 0.25 * (1 + 250 / 8.0) ** -0.5) / 3.25
    )
    assert curve.survival(401.0) == pytest.approx(
        0.25 * (1 + 401 / 8.0) ** -0.5 / 3.25
    )  # past the last stretch


def test_jobs_known_well_are_looked_at_when_they_begin_to_end_and_closely_then():
    known = Durations(UNIFORM)
    assert 120 < known.curve.next_delay(0.0, 1.0, 0.5, 300) < 170
    waits = [known.curve.next_delay(age, 1.0, 0.5, 300) for age in (150, 500, 850)]
    assert 60 > waits[0] > waits[1] > waits[2]


def test_a_gap_stays_empty():
    """A cache hit takes 2 s, a miss 8 min: a job that is not done at 4 s is looked at when misses end."""
    curve = Curve(SHAPES["two kinds"])
    assert curve.survival(5.0) - curve.survival(430.0) < 0.01
    assert 4.0 + curve.next_delay(4.0, 1.0, 0.5, 1000) > 400


def test_a_long_tail_is_no_gap():
    ages = [float(2**i) for i in range(12)]
    curve = Curve(ages)
    assert all(curve.survival(age * 1.5) < curve.survival(age) - 0.02 for age in ages[:-1])


def test_jobs_that_all_take_the_same_are_looked_at_just_then():
    durations = Durations([90.0] * 30)
    assert durations.curve.next_delay(0.0, 1.0, 0.5, 300) == 90.0
    assert durations.curve.next_delay(30.0, 1.0, 0.5, 300) == 60.0
    assert durations.curve.next_delay(89.9, 1.0, 0.5, 300) == 0.5


def test_min_and_max_hold():
    durations = Durations(UNIFORM)
    assert durations.curve.next_delay(0.0, 1.0, 0.5, 30.0) == 30.0
    assert durations.curve.next_delay(899.0, 1.0, 25.0, 300.0) >= 25.0
    assert Durations([5.0] * 30).curve.next_delay(0.0, 1.0, 7.0, 300.0) == 7.0


def test_an_age_below_zero_counts_as_zero():
    durations = Durations(UNIFORM)
    assert durations.curve.next_delay(-1e9, 1.0, 0.5, 300) == durations.curve.next_delay(
        0.0, 1.0, 0.5, 300
    )
    assert durations.curve.accrued_delay(-100.0, -50.0) == 0.0


def test_the_search_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_NEWTON_STEPS", 1)
    assert 0.5 <= Durations(UNIFORM).curve.next_delay(150.0, 1.0, 0.5, 300.0) <= 300.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, 1e12, 10**400, None, "5", True])
def test_what_is_no_duration_is_refused_and_changes_nothing(bad):
    durations = Durations([10.0, 20.0])
    before = durations.as_dict()
    assert not durations.record(bad)
    assert not durations.record_between(bad, 5.0) and not durations.record_between(5.0, bad)
    assert durations.as_dict() == before
    assert Durations([bad, 7.0]).as_dict()["durations"] == [7.0]


def test_an_interval_that_ends_before_it_begins_is_refused():
    assert not Durations().record_between(5.0, 4.0)


def test_intervals_are_kept_as_points_inside_evenly_spread():
    durations = Durations()
    for _ in range(100):
        assert durations.record_between(100.0, 200.0)
        durations._quantiles = []  # no drift: this is about where the points are
    points = sorted(durations.as_dict()["durations"])
    assert all(100 < point < 200 for point in points)
    assert max(high - low for low, high in zip(points, points[1:])) < 2.0
    assert durations.record_between(3.0, 3.0)


def test_only_the_last_completions_count():
    durations = Durations([10.0] * RECENT)
    for _ in range(3):
        durations.record(11.0)
    assert len(durations) == RECENT
    assert durations.as_dict()["durations"][-3:] == [11.0] * 3


@pytest.mark.parametrize("factor", [5.0, 0.2])
def test_after_four_in_a_row_at_one_edge_the_past_is_forgotten(factor):
    durations = Durations(UNIFORM)
    for i, duration in enumerate(
        [1300.0, 1400.0, 1500.0, 1600.0] if factor > 1 else [30.0, 25.0, 20.0, 15.0]
    ):
        assert len(durations) == RECENT, i
        durations.record(duration)
    assert len(durations) == 3


@pytest.mark.parametrize("low, high", [(780.0, 870.0), (130.0, 220.0)])
def test_after_twelve_off_the_middle_the_past_is_forgotten(low, high):
    durations = Durations(UNIFORM)
    for i in range(12):
        assert len(durations) == RECENT
        durations.record(low + (high - low) * (i * 0.618 % 1.0))
    assert len(durations) == 11


@pytest.mark.parametrize("factor", [2, 5, 0.5, 0.2])
def test_jobs_that_end_where_there_were_none_between_two_kinds_say_that_both_have_changed(factor):
    rng = random.Random(7)

    def drawn(i):
        return rng.uniform(1.8, 2.2) if i % 2 else rng.uniform(460, 500)

    durations = Durations(drawn(i) for i in range(60))
    for i in range(12):
        durations.record(factor * drawn(i))
    assert len(durations) <= 12


def test_two_kinds_that_now_end_on_either_side_of_what_was_known_have_changed():
    durations = Durations([5.0 + i / 20 if i % 2 else 60.0 + i / 5 for i in range(60)])
    for duration in (
        1.0,
        14.0,
        1.1,
        15.0,
    ):  # below all, and above those that they are nearer to, by ratio
        assert len(durations) >= 60
        durations.record(duration)
    assert len(durations) == 3


def test_the_first_after_a_change_do_not_hide_it_from_those_that_follow():
    durations = Durations(100.0 + i * 7 % 60 for i in range(60))
    for i in range(12):
        assert len(durations) == 60 + i
        durations.record(104.5 + i * 5 % 12)
    assert len(durations) == 11


@pytest.mark.parametrize(
    "name", ["uniform", "all the same", "whole minutes", "two kinds", "heavy tail"]
)
def test_while_nothing_changes_nothing_is_forgotten(name):
    rng = random.Random(11)
    durations, forgotten = Durations(SHAPES[name]), 0
    for _ in range(200):
        before = len(durations)
        durations.record(rng.choice(SHAPES[name]))
        forgotten += len(durations) < before
    assert forgotten <= 1  # by chance, once in two thousand


@every_shape
def test_it_is_kept_as_json_and_read_back(name):
    durations = Durations()
    for duration in SHAPES[name]:
        durations.record(duration)
    durations.record_between(1.0, 9.0)
    text = json.dumps(durations.as_dict())
    again = Durations.from_dict(json.loads(text))
    assert again.as_dict() == durations.as_dict()
    assert (
        sum(len(value) if isinstance(value, list) else 1 for value in json.loads(text).values())
        <= 413
    )
    for one in (durations, again):
        one.record_between(2.0, 50.0)
    assert again.as_dict() == durations.as_dict()
    assert again.curve.next_delay(3.0, 1.0, 0.5, 300) == durations.curve.next_delay(
        3.0, 1.0, 0.5, 300
    )


KEPT = Durations([1.0, 2.0, 3.0]).as_dict()


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        "x",
        {},
        {"durations": [1.0]},
        dict(KEPT, more=1),
        dict(KEPT, durations=None),
        dict(KEPT, durations=[1.0, "2"]),
        dict(KEPT, durations=[float("nan")]),
        dict(KEPT, durations=[-1.0]),
        dict(KEPT, durations=[True]),
        dict(KEPT, durations=[1.0] * 201, count=500),
        dict(KEPT, begun=None),
        dict(KEPT, begun=[1.0, 2.0]),
        dict(KEPT, begun=[1.0, 2.0, None]),
        dict(KEPT, begun=[1.0, 2.0, float("nan")]),
        dict(KEPT, begun=[-1.0, 2.0, 3.0]),
        dict(KEPT, begun=[0, 0, 1e15]),
        dict(KEPT, fits=[2.0]),
        dict(KEPT, fits=[0.5] * 13),
        dict(KEPT, fits="0"),
        dict(KEPT, fits=[None]),
        dict(KEPT, count=-1),
        dict(KEPT, count=2),
        dict(KEPT, count=3.0),
        dict(KEPT, count=True),
        dict(KEPT, count=None),
        dict(KEPT, count=10**400),
    ],
)
def test_a_damaged_one_is_refused_in_one_line(damaged):
    with pytest.raises(ConfigError) as caught:
        Durations.from_dict(damaged)
    assert "\n" not in str(caught.value)


# In which order


def test_what_began_before_others_that_are_known_is_put_in_its_place_and_witnesses_no_drift():
    durations = Durations()
    for began in (10.0, 20.0, 30.0):
        durations.record(began, began)
    fits = durations.as_dict()["fits"]
    assert durations.record(25.0, 25.0) and durations.record_between(5.0, 5.0, 5.0)
    assert durations.as_dict() == {
        "durations": [5.0, 10.0, 20.0, 25.0, 30.0],
        "begun": [5.0, 10.0, 20.0, 25.0, 30.0],
        "fits": fits,
        "count": 5,
    }
    assert durations.curve.survival(15.0) == Curve([5.0, 10.0, 20.0, 25.0, 30.0]).survival(15.0)
    assert (
        durations.record(40.0) and durations.as_dict()["begun"][-1] == 30.0
    )  # it began last, for all we know


def test_the_last_that_began_are_kept_and_not_the_last_that_ended():
    durations = Durations()
    for began in range(1, RECENT + 1):
        durations.record(UNIFORM[began - 1], began)
    assert durations.record(600.0, 0.5) and durations.as_dict()["count"] == RECENT + 1
    assert durations.as_dict()["begun"] == [float(began) for began in range(1, RECENT + 1)]
    durations.record(600.0, 1.5)
    assert durations.as_dict()["begun"][:2] == [1.5, 2.0]


@pytest.mark.parametrize("began", [float("nan"), -1.0, 1e15])
def test_what_began_at_no_instant_is_refused(began):
    durations = Durations([10.0])
    assert not durations.record(5.0, began) and durations.as_dict() == Durations([10.0]).as_dict()


def test_drift_is_seen_by_what_began_one_after_the_other_whatever_ended_late():
    durations = Durations(UNIFORM)
    for i in range(4):
        durations.record(1300.0, 100.0 + 10 * i)
        durations.record(500.0, 50.0 + i)
    assert durations.as_dict()["begun"][-3:] == [110.0, 120.0, 130.0] and len(durations) == 4


def lessons_of(durations, began, apart=0.0):
    return [Completion(each, each, began + apart * i) for i, each in enumerate(durations)]


def test_what_others_tell_of_jobs_that_ran_beside_known_ones_witnesses_no_drift():
    """Sixty processes wait for a job each, all begun together: whoever is done first tells first."""
    durations, rng = Durations(), random.Random(3)
    for wave in range(6):
        for duration in sorted(rng.uniform(120, 900) for _ in range(60)):
            durations.record_all(lessons_of([duration], 10000.0 * wave + rng.random()))
    assert len(durations) == RECENT
    for i in range(4):  # but where each began when the one before it had ended, they do
        durations.record_all(lessons_of([2000.0], 10.0**6 + 3000 * i))
    assert len(durations) == 3


def test_what_one_process_tells_witnesses_drift_in_order_of_beginning():
    durations = Durations(UNIFORM)
    durations.record_all(lessons_of([2000.0] * 3 + [3000.0] * 3, 10.0**6, apart=1.0))
    assert durations.as_dict()["durations"] == [2000.0, 2000.0, 3000.0, 3000.0, 3000.0]


def test_to_relearn_is_to_know_nothing_else_and_to_find_drift_again():
    durations, anew = Durations(UNIFORM), Durations()
    ends = [(each, each + 5.0) for each in UNIFORM[:30]] + [
        (each, each) for each in (5e3, 6e3, 7e3, 8e3)
    ]
    before = durations.curve
    durations.relearn(ends)
    for least_s, most_s in ends:
        anew.record_between(least_s, most_s)
    assert (
        durations.as_dict() == anew.as_dict()
        and len(durations) == 3
        and durations.curve is not before
    )


def test_what_ended_after_now_ended_just_now():
    """The clock was a year ahead once: what is learned today still counts for more than what was then."""
    value = dict(KEPT, begun=[10.0, 5000.0, 10.0**8])
    assert Durations.from_dict(value, 1000.0).as_dict()["begun"] == [10.0, 997.0, 998.0]
    assert Durations.from_dict(value).as_dict() == value
    unsorted = dict(KEPT, begun=[30.0, 10.0, 20.0])
    assert Durations.from_dict(unsorted).as_dict()["durations"] == [2.0, 3.0, 1.0]


def test_ages_by_share():
    curve = Curve([100.0 + i for i in range(99)])
    assert curve.age_by(0.5) == pytest.approx(149.0)
    assert curve.age_by(0.0) == pytest.approx(99.0)
    assert curve.age_by(1.0) == pytest.approx(199.0)
    assert Curve([90.0] * 9).age_by(0.5) == 90.0
    assert Curve([4.0]).age_by(0.25) == pytest.approx(3.0)
    assert Curve().age_by(-1.0) == 0.0


# Another opinion


@pytest.mark.parametrize("age", [0.0, 200.0, 480.0, 520.0])
def test_an_opinion_is_mixed_in_by_how_far_it_is_trusted(age):
    curve = Curve(UNIFORM)
    foreseen = ProgressEstimate(450.0, 550.0, 0.75)
    wait = curve.next_delay(age, 1.0, 1e-3, 1e6, foreseen)
    end, steps = age + wait, 4000
    opens = max(450.0, age)
    own = (
        sum(max(0.0, end - (opens + (550.0 - opens) * (i + 0.5) / steps)) for i in range(steps))
        / steps
    )
    assert 0.75 * own + 0.25 * curve.accrued_delay(age, end) == pytest.approx(1.0, rel=0.01)


def test_an_opinion_that_was_outlived_counts_for_nothing():
    curve = Curve(UNIFORM)
    assert curve.next_delay(
        600.0, 1.0, 0.5, 300, ProgressEstimate(450.0, 550.0, 0.75)
    ) == curve.next_delay(600.0, 1.0, 0.5, 300)
    assert curve.next_delay(500.0, 1.0, 0.5, 300, ProgressEstimate(499.0, 500.2, 0.75)) < 5


# It costs little


def exact_cost(curve, draws):
    """Polls and delay of the rule, the mean over these durations."""
    looks, age = [], 0.0
    while age < max(draws):
        age += curve.next_delay(age, 1.0, 0.5, 300.0)
        looks.append(age)
    return sum(
        1 + sum(look < draw for look in looks) + min(look for look in looks if look >= draw) - draw
        for draw in draws
    ) / len(draws)


def test_the_rule_is_near_the_known_optimum_of_an_even_spread():
    """2 sqrt(K) with K = 2/9 of the width: the optimum's high-rate law (Keller)."""
    draws = [120 + 780 * (i + 0.5) / 1500 for i in range(1500)]
    optimum = 2 * math.sqrt(780 * 2 / 9.0)
    assert exact_cost(Curve(draws[::8]), draws) < 1.06 * optimum


def test_knowing_intervals_only_the_cost_settles_near_the_optimum_and_stays_there():
    """Kept at the detecting look's own age, each schedule would teach the next one to be later."""
    rng, durations, settled = random.Random(3), Durations(), []
    draws = [120 + 180 * (i + 0.5) / 300 for i in range(300)]
    for job in range(401):
        duration, left, right = rng.uniform(120, 300), 0.0, 0.0
        while right < duration:
            left, right = right, right + durations.curve.next_delay(right, 1.0, 0.5, 300.0)
        durations.record_between(left, right)
        if job % 100 == 0:
            settled.append(exact_cost(durations.curve, draws) / (2 * math.sqrt(180 * 2 / 9.0)))
    assert max(settled[1:]) < 1.25 < settled[0]


def test_few_completions_are_enough_to_be_better_than_none():
    draws = [120 + 180 * (i + 0.5) / 300 for i in range(300)]
    assert exact_cost(Curve(draws[30::60][:ENOUGH]), draws) < 0.8 * exact_cost(Curve(), draws)
