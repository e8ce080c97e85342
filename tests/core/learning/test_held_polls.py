"""When a held poll begins."""

import pytest

from adaptive_waits import LIPSYNC
from pollkit.core.learning.curve import NOTHING_KNOWN, Curve
from pollkit.core.learning.estimate import Estimate
from pollkit.core.learning.held_polls import delay_before_hold


def delay(curve, age, hold_s, price=1.0, estimate=None):
    return delay_before_hold(
        curve, age, hold_s, price=price, least=0.5, most=300.0, estimate=estimate
    )


@pytest.mark.parametrize("age", [0.0, 300.0, 800.0])
def test_without_a_hold_the_rule_is_that_of_ordinary_polls(age):
    curve = Curve(LIPSYNC)
    assert delay(curve, age, 0.0) == pytest.approx(curve.next_delay(age, 1.0, 0.5, 300.0), abs=0.01)


def test_the_longer_a_poll_is_held_the_earlier_it_begins():
    curve = Curve(LIPSYNC)
    delays = [delay(curve, 300.0, hold_s) for hold_s in (0.0, 10.0, 25.0, 60.0, 600.0)]
    assert delays == sorted(delays, reverse=True) and delays[-1] < 3.0


def test_a_higher_price_lets_a_held_poll_begin_later():
    curve = Curve(LIPSYNC)
    assert delay(curve, 300.0, 25.0, price=4.0) > 2 * delay(curve, 300.0, 25.0)


def test_a_held_poll_does_not_begin_while_no_job_finishes():
    assert min(LIPSYNC) < delay(Curve(LIPSYNC), 0.0, 25.0) < min(LIPSYNC) + 30.0


def test_the_delay_has_its_bounds():
    assert delay(Curve([90.0] * 30), 89.9, 25.0) == pytest.approx(0.5, abs=0.01)
    assert delay(Curve([3600.0] * 200), 0.0, 2.0) == 300.0


def test_without_history_polls_are_held_nearly_all_the_time():
    assert delay(NOTHING_KNOWN, 0.0, 25.0) < 1.0
    assert delay(NOTHING_KNOWN, -5.0, 25.0) == delay(NOTHING_KNOWN, 0.0, 25.0)


def test_progress_of_the_job_itself_counts():
    curve = Curve(LIPSYNC)
    soon = Estimate(earliest=305.0, latest=310.0, trust=0.95, most_postponed=4.0)
    late = Estimate(earliest=700.0, latest=710.0, trust=0.95, most_postponed=4.0)
    assert delay(curve, 300.0, 25.0, estimate=soon) < 6.0
    assert delay(curve, 300.0, 25.0, estimate=late) > 3 * delay(curve, 300.0, 25.0)
    disproved = Estimate(earliest=100.0, latest=200.0, trust=0.95, most_postponed=4.0)
    assert delay(curve, 300.0, 25.0, estimate=disproved) == delay(curve, 300.0, 25.0)
