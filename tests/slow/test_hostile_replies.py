"""All hostile replies; tests/edges/http/test_bounded_work.py has some of them."""

import pytest

import bounded_poll
from hostile_replies import CASES


@pytest.mark.skipif(not bounded_poll.CAN_MEASURE, reason="needs Linux to measure memory")
@pytest.mark.parametrize("title", list(CASES))
def test_no_reply_takes_much_time_or_memory(title):
    bounded_poll.check_cost(title)
