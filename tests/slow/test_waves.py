"""Jobs that start together finish in order of their durations: that must not look like drift."""

import math
import random
from heapq import heappop, heappush

import pytest

from one_python import not_with_the_oldest
from pollkit import Adaptive, BatchPoller, Ledger, Profile, Simulation
from pollkit.core.learning.durations import Durations
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.machine import observe
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.drivers.simulation.distributions import parse_distribution
from pollkit.drivers.simulation.optimum import optimal_schedules
from pollkit.drivers.simulation.server import SimJob
from pollkit.testing import FakeJobApi, VirtualClock

pytestmark = not_with_the_oldest
GAP_S = 60000.0  # between two waves; longer than any job
SPREADS = {
    "uniform": (
        lambda rng: rng.uniform(120, 900),
        lambda times: "uniform %gs..%gs" % (120 * times, 900 * times),
    ),
    "lognormal": (
        lambda rng: rng.lognormvariate(math.log(300), math.log(1.6)),
        lambda times: "lognormal %gs x1.6" % (300 * times),
    ),
}
every_spread = pytest.mark.parametrize("name", sorted(SPREADS))
with_and_without_timestamps = pytest.mark.parametrize("timestamps", [False, True])


def mean(values):
    return sum(values) / len(values)


def best(spread):
    return optimal_schedules(parse_distribution(spread), [1.0])[0].cost


def costs_of(jobs, timestamps=False):
    """The cost of each job, given its start and its duration."""
    simulation = Simulation(
        durations=[lasts for _, lasts in jobs],
        timestamps=timestamps,
        limit="none",
        workers=len(jobs),
    )
    simulation.jobs = [SimJob(str(i), None, at, lasts) for i, (at, lasts) in enumerate(jobs)]
    polls = {}
    simulation.run("adaptive", lambda at, name: polls.setdefault(name, []).append(at))
    return [len(polls[job.id]) + polls[job.id][-1] - job.ends_at for job in simulation.jobs]


def waves(name, times, seeds=4, size=60, timestamps=False):
    """The mean cost of each wave relative to the optimum; `times` are factors of the durations."""
    draw, spread = SPREADS[name]
    rows = []
    for seed in range(seeds):
        rng = random.Random(seed)
        costs = costs_of(
            [
                (wave * GAP_S, factor * draw(rng))
                for wave, factor in enumerate(times)
                for _ in range(size)
            ],
            timestamps,
        )
        rows.append(
            [
                mean(costs[wave * size :][:size]) / best(spread(factor))
                for wave, factor in enumerate(times)
            ]
        )
    return [mean(column) for column in zip(*rows)]


@every_spread
@with_and_without_timestamps
def test_from_the_second_wave_on_costs_stay_near_the_optimum(name, timestamps):
    found = waves(name, [1] * 6, timestamps=timestamps)
    assert max(found[1:]) <= 1.15 and found[0] <= 1.3


@every_spread
@with_and_without_timestamps
def test_with_batchpoller_no_later_wave_costs_more_than_the_first(name, timestamps):
    draw, spread = SPREADS[name]
    rng = random.Random(5)
    clock = VirtualClock()
    costs = []
    with FakeJobApi(clock=clock) as api:
        paths = {} if timestamps else {"created": "nowhere", "finished": "nowhere"}
        with BatchPoller(
            api.profile._replace(timeout=None, **paths),
            pace="adaptive",
            clock=clock,
            workers=1,
            rng=random.Random(1).random,
        ) as batch:
            for wave in range(6):
                lasts = {"%d.%d" % (wave, i): draw(rng) for i in range(60)}
                for job, duration in lasts.items():
                    api.add(job, lasts=duration)
                outcomes = batch.run(list(lasts))
                assert (outcomes[0].notice_delay_s is not None) == timestamps
                costs.append(mean([one.polls + one.waited_s - lasts[one.id] for one in outcomes]))
    assert max(costs[1:]) <= costs[0] and max(costs[1:]) <= 1.25 * (best(spread(1)) + 1.0)


@every_spread
@with_and_without_timestamps
@pytest.mark.parametrize("factor", [5.0, 0.2])
def test_the_second_wave_after_a_change_is_near_the_optimum_again(name, timestamps, factor):
    found = waves(name, [1, 1, 1] + [factor] * 3, timestamps=timestamps)
    assert max(found[4:]) <= 1.25


@every_spread
@with_and_without_timestamps
@pytest.mark.parametrize("size", [12, 100, 400])
def test_within_a_first_burst_learning_saves_a_tenth_or_more(monkeypatch, name, timestamps, size):
    draw = SPREADS[name][0]
    seeds = {12: 60, 100: 12, 400: 4}[size]
    bursts = [
        [(0.0, draw(random.Random("%d %d" % (seed, i)))) for i in range(size)]
        for seed in range(seeds)
    ]
    learned = [mean(costs_of(jobs, timestamps)) for jobs in bursts]
    monkeypatch.setattr(Durations, "record_between", lambda *ages: None)
    monkeypatch.setattr(Durations, "see_pending", lambda *seen: None)
    assert mean(learned) <= 0.9 * mean([mean(costs_of(jobs, timestamps)) for jobs in bursts])


def stream(draw, rate, jobs, rng):
    at = 0.0
    for i in range(jobs):
        at += rng.expovariate(rate)
        yield at, draw(i, rng)


@every_spread
@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_change_is_found_in_a_stream_of_80_jobs_at_once(name, factor):
    draw, spread = SPREADS[name]
    rows = []
    for seed in range(3):
        rng = random.Random(seed)
        costs = costs_of(
            list(
                stream(
                    lambda i, rng: draw(rng) * (1.0 if i < 500 else factor), 80 / 500.0, 1000, rng
                )
            )
        )
        rows.append(
            (mean(costs[300:500]) / best(spread(1)), mean(costs[700:]) / best(spread(factor)))
        )
    before, after = [mean(column) for column in zip(*rows)]
    assert before <= 1.2 and after <= 1.3


@pytest.mark.parametrize("rate", [1.0, 4.0])
def test_a_job_in_fifty_that_takes_an_hour_does_not_stop_learning(rate):
    def draw(i, rng):
        if rng.random() < 0.02:
            return 3600.0
        duration = rng.uniform(10, 30)
        return duration if i < 1000 else 3 * duration

    jobs = list(stream(draw, rate, 2500, random.Random(1)))
    costs = [(i, cost) for i, (cost, job) in enumerate(zip(costs_of(jobs), jobs)) if job[1] < 3600]
    assert mean([cost for i, cost in costs if 500 <= i < 1000]) <= 1.3 * best("uniform 10s..30s")
    assert mean([cost for i, cost in costs if i >= 1500]) <= 1.3 * best("uniform 30s..90s")


def through_ledger(ledger, clock, lasts, durations):
    """The cost per job if a ledger run polls them and reads the history again every 20 s."""
    settings = WaitSettings(pace=Adaptive(), timeout=None, durations=durations)
    ledger.add(lasts)
    started_at = clock.now()
    cost = 0.0
    relearn_at = 0.0
    heap = [
        (0.0, i, claim, None)
        for i, claim in enumerate(ledger._leases.claim(len(lasts), horizon_s=1.0))
    ]
    assert len(heap) == len(lasts)
    while heap:
        at, i, claim, state = heappop(heap)
        clock.sleep_until(at)
        now = clock.now()
        if now >= relearn_at:
            durations.relearn(*ledger.statistics.observed())
            relearn_at = now + 20.0
        if state is None:
            state = claim.resume("u", settings, now)
        late = now - started_at - lasts[claim.job.id]
        state = observe(
            state, settings, Reading(Verdict.PENDING if late < 0 else Verdict.DONE, ""), now, 0.5
        )
        if state.ending is None:
            heappush(heap, (state.next_at, i, claim, state))
        else:
            cost += state.polls + late
            ledger._leases.renew([claim], 60.0)
            assert ledger._leases.save_outcome(claim, state, state.outcome(Profile(), 0.0))
    return cost / len(lasts)


@every_spread
def test_with_a_ledger_no_later_wave_costs_more_than_the_first(name, tmp_path):
    draw, spread = SPREADS[name]
    rng = random.Random(5)
    clock = VirtualClock()
    durations = Durations()
    with Ledger(str(tmp_path / "jobs.db"), clock=clock) as ledger:
        costs = [
            through_ledger(
                ledger, clock, {"%d.%d" % (wave, i): draw(rng) for i in range(60)}, durations
            )
            for wave in range(6)
        ]
    assert max(costs[1:]) <= costs[0] and max(costs[1:]) <= 1.25 * (best(spread(1)) + 1.0)
