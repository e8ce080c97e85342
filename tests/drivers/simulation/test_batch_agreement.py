"""Simulation makes the polls that BatchPoller makes."""

import random

import pytest

from job_api import JobApi
from pollkit import BatchPoller, Job, Profile, Simulation
from pollkit.core.model import iso_text
from pollkit.core.reading.verdict import Verdict
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.drivers.endpoints import client
from pollkit.testing import VirtualClock


def run_and_list_polls(simulation, pace):
    """Each poll as (instant, job id), and the figures."""
    polls = []
    return polls, simulation.run(pace, on_poll=lambda at, job_id: polls.append((at, job_id)))


# The same polls as BatchPoller


def run_batch_poller(simulation, pace, **options):
    """Run the same jobs in BatchPoller over HTTP, with answers from the simulated server."""
    clock = VirtualClock()
    server = simulation.api()
    polls = []
    verdicts = []
    jobs = {job.id: job for job in simulation.jobs}

    def answer(name, count):
        now = clock.now()
        polls.append((now, name))
        reading = server.answer(name, now, now)
        verdicts.append(reading.verdict)
        if reading.verdict is Verdict.LIMITED:
            return 429, {"Retry-After": "%d" % reading.retry_after}, None
        if reading.verdict is Verdict.FAULT:
            return 500, {}, None
        body = {"status": reading.status}
        if reading.duration_s is not None:
            started_at = jobs[name].starts_at + clock.wall() - now
            body.update(
                created_at=iso_text(started_at),
                finished_at=iso_text(started_at + reading.duration_s),
            )
        return 200, {}, body

    with JobApi(answer) as api:
        profile = Profile(
            url=api.url + "/jobs/{id}", proxy="none", pace=pace, timeout=None, **options
        )
        outcomes = []
        with BatchPoller(
            profile, workers=1, clock=clock, rng=random.Random(simulation.seed).random
        ) as batch:
            for at in sorted({job.starts_at for job in simulation.jobs}):
                clock.sleep_until(at)
                outcomes += batch.run(
                    [Job(job.id, label=job.label) for job in simulation.jobs if job.starts_at == at]
                )
            limited = batch.stats.rate_limited
    return polls, verdicts, outcomes, limited


@pytest.mark.parametrize(
    "pace, options",
    [
        ("fixed 20s", {"durations": "uniform 20s..2m"}),
        ("backoff 2s..30s x1.5", {"durations": "uniform 20s..2m", "limit": "60/m"}),
        ("backoff 5s..60s x2 jitter=full", {"scenario": "documents", "limit": "60/m burst 20"}),
        (
            "fixed 5s",
            {
                "durations": "lognormal 30s x2",
                "limit": "30/m burst 30",
                "fault_rate": 0.1,
                "seed": 5,
            },
        ),
        (
            "fixed 5s",
            {
                "durations": "lognormal 30s x2",
                "limit": "30/m",
                "window": "bucket",
                "knows_limit": False,
            },
        ),
    ],
)
def test_simulation_makes_the_same_polls_at_the_same_times_as_batch_poller(pace, options):
    simulation = Simulation(jobs=25, arrive="burst", workers=1, **options)
    expected, figures = run_and_list_polls(simulation, pace)
    limit = simulation.limit if options.get("knows_limit", True) else None
    polls, verdicts, outcomes, limited = run_batch_poller(simulation, pace, limit=limit)
    assert polls == expected and len(polls) > 50
    assert limited == figures.rate_limited
    assert sum(outcome.polls for outcome in outcomes) == round(25 * figures.polls_per_job)
    if not options.get("knows_limit", True):
        assert Verdict.LIMITED in verdicts
    if options.get("fault_rate"):
        assert Verdict.FAULT in verdicts


def with_waves(simulation, size, every):
    """Let the jobs arrive in waves, each after the last one has finished and was learned from."""
    simulation.jobs = [
        job._replace(starts_at=i // size * every) for i, job in enumerate(simulation.jobs)
    ]
    return simulation


@pytest.mark.parametrize("timestamps", [False, True])
def test_an_adaptive_pace_makes_the_same_polls(monkeypatch, timestamps):
    """BatchPoller is made to treat jobs as fresh, which Simulation always does."""
    simulation = with_waves(
        Simulation(
            durations="uniform 20s..2m", jobs=40, limit="60/m", workers=1, timestamps=timestamps
        ),
        10,
        600.0,
    )
    expected, _ = run_and_list_polls(simulation, "adaptive")
    monkeypatch.setattr(client, "WaitSettings", FreshWaitSettings)
    polls, _, _, _ = run_batch_poller(simulation, "adaptive", limit=simulation.limit)
    assert [job_id for _, job_id in polls] == [job_id for _, job_id in expected]
    tolerance = 0.05 if timestamps else 0.0  # timestamps are in milliseconds
    assert [at for at, _ in polls] == pytest.approx(
        [at for at, _ in expected], abs=tolerance, rel=0
    )


@pytest.mark.parametrize(
    "options",
    [
        {"durations": "uniform 20s..2m"},
        {"scenario": "documents"},
        {"scenario": "models", "fault_rate": 0.05, "seed": 5},
        {
            "durations": {"quick": [20.0, 22.0, 21.0], "slow": "lognormal 3m x1.5"},
            "limit": "30/m burst 10",
        },
    ],
    ids=repr,
)
def test_an_adaptive_pace_makes_the_same_polls_for_each_label(options):
    """Nothing is patched here: `first` makes both of them treat jobs as fresh."""
    pace = "adaptive first=8s every=6s"
    simulation = with_waves(Simulation(jobs=40, arrive="burst", workers=1, **options), 20, 3600.0)
    expected, figures = run_and_list_polls(simulation, pace)
    polls, _, outcomes, _ = run_batch_poller(simulation, pace, limit=simulation.limit)
    assert polls == expected and len(polls) > 80
    assert sum(outcome.polls for outcome in outcomes) == round(40 * figures.polls_per_job)
    # The price matters, so the polls were not only those of `first` and `every`.
    assert polls != run_and_list_polls(simulation, pace + " price=9s")[0]


class FreshWaitSettings:
    """Makes settings for jobs that are submitted when their wait begins."""

    @staticmethod
    def from_profile(profile, spacing, durations, defaults):
        return WaitSettings.from_profile(
            profile, spacing, durations, is_fresh=True, defaults=defaults
        )
