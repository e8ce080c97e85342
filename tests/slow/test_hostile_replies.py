"""All hostile replies: what they cost a poll, and that 200 other jobs of a batch do not notice.

tests/edges/http/test_bounded_work.py has some of them.
"""

import pytest

import bounded_batch
import bounded_poll
from hostile_replies import CASES

BESIDE_OTHERS = [
    "hang",
    "drip",
    "reset",
    "flood",
    "endless headers",
    "endless chunks of one byte",
    "chunks in segments of one byte",
    "endless interim replies",
    "gzip of over 10 MB",
    "gzip of empty objects",
    "nested lists",
    "as many empty objects as are read",
    "2 million digits",
    "a header line of 60 kB",
    "stray replies",
]
pytestmark = pytest.mark.skipif(
    not bounded_poll.CAN_MEASURE, reason="needs Linux to measure memory"
)


@pytest.mark.parametrize("title", list(CASES))
def test_no_reply_takes_much_time_or_memory(title):
    bounded_poll.check_cost(title)


@pytest.mark.parametrize("title", BESIDE_OTHERS)
def test_200_other_jobs_of_a_batch_see_no_delay(title):
    bounded_batch.check_cost(title)
