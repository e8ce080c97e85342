"""Batches of jobs that start together share a history file."""

import random
import time

from pollkit import BatchPoller
from pollkit.core.learning.durations import RECENT
from pollkit.drivers.simulation.distributions import parse_distribution
from pollkit.drivers.simulation.optimum import optimal_schedules
from pollkit.edges.history_file import History, Kind
from pollkit.testing import FakeJobApi, VirtualClock

SIZE = 60


def test_the_history_of_jobs_that_start_together_is_not_biased_to_those_that_finish_last(tmp_path):
    rng = random.Random(5)
    costs = []
    path = str(tmp_path / "history.json")
    clock = VirtualClock(wall=time.time() - 10**6)
    with FakeJobApi(clock=clock) as api:
        profile = api.profile._replace(timeout=None, pace="adaptive")
        for wave in range(4):
            lasts = {"%d.%d" % (wave, i): rng.uniform(120, 900) for i in range(SIZE)}
            for name, duration in lasts.items():
                api.add(name, lasts=duration)
            with History(path) as history, BatchPoller(
                profile, clock=clock, workers=1, history=history
            ) as batch:
                outcomes = batch.run(list(lasts))
            costs.append(
                sum(each.polls + each.waited_s - lasts[each.id] for each in outcomes) / SIZE
            )
    found = History(path).durations(Kind("fake")).as_dict()["durations"]
    assert len(found) == RECENT and min(found) < 150 and max(found) > 870
    # The first wave learns while it runs, so it costs little more than the later ones.
    assert max(costs[1:]) < costs[0]
    best = optimal_schedules(parse_distribution("uniform 120s..900s"), [1.0])[0].cost
    assert max(costs[1:]) < 1.1 * (best + 1.0)  # the first poll, which comes at once, costs 1 s
