"""Jobs that a server works off one after the other."""

import random

import pytest

from pollkit.core.learning.durations import Durations
from pollkit.core.learning.queueing import Queue, find_queue, is_ordered_wave


def exact(ends, starts=None):
    starts = starts or [i / 1e6 for i in range(len(ends))]
    return [(start, end, end) for start, end in zip(starts, ends)]


def served(services, workers=1, starts=None):
    """The finishes of jobs that so many workers serve in order."""
    starts = starts or [i / 1e6 for i in range(len(services))]
    free_at = [0.0] * workers
    ends = []
    for start, service in zip(starts, services):
        worker = free_at.index(min(free_at))
        free_at[worker] = max(free_at[worker], start) + service
        ends.append(free_at[worker])
    return exact(ends, starts)


def test_regular_finishes_in_the_order_of_the_starts_are_a_queue():
    assert find_queue(served([8.0] * 13), [], None) == Queue(pytest.approx(104.0), 8.0, 0.0)


def test_services_of_different_lengths_are_a_queue_too():
    rng = random.Random(1)
    queue = find_queue(served([rng.uniform(4, 12) for _ in range(13)]), [], None)
    assert 6 < queue.spacing < 10 and 0.5 < queue.spread < 4


def test_a_queue_that_is_fed_while_it_is_worked_off_is_found():
    assert (
        find_queue(served([8.0] * 13, starts=[5.0 * i for i in range(13)]), [], None).spacing == 8.0
    )


@pytest.mark.parametrize("seed", range(30))
def test_jobs_that_do_not_wait_for_each_other_are_no_queue(seed):
    rng = random.Random(seed)
    together = [i / 1e6 for i in range(13)]
    streamed = [50.0 * i for i in range(13)]
    regular = [100.0 * i for i in range(13)]
    for starts in (together, streamed, regular):
        wide = exact([start + rng.uniform(120, 900) for start in starts], starts)
        narrow = exact([start + rng.uniform(600, 610) for start in starts], starts)
        assert find_queue(wide, [], None) is None and find_queue(narrow, [], None) is None


def test_jobs_that_run_alone_are_no_queue():
    starts = [1000.0 * i for i in range(13)]
    assert find_queue(exact([start + 8.0 for start in starts], starts), [], None) is None


def test_too_few_finishes_show_nothing_and_keep_what_was_known():
    known = Queue(100.0, 8.0, 0.5)
    few = [(start + 500.0, end + 500.0, end + 500.0) for start, end, _ in served([8.0] * 4)]
    assert find_queue(few, [], None) is None
    assert find_queue(few, [], known) == known._replace(finished_at=532.0)


def test_jobs_that_overtake_each_other_end_a_queue():
    ends = [104.0 - 8 * i for i in range(13)]
    assert find_queue(exact(ends), [], Queue(100.0, 8.0, 0.5)) is None


def test_a_job_seen_pending_after_later_ones_have_finished_is_in_no_queue():
    finishes = served([8.0] * 13)
    assert find_queue(finishes, [(-1.0, 5.0), (-2.0, 7.0)], None).spacing == 8.0
    assert find_queue(finishes, [(-1.0, 105.0)], None) is None


def test_a_queue_ends_if_most_running_jobs_started_before_one_that_has_finished():
    durations, starts = queue_of(20)
    durations.end(starts[2], (24.0, 24.0))  # the first two may be finished, too
    assert durations.spacing is not None
    durations.end(starts[15], (32.0, 32.0))
    assert durations.spacing is None


@pytest.mark.parametrize("rate", [1.0, 4.0])
def test_a_stream_of_jobs_is_no_queue(rate):
    """Some of them take very long, so that those that finish are nearly in order."""
    rng = random.Random(9)
    durations = Durations()
    running = {}
    for i in range(600):
        start = durations.begin(i / rate)
        running[start] = 900.0 if i % 50 == 0 else rng.uniform(30, 90)
        for other, duration in list(running.items()):
            age = start - other
            if duration <= age:
                durations.end(other, (duration, duration))
                del running[other]
            elif i % 20 == 0:
                durations.see_pending(other, age)
        assert durations.spacing is None


def test_finishes_known_only_as_intervals_show_the_spacing():
    """Polls every 20 s find two or three jobs at once."""
    finishes = [(i / 1e6, 8.0 * i // 20 * 20.0, 8.0 * i // 20 * 20.0 + 20.0) for i in range(1, 14)]
    assert find_queue(finishes, [], None).spacing == pytest.approx(8.0, abs=1.5)


def test_if_many_jobs_finish_within_one_interval_every_fourth_is_looked_at():
    finishes = [(i / 1e6, 0.8 * i // 10 * 10.0, 0.8 * i // 10 * 10.0 + 10.0) for i in range(1, 60)]
    assert find_queue(finishes[:13], [], None) is None
    assert find_queue(finishes, [], None).spacing == pytest.approx(0.8, abs=0.25)


def test_jobs_that_finish_three_at_a_time_are_not_expected_at_once():
    """Their starts are a microsecond apart, and so are their finishes."""
    durations = Durations()
    starts = [durations.begin(0.0) for _ in range(50)]
    for i, start in enumerate(starts):
        end = 8.0 * (i // 3 + 1)
        durations.end(start, (end, end))
    assert durations.spacing is None or durations.spacing > 1.0


def test_several_workers_finish_a_wave_in_order_which_is_no_drift():
    rng = random.Random(3)
    durations = Durations()
    for start, _, end in served([rng.uniform(3, 5) for _ in range(60)], workers=3):
        durations.record_between(end - start, end - start, start)
    assert len(durations) == 60


def test_a_wave_in_order_is_found_only_if_its_jobs_started_together():
    rng = random.Random(4)
    assert is_ordered_wave(served([rng.uniform(3, 5) for _ in range(30)], workers=3), [])
    apart = [20.0 * i for i in range(30)]
    assert not is_ordered_wave(exact([start + 100.0 for start in apart], apart), [])
    assert not is_ordered_wave(exact([rng.uniform(120, 900) for _ in range(30)]), [])


# Estimates


def queue_of(count, seen=None):
    """Durations after a wave in a queue, and the starts of a second wave of `count` jobs."""
    durations = Durations()
    for i in range(1, 14):
        start = durations.begin(0.0)
        durations.end(start, (8.0 * i, 8.0 * i))
    starts = [durations.begin(1000.0) for _ in range(count)]
    return durations, starts


def test_the_first_job_is_expected_one_spacing_after_the_start_and_the_others_follow():
    durations, starts = queue_of(3)
    assert durations.spacing == pytest.approx(8.0)
    middles = [sum(durations.estimate(start)[:2]) / 2 for start in starts]
    assert middles == pytest.approx([8.0, 16.0, 24.0], abs=0.01)


def test_after_each_finish_the_others_are_expected_from_there():
    durations, starts = queue_of(3)
    durations.end(starts[0], (11.0, 11.0))  # three seconds late
    assert sum(durations.estimate(starts[1])[:2]) / 2 == pytest.approx(19.0, abs=0.5)


def test_a_first_job_that_is_late_delays_the_others():
    durations, starts = queue_of(3)
    durations.see_pending(starts[0], 20.0)
    assert durations.estimate(starts[0]).earliest > 20.0
    assert durations.estimate(starts[1]).earliest > 28.0


def test_the_estimate_is_wider_for_jobs_farther_back():
    durations, starts = queue_of(20)
    widths = [each.latest - each.earliest for each in map(durations.estimate, starts)]
    assert widths == sorted(set(widths))


def test_the_next_process_finds_the_queue_in_the_saved_durations():
    durations, _ = queue_of(0)
    loaded = Durations.from_dict(durations.as_dict())
    assert loaded.spacing == durations.spacing == pytest.approx(8.0)
    independent = dict(
        loaded.as_dict(), durations=[5.0, 90.0, 31.0] + loaded.as_dict()["durations"][3:]
    )
    independent["durations"].reverse()
    assert Durations.from_dict(independent).spacing is None


def test_without_a_queue_or_running_jobs_there_is_no_estimate():
    durations, starts = queue_of(1)
    durations.end(starts[0], None)
    assert durations.estimate(starts[0]) is None
    assert Durations().estimate(5.0) is None and Durations().spacing is None
