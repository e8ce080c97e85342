"""BatchPoller in unusual cases: jobs, limits, callbacks, closing."""

import sys
import threading

import pytest

from job_api import JobApi
from many_jobs_api import ManyApi, all_done, one_by_one, plenty, together
from pollkit import BatchPoller, ConfigError, Job, PollkitError, Profile, TokenBucket
from raw_server import wait_for

QUICK = "fixed 20ms"


# Jobs and ids


def test_no_jobs_have_no_outcomes_and_need_no_thread():
    before = threading.active_count()
    with BatchPoller(Profile(url="http://127.0.0.1:9/{id}")) as batch:
        assert (
            batch.run([]) == []
            and list(batch.as_completed([])) == []
            and list(batch.as_completed(iter([]))) == []
        )
        assert threading.active_count() == before


@pytest.mark.parametrize(
    "job", [Job(5), Job(None), Job(b"a"), Job(["x"]), Job("a", url=5), 5, None]
)
def test_values_that_are_not_jobs_are_refused(job):
    with BatchPoller(Profile(url="http://127.0.0.1:9/{id}")) as batch:
        with pytest.raises(ConfigError):
            batch.run(["a", job])
        assert len(batch) == 0 and batch.stats.polls == 0


@pytest.fixture
def two_profiles(tmp_path):
    with JobApi(lambda name, count: "done" if count else "running") as api:
        path = tmp_path / "profiles.ini"
        for_each = "[{0}]\nurl = {1}/{0}/{{id}}\nproxy = none\n"
        path.write_text("".join(for_each.format(name, api.url) for name in ("p", "q")))
        with BatchPoller("p", pace=QUICK, profiles=str(path), bucket=plenty()) as batch:
            yield api, batch


def test_an_id_in_two_profiles_is_refused_and_nothing_is_begun(two_profiles):
    api, batch = two_profiles
    with pytest.raises(ConfigError, match="another URL or profile"):
        batch.run(["x", Job("a", profile="p"), Job("a", profile="q")])
    with pytest.raises(ConfigError, match="another URL or profile"):
        batch.run([Job("a", url=api.url + "/p/1"), Job("a", url=api.url + "/p/2")])
    with pytest.raises(ConfigError, match="nosuch"):
        batch.run(["x", Job("a", profile="nosuch")])
    assert len(batch) == 0 and api.asked == []


def test_a_job_named_in_two_ways_is_one_job(two_profiles):
    api, batch = two_profiles
    assert (
        len(
            batch.run(
                ["a", Job("a", profile="p"), Job("a", url=api.url + "/p/a"), Job("a", label="x")]
            )
        )
        == 4
    )
    assert len(api.asked) == 2
    assert [o.url.rpartition("/")[0][-1] for o in batch.run([Job("b", profile="q"), "c"])] == [
        "q",
        "p",
    ]


def test_threads_that_name_a_profile_for_the_first_time_share_its_connections(two_profiles):
    _, batch = two_profiles
    ready = threading.Barrier(8)
    endpoints = set()

    def name():
        ready.wait()
        endpoints.add(batch._client.locate(Job("a", profile="q")).endpoint)

    threads = [threading.Thread(target=name) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(endpoints) == 1
    assert len(batch._client._transports._transports) == 1


# Limits


def test_jobs_that_share_a_bucket_share_a_queue_whatever_their_origin():
    """So a final poll comes first, and the most urgent job next, among all of them."""
    with BatchPoller(bucket=TokenBucket(1, per=3600), timeout=None) as batch:
        for port in (8, 9):
            for name in "ab":
                batch.submit("http://127.0.0.1:%d/%s" % (port, name))
        assert len({entry.lane for entry in batch._engine.agenda}) == 1
        batch.close(wait=False)


def test_a_429_of_one_origin_does_not_stop_another():
    with JobApi(lambda name, count: (429, {"Retry-After": "60"}, None)) as refusing:
        with JobApi(lambda name, count: "done" if count >= 3 else "running") as other:
            with BatchPoller(Profile(proxy="none"), pace=QUICK, timeout=90) as batch:
                waiting = batch.submit(refusing.url + "/jobs/a")
                wait_for(lambda: refusing.asked)
                assert batch.run([other.url + "/jobs/b"])[0].state == "done"
                waiting.cancel()


# Callbacks


def exits(argument):
    sys.exit(3)


def test_a_callback_that_exits_does_not_affect_other_futures_of_the_job():
    with JobApi(lambda name, count: "done" if count else "running") as api:
        with BatchPoller(one_by_one(api), pace=QUICK, workers=1) as batch:
            first = batch.submit("a", on_done=exits)
            second = batch.submit("a")
            first.add_done_callback(exits)
            assert [future.result(timeout=10).state for future in (first, second)] == [
                "done",
                "done",
            ]


def test_a_listener_that_exits_harms_no_job():
    with ManyApi(all_done) as api, BatchPoller(together(api), on_event=exits, workers=1) as batch:
        futures = [batch.submit(name, on_done=exits) for name in "abc"]
        assert [future.result(timeout=10).state for future in futures] == ["done"] * 3


def test_a_callback_that_exits_over_a_job_that_was_never_polled_again_stops_nothing():
    with JobApi(lambda name, count: "running") as api:
        with BatchPoller(
            one_by_one(api), pace=QUICK, bucket=TokenBucket(1, per=60), timeout=0.05, workers=1
        ) as batch:
            futures = [batch.submit(str(i), on_done=exits) for i in range(3)]
            assert [future.result(timeout=10).state for future in futures] == ["timed_out"] * 3
            assert batch.submit("late").result(timeout=10).state == "timed_out"


def test_a_callback_cannot_wait_for_jobs_of_its_own_batch():
    errors = []

    def run(outcome):
        for wait in (batch.run, lambda jobs: list(batch.as_completed(jobs))):
            try:
                wait(["b"])
            except PollkitError as error:
                errors.append(str(error))

    with JobApi(lambda name, count: "done") as api, BatchPoller(
        one_by_one(api), workers=1
    ) as batch:
        batch.submit("a", on_done=run)
    assert len(errors) == 2 and "submit" in errors[0]


@pytest.mark.parametrize("kind", ["on_done", "on_event"])
def test_callbacks_may_submit_cancel_nudge_and_close(kind):
    done = threading.Event()

    def act(_):
        if not done.is_set():
            done.set()
            batch.submit("b")
            assert batch.nudge("b") and batch.cancel("c") and not batch.cancel("unknown")
            batch.close(wait=False)

    def act_on_first_event_of_a(event):
        if event.id == "a":
            act(event)

    options = {"on_event": act_on_first_event_of_a} if kind == "on_event" else {}
    with JobApi(lambda name, count: "done" if name == "a" else "running") as api:
        batch = BatchPoller(one_by_one(api), pace="fixed 1h", workers=2, **options)
        other = batch.submit("c")
        batch.submit("a", on_done=act if kind == "on_done" else None)
        assert other.result(timeout=10).state == "cancelled"
        wait_for(done.is_set)
        batch.close()
        assert len(batch) == 0


def test_a_generator_serves_one_thread_at_a_time_and_the_other_gets_an_error():
    with JobApi(lambda name, count: "running") as api:
        with BatchPoller(one_by_one(api), pace="fixed 1h", timeout=None) as batch:
            outcomes = batch.as_completed(["a"])
            received = []
            waiting = threading.Thread(target=lambda: received.extend(outcomes))
            waiting.start()
            wait_for(lambda: api.asked)
            with pytest.raises(ValueError):
                next(outcomes)
            assert batch.cancel("a")
            waiting.join(10)
            assert [outcome.state.value for outcome in received] == ["cancelled"]


# Closing


def test_without_a_thread_no_job_is_added(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    with BatchPoller(Profile(url="http://127.0.0.1:9/{id}")) as batch:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(PollkitError, match="start a thread"):
                batch.submit("a")
        assert len(batch) == 0


def test_jobs_finish_even_if_no_second_thread_can_start(monkeypatch):
    start = threading.Thread.start

    def refuse(self):
        if self.name.startswith("pollkit-") and self.name != "pollkit-engine":
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with JobApi(lambda name, count: "done" if count else "running") as api:
        with BatchPoller(one_by_one(api), pace=QUICK, bucket=plenty()) as batch:
            assert {outcome.state.value for outcome in batch.run(list("abcdef"))} == {"done"}


@pytest.mark.parametrize("where", ["agenda", "deliver", "join"])
def test_an_interrupted_close_still_stops_the_batch(where, monkeypatch):
    interrupted = []

    def once(method):
        def interrupts(*args, **options):
            is_main_thread = threading.current_thread() is threading.main_thread()
            if is_main_thread and not interrupted:
                interrupted.append(True)
                raise KeyboardInterrupt
            return method(*args, **options)

        return interrupts

    with JobApi(lambda name, count: "running") as api:
        batch = BatchPoller(one_by_one(api), pace="fixed 1h", timeout=None)
        futures = [batch.submit(name) for name in "abc"]
        engine = batch._engine
        owner, name = {
            "agenda": (engine.agenda, "cancel"),
            "join": (engine, "stop"),
            "deliver": (engine._reporter, "deliver"),
        }[where]
        monkeypatch.setattr(owner, name, once(getattr(owner, name)))
        with pytest.raises(KeyboardInterrupt):
            batch.close(wait=False)
        assert [future.result(timeout=0).state for future in futures] == ["cancelled"] * 3
        assert not engine._thread.is_alive()
