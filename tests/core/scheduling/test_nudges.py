"""Nudges: a storm of callbacks causes a few polls, and the last callback is not lost."""

from pollkit.core.scheduling import nudges as module
from pollkit.core.scheduling.nudges import Nudges
from pollkit.core.units import NEVER


def nudged_during(storm):
    """The instants at which a job is nudged, if a callback comes at each of these instants."""
    nudges = Nudges()
    taken = []

    def take_until(until):
        while nudges.next_at() <= until:
            at = nudges.next_at()
            assert nudges.take_due(at) == ["job_1"]
            taken.append(at)

    for at in storm:
        take_until(at)
        nudges.add("job_1", at)
    take_until(1e9)
    return taken


def test_a_callback_nudges_its_job_at_once():
    nudges = Nudges()
    assert nudges.next_at() == NEVER and nudges.take_due(5.0) == []
    nudges.add("job_1", 5.0)
    assert nudges.next_at() == 5.0
    assert nudges.take_due(5.0) == ["job_1"]
    assert nudges.next_at() == NEVER


def test_callbacks_before_the_nudge_count_as_one():
    assert nudged_during([0.0, 0.0, 0.0]) == [0.0, 1.0]
    nudges = Nudges()
    for _ in range(1000):
        nudges.add("job_1", 0.0)
    assert nudges.take_due(0.0) == ["job_1"] and nudges.next_at() == NEVER


def test_a_storm_causes_few_nudges_and_the_last_comes_after_it():
    storm = [number / 1000 for number in range(10000)]
    assert nudged_during(storm) == [0, 1, 3, 7, 15]


def test_the_gap_grows_to_15_s_while_callbacks_keep_coming():
    taken = nudged_during([float(second) for second in range(300)])
    assert [later - earlier for earlier, later in zip(taken, taken[1:])][-3:] == [15, 15, 15]


def test_after_a_quiet_minute_the_gap_is_short_again():
    assert nudged_during([0, 0.5, 1.5, 63.5, 64.0]) == [0, 1, 3, 63.5, 64.5]


def test_jobs_do_not_delay_each_other():
    nudges = Nudges()
    nudges.add("job_1", 0.0)
    nudges.take_due(0.0)
    nudges.add("job_1", 0.5)
    nudges.add("job_2", 0.5)
    assert nudges.take_due(0.5) == ["job_2"]
    assert nudges.take_due(1.0) == ["job_1"]


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_JOBS", 3)
    nudges = Nudges()
    for number in range(5):
        nudges.add("job_%d" % number, 0.0)
    assert len(nudges.take_due(0.0)) == 3  # the others are polled at their pace
    for number in range(5, 9):
        nudges.add("job_%d" % number, 1.0)
        nudges.take_due(1.0)
    nudges.add("job_8", 1.5)
    nudges.add("job_0", 1.5)  # its last nudge is forgotten
    assert nudges.take_due(1.5) == ["job_0"]
    assert nudges.next_at() == 2.0
