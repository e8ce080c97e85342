"""How outages extend deadlines."""

import pytest

from pollkit.core.scheduling.outages import Outage
from pollkit.core.waiting.ends.deadlines import outage_seconds

HERE = "https://api.internal"


def outage(began_at, ended_at=None, origin=HERE):
    return Outage(origin, began_at, "refused", 0.0, ended_at=ended_at)


@pytest.mark.parametrize(
    "outages, expected_s",
    [
        ([], 0),
        ([outage(150, 160)], 10),
        ([outage(150, 160), outage(170, 190)], 30),
        ([outage(90, 110)], 10),
        ([outage(50, 90)], 0),
        ([outage(180)], 20),
        ([outage(10)], 100),
        ([outage(150, 160, "https://other.internal")], 0),
    ],
)
def test_the_outages_of_the_origin_since_the_job_was_added_count(outages, expected_s):
    assert outage_seconds(outages, HERE, since=100, now=200) == expected_s


def test_a_day_in_all_counts_at_most():
    hour = 3600.0
    several = [outage(0, 20 * hour), outage(30 * hour, 50 * hour)]
    assert outage_seconds(several, HERE, since=0, now=60 * hour) == 24 * hour
    assert outage_seconds([outage(0)], HERE, since=0, now=60 * hour) == 24 * hour
