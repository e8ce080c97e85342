"""The ages of pending jobs: by start, and in order."""

import random

from pollkit.core.learning.pending_ages import PendingAges


def test_ages_are_found_by_start_and_in_order_after_any_changes():
    rng = random.Random(5)
    ages = PendingAges()
    expected = {}
    for _ in range(2000):
        start = float(rng.randrange(40))
        if rng.random() < 0.6:
            age = float(rng.randrange(1, 9))
            assert ages.set(start, age) == (start in expected)
            expected[start] = age
        else:
            assert ages.remove(start) == (expected.pop(start, None) is not None)
        assert len(ages) == len(expected)
        assert [ages.get(each) for each in range(40)] == [expected.get(i) for i in range(40)]
        assert list(ages.in_order) == sorted(expected.values())
        assert list(ages.newest_first()) == sorted(expected.items(), reverse=True)


def test_the_jobs_that_started_before_an_instant_can_be_listed_and_removed():
    ages = PendingAges({3.0: 10.0, 1.0: 30.0, 2.0: 20.0})
    assert ages.before(3.0) == [20.0, 30.0] and ages.before(1.0) == []
    assert ages.remove_before(1.0) == 0
    assert ages.remove_before(2.5) == 2
    assert list(ages.newest_first()) == [(3.0, 10.0)] and list(ages.in_order) == [10.0]
