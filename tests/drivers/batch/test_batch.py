"""BatchPoller: the methods that users call."""

import asyncio
import itertools
import threading
import time
from concurrent.futures import CancelledError
from concurrent.futures import wait as wait_for_futures

import pytest

from job_api import JobApi, done_after, profile
from pollkit import BatchPoller, ConfigError, Job, PollkitError, Profile, TokenBucket
from pollkit.testing import FakeJobApi, VirtualClock

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
QUICK = "fixed 20ms"


def plenty():
    """A limit that is never reached."""
    return TokenBucket(10000, burst=1000)


# The methods


def test_run_returns_outcomes_in_the_order_of_the_jobs():
    with JobApi(lambda name, count: "done" if count >= int(name) % 3 else "running") as api:
        with BatchPoller(profile(api), pace=QUICK, bucket=plenty()) as batch:
            outcomes = batch.run([str(i) for i in range(30)])
    assert [outcome.id for outcome in outcomes] == [str(i) for i in range(30)]
    assert all(outcome.state == "done" and outcome.result == outcome.id for outcome in outcomes)
    assert [outcome.polls for outcome in outcomes] == [i % 3 + 1 for i in range(30)]


def test_as_completed_yields_each_outcome_as_soon_as_it_is_known():
    with JobApi(
        lambda name, count: "done" if count >= {"slow": 9, "quick": 0}[name] else "running"
    ) as api:
        with BatchPoller(profile(api), pace=QUICK, bucket=plenty()) as batch:
            assert [outcome.id for outcome in batch.as_completed(["slow", "quick"])] == [
                "quick",
                "slow",
            ]


def test_submit_returns_a_future_of_an_outcome_and_calls_on_done():
    outcomes = []
    with JobApi(done_after(1)) as api, BatchPoller(profile(api), pace=QUICK) as batch:
        future = batch.submit("a", on_done=outcomes.append)
        outcome = future.result(timeout=10)
        batch.close()
    assert (outcome.id, outcome.state) == ("a", "done") and outcomes == [outcome]


def test_an_outcome_of_any_state_is_a_result_not_an_exception():
    with JobApi(lambda name, count: (400, {}, {"error": "no such thing"})) as api, BatchPoller(
        profile(api)
    ) as batch:
        outcome = batch.submit(Job("a", label="x", metadata={"k": 1})).result(timeout=10)
    assert (outcome.state, outcome.label, outcome.metadata) == ("unreachable", "x", {"k": 1})


def test_urls_of_several_origins_each_have_their_own_limit():
    with JobApi(done_after(0)) as one, JobApi(done_after(0)) as other:
        both = Profile(limit=None, proxy="none")
        with BatchPoller(both, bucket=None) as batch:
            urls = [api.url + "/jobs/%d" % i for api in (one, other) for i in range(5)]
            assert [o.state for o in batch.run(urls)] == ["done"] * 10
        assert len(one.asked) == len(other.asked) == 5


def test_an_endless_iterator_is_not_read_further_than_it_can_be_used():
    read = []

    def endless():
        for i in itertools.count():
            read.append(i)
            yield str(i)

    with JobApi(done_after(0)) as api, BatchPoller(
        profile(api), max_pending=5, bucket=plenty()
    ) as batch:
        outcomes = list(itertools.islice(batch.as_completed(endless()), 20))
        assert len(outcomes) == 20
        assert len(read) <= 25


def test_stopping_as_completed_early_cancels_the_remaining_jobs():
    with JobApi(lambda name, count: "done" if name == "0" else "running") as api:
        with BatchPoller(profile(api), pace=QUICK, timeout=None) as batch:
            for _ in batch.as_completed([str(i) for i in range(10)]):
                break
            assert len(batch) == 0


def test_a_job_added_twice_is_one_job_with_two_futures():
    with JobApi(done_after(3)) as api, BatchPoller(profile(api), pace=QUICK) as batch:
        futures = [batch.submit("a"), batch.submit("a")]
        assert len(batch) == 1
        first, second = [future.result(timeout=10) for future in futures]
        assert first == second and api.counts == {"a": 4}
        assert [o.polls for o in batch.run(["b", "b"])] == [4, 4] and api.counts["b"] == 4


def test_cancel_finishes_one_job():
    with JobApi(done_after(10**9)) as api, BatchPoller(
        profile(api), pace="fixed 1h", timeout=None
    ) as batch:
        future = batch.submit("a")
        assert batch.cancel("a") and not batch.cancel("a") and not batch.cancel("b")
        assert future.result(timeout=10).state == "cancelled"


def test_cancelling_the_last_future_of_a_job_cancels_its_wait():
    with JobApi(done_after(10**9)) as api, BatchPoller(
        profile(api), pace="fixed 1h", timeout=None
    ) as batch:
        one = batch.submit("a")
        other = batch.submit("a")
        assert one.cancel() and len(batch) == 1
        assert other.cancel() and len(batch) == 0
        with pytest.raises(CancelledError):
            one.result(timeout=10)


def test_nudge_polls_at_once():
    is_done = threading.Event()
    with JobApi(lambda name, count: "done" if is_done.is_set() else "running") as api:
        with BatchPoller(profile(api), pace="fixed 1h", timeout=None) as batch:
            future = batch.submit("a")
            while not api.counts:
                time.sleep(0.001)
            is_done.set()
            assert batch.nudge("a") and not batch.nudge("b")
            assert future.result(timeout=10).polls == 2


def test_leaving_the_block_waits_for_pending_jobs():
    with JobApi(done_after(5)) as api:
        with BatchPoller(profile(api), pace=QUICK) as batch:
            future = batch.submit("a")
        assert future.done() and future.result().state == "done"


def test_leaving_the_block_by_an_exception_cancels_pending_jobs_at_once():
    began = time.monotonic()
    with JobApi(done_after(10**9)) as api:
        with pytest.raises(KeyError):
            with BatchPoller(profile(api), pace="fixed 1h", timeout=None) as batch:
                future = batch.submit("a")
                raise KeyError
    assert future.result(timeout=0).state == "cancelled" and time.monotonic() - began < 5


def test_close_abandons_a_poll_in_flight():
    hang = threading.Event()
    with JobApi(lambda name, count: hang.wait(10) and "done") as api:
        batch = BatchPoller(profile(api), timeout=None)
        future = batch.submit("a")
        while not api.asked:
            time.sleep(0.001)
        began = time.monotonic()
        batch.close(wait=False)
        assert time.monotonic() - began < 1 and future.result(timeout=0).state == "cancelled"
        hang.set()


def test_a_closed_batch_takes_no_more_jobs():
    batch = BatchPoller(Profile(url="http://127.0.0.1:9/{id}"))
    batch.close()
    batch.close()
    with pytest.raises(PollkitError, match="closed"):
        batch.submit("a")


def test_one_thread_carries_all_exchanges_and_starts_with_the_first_job():
    """And another one makes callbacks, if there are any."""

    before = threading.enumerate()  # an earlier test may have left one that a program holds up

    def own_threads():
        added = [thread.name for thread in threading.enumerate() if thread not in before]
        return sorted(name for name in added if name.startswith("pollkit-"))

    with JobApi(done_after(2)) as api, BatchPoller(
        profile(api), pace=QUICK, bucket=plenty(), workers=16
    ) as batch:
        assert own_threads() == []
        batch.run([str(i) for i in range(16)])
        assert own_threads() == ["pollkit-engine"]
        batch.submit("b", on_done=lambda outcome: None).result(timeout=10)
        assert own_threads() == ["pollkit-engine", "pollkit-report"]


def test_a_batch_timeout_bounds_the_whole():
    with BatchPoller(
        Profile(url="http://127.0.0.1:9/{id}", not_found_grace=0),
        batch_timeout=30,
        timeout=None,
        max_faults=10**6,
        clock=VirtualClock(),
        workers=1,
    ) as batch:
        outcomes = batch.run(["a", "b"])
    assert [round(outcome.waited_s) for outcome in outcomes] == [30, 30]


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 0},
        {"workers": 2.5},
        {"max_pending": 0},
        {"batch_timeout": -1},
        {"pace": "x"},
        {"profile": "mine"},
    ],
)
def test_invalid_options_are_config_errors(options):
    with pytest.raises(ConfigError):
        BatchPoller(**options)


def test_a_bad_job_is_refused_before_any_is_polled():
    with JobApi(done_after(0)) as api, BatchPoller(profile(api)) as batch:
        with pytest.raises(ConfigError):
            batch.run(["a", Job("b", url="ftp://x/")])
        assert len(batch) == 0 and api.asked == []


def test_asyncio_can_wait_for_a_job():
    async def main(batch):
        outcomes = await asyncio.gather(
            *[asyncio.wrap_future(batch.submit(name)) for name in "abc"]
        )
        return [outcome.state for outcome in outcomes]

    with JobApi(done_after(2)) as api, BatchPoller(profile(api), pace=QUICK) as batch:
        loop = asyncio.new_event_loop()
        try:
            assert loop.run_until_complete(main(batch)) == ["done"] * 3
        finally:
            loop.close()


def test_a_job_added_thousands_of_times_is_one_job_with_as_many_outcomes():
    with JobApi(done_after(1)) as api, BatchPoller(profile(api), pace=QUICK, workers=2) as batch:
        assert len(batch.run(["a"] * 3000)) == 3000 and api.counts == {"a": 2}
        futures = [batch.submit("b") for _ in range(1500)]
        assert all(future.result(timeout=10).state == "done" for future in futures)


def test_an_id_names_one_job():
    with JobApi(done_after(1)) as api, BatchPoller(profile(api), pace=QUICK) as batch:
        batch.submit(Job("a", url=api.url + "/jobs/a"))
        with pytest.raises(ConfigError, match="another URL or profile"):
            batch.submit(Job("a", url=api.url + "/jobs/b"))


@pytest.mark.parametrize("jobs", ["job_1", Job("job_1")])
def test_one_job_is_no_list_of_jobs(jobs):
    with BatchPoller(Profile(url="http://127.0.0.1:9/{id}")) as batch:
        with pytest.raises(ConfigError):
            batch.run(jobs)
        with pytest.raises(ConfigError):
            next(batch.as_completed(jobs))


def test_threads_that_wait_for_a_cancelled_future_are_woken():
    with JobApi(done_after(10**9)) as api, BatchPoller(
        profile(api), pace="fixed 1h", timeout=None
    ) as batch:
        future = batch.submit("a")
        assert future.cancel()
        assert wait_for_futures([future], timeout=10).done == {future}


def test_outcomes_come_through_while_a_slow_iterator_is_read():
    def slow():
        for i in range(6):
            time.sleep(0.03)
            yield str(i)

    with JobApi(done_after(0)) as api, BatchPoller(profile(api), bucket=plenty()) as batch:
        jobs = slow()
        next(batch.as_completed(jobs))
        assert jobs.gi_frame is not None, "the first outcome came after the last job was read"


def test_a_batch_timeout_stops_an_endless_iterator():
    with JobApi(done_after(10**9)) as api:
        with BatchPoller(
            profile(api), pace=QUICK, batch_timeout=0.3, max_pending=3, bucket=plenty()
        ) as batch:
            outcomes = list(batch.as_completed(str(i) for i in itertools.count()))
    assert 3 <= len(outcomes) < 50 and {outcome.state.value for outcome in outcomes} == {
        "timed_out"
    }


def test_a_generator_that_is_thrown_away_while_the_lock_is_held_stops_nothing():
    """The garbage collector may run in any thread."""
    with JobApi(done_after(3)) as api, BatchPoller(profile(api), pace=QUICK, timeout=30) as batch:
        outcomes = batch.as_completed(["a", "b"])
        next(outcomes)
        future = batch.submit("c")
        with batch._engine.lock:
            outcomes.close()
        assert future.result(timeout=10).state == "done"


# Limits


def test_a_429_pauses_all_polls_until_retry_after():
    def answer(name, count):
        if name == "7" and count == 0:
            return 429, {"Retry-After": "1"}, None
        return "done" if count >= 2 else "running"

    with JobApi(answer) as api, BatchPoller(
        profile(api), pace=QUICK, bucket=TokenBucket(1000)
    ) as batch:
        batch.run([str(i) for i in range(40)])
        refused_at = next(at for at, path in api.asked if path.endswith("/7"))
        # Requests that were in flight when the reply came still arrive: a few milliseconds.
        assert [at - refused_at for at in api.times if 0.1 < at - refused_at < 0.95] == []
        assert max(api.times) > refused_at + 0.95


def test_a_wave_of_jobs_is_spread_when_no_limit_is_known():
    with JobApi(done_after(0)) as api, BatchPoller(profile(api), workers=8) as batch:
        batch.run([str(i) for i in range(40)])
        first = min(api.times)
        assert sum(1 for at in api.times if at < first + 0.5) <= 30


def test_jobs_of_a_label_with_a_weight_are_noticed_sooner():
    """200 jobs of 30 to 90 s, and one poll per second for all of them."""
    clock = VirtualClock()
    delays = {"plain": [], "express": []}
    with FakeJobApi(clock=clock) as api:
        plain = api.profile._replace(timeout=None, limit="1/s burst 1")
        express = plain._replace(label="express", weight=5.0)
        mine = plain._replace(labels={"express": express})
        lasts = {}
        for i in range(200):
            label = "express" if i % 10 == 0 else "plain"
            lasts["%s %d" % (label, i)] = 30.0 + 37 * i % 61
        for job_id, seconds in lasts.items():
            api.add(job_id, lasts=seconds)
        jobs = [Job(name, label=name.split()[0].replace("plain", "") or None) for name in lasts]
        with BatchPoller(mine, clock=clock, workers=1) as batch:
            for outcome in batch.run(jobs):
                delays[outcome.id.split()[0]].append(outcome.waited_s - lasts[outcome.id])
    mean = {label: sum(each) / len(each) for label, each in delays.items()}
    assert mean["express"] < mean["plain"] / 2
