"""The simulated server: its limiters and its answers."""

import pytest

from pollkit.core.reading.verdict import Verdict
from pollkit.core.units import parse_limit
from pollkit.drivers.simulation.server import WINDOWS, FixedWindow, SimJob, SimulatedApi, Tokens

# The simulated server


def test_a_fixed_window_refuses_excess_requests_until_the_next_window():
    limiter = FixedWindow(parse_limit("2/m"))
    assert [limiter.retry_after(at) for at in (0.0, 10.0, 20.5, 59.9, 60.0, 61.0, 62.0)] == [
        None,
        None,
        40,
        1,
        None,
        None,
        58,
    ]


def test_a_token_bucket_refuses_requests_until_there_is_a_token():
    limiter = Tokens(parse_limit("2/m"))
    assert [
        limiter.retry_after(at) for at in (0.0, 0.0, 0.0, 15.0, 30.0, 30.0, 3000.0, 3000.0, 3000.0)
    ] == [None, None, 30, 15, None, 30, None, None, 30]
    assert [Tokens(parse_limit("60/m burst 1")).retry_after(0.0) for _ in range(2)] == [None, None]


def test_only_replies_with_timestamps_state_the_true_end():
    job = SimJob("a", None, 100.0, 50.0)
    plain = SimulatedApi([job])
    with_timestamps = SimulatedApi([job], timestamps=True)
    assert plain.answer("a", 149.9, 150.0).verdict is Verdict.PENDING
    done = with_timestamps.answer("a", 160.0, 160.5)
    assert (done.verdict, done.duration_s, done.notice_delay_s) == (Verdict.DONE, 50.0, 10.5)
    assert plain.answer("a", 160.0, 160.5).duration_s is None


@pytest.mark.parametrize("window", WINDOWS)
def test_several_limits_are_enforced_at_once(window):
    api = SimulatedApi([SimJob("a", None, 0.0, 9e9)], parse_limit("2/s, 5/h"), window=window)
    verdicts = [api.answer("a", float(at), float(at)).verdict for at in range(7)]
    assert verdicts == [Verdict.PENDING] * 5 + [Verdict.LIMITED] * 2
    assert api.answer("a", 8.0, 8.0).retry_after > 500.0
