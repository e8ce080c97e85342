"""Jobs that a callable asks about: any client, any object."""

import enum
import threading
import time
from collections import namedtuple
from types import MappingProxyType, SimpleNamespace

import pytest
import requests
import responses

from pollkit import BatchPoller, ConfigError, JobFailed, JobTimedOut, Poller, Profile, Reply, wait
from pollkit.edges.background import BackgroundCalls
from pollkit.testing import FakeJobApi, VirtualClock


class Phase(enum.Enum):
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    BROKEN = "Broken"


def job(phase, **more):
    return SimpleNamespace(phase=phase, **more)


def script(*values):
    """A callable that returns or raises the values, one after the other; the last one repeats."""
    left = list(values)

    def check():
        value = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(value, Exception):
            raise value
        return value

    return check


def wait_for(*values, **settings):
    return wait(script(*values), pace="fixed 5s", clock=VirtualClock(), **settings)


def outcome_of(*values, **settings):
    return Poller(pace="fixed 5s", clock=VirtualClock(), **settings).poll(script(*values))


# Any object


def test_a_function_finds_the_status_and_the_object_is_the_result():
    finished = job("Succeeded", url="https://cdn.test/1")
    got = wait_for(job("Running"), finished, status=lambda job: job.phase, done={"Succeeded"})
    assert got is finished


def test_words_have_their_usual_meaning_without_done_and_failed():
    assert (
        wait_for(job("Pending"), job("Finished"), status=lambda job: job.phase).phase == "Finished"
    )


def test_failed_words_raise():
    with pytest.raises(JobFailed) as caught:
        wait_for(job("Broken"), status=lambda job: job.phase, failed={"Broken"})
    assert caught.value.outcome.status == "Broken"


@pytest.mark.parametrize(
    "done", ["Succeeded", ["Succeeded"], {"Succeeded"}, ("Succeeded", "Other")]
)
def test_words_may_be_text_or_any_collection(done):
    assert wait_for(job("Succeeded"), status=lambda job: job.phase, done=done).phase == "Succeeded"


@pytest.mark.parametrize("done", [{"Succeeded"}, {Phase.SUCCEEDED}])
def test_an_enum_counts_by_its_value(done):
    got = wait_for(
        job(Phase.RUNNING), job(Phase.SUCCEEDED), status=lambda job: job.phase, done=done
    )
    assert got.phase is Phase.SUCCEEDED


@pytest.mark.parametrize("path", ["phase", "state.phase", "state.names.0.phase"])
def test_a_path_finds_an_attribute_of_an_object(path):
    state = SimpleNamespace(phase="done", names=[{"phase": "done"}])
    value = SimpleNamespace(phase="done", state=state, output=7)
    assert wait_for(value, status=path, result="output") == 7


def test_a_path_finds_a_field_of_a_named_tuple_and_of_a_mapping():
    task = namedtuple("Task", "phase output")("done", 7)
    assert wait_for(task, status="phase", result="output") == 7
    mapping = MappingProxyType({"phase": "done", "output": 7})
    assert wait_for(mapping, status="phase", result="output") == 7


def test_paths_and_words_apply_to_a_dict():
    running = {"meta": {"phase": "Wait"}}
    done = {"meta": {"phase": "Yes"}, "out": [1]}
    assert wait_for(running, done, status="meta.phase", done="Yes", result="out") == [1]


def test_paths_and_words_apply_to_a_url():
    with FakeJobApi() as api:
        api.add("job_1", result={"pages": 3})
        got = wait(api.url("job_1"), status="status", done={"done"}, result="result.pages")
    assert got == 3


def test_functions_apply_to_a_dict_and_the_usual_fields_are_still_found():
    assert wait_for({"s": 1, "result": 7}, status=lambda data: "done") == 7
    with pytest.raises(JobFailed) as caught:
        wait_for({"error": {"code": "E1", "message": "no"}}, status=lambda data: "failed")
    assert tuple(caught.value.outcome.error) == ("E1", "no")


def test_a_function_finds_the_result_only_when_the_job_is_done():
    def result(job):
        assert job.phase == "done"
        return job.output

    got = wait_for(
        job("running"), job("done", output=7), status=lambda job: job.phase, result=result
    )
    assert got == 7
    assert wait_for({"status": "done", "x": 7}, result=lambda data: data["x"]) == 7


def test_functions_decide_what_is_done_and_failed():
    def is_done(job):
        return job.finished_at is not None

    running = job("done", finished_at=None)  # the word does not count: the function decides
    finished = job("?", finished_at=1)
    assert wait_for(running, finished, done=is_done) is finished
    outcome = outcome_of(running, finished, done=is_done, status="phase")
    assert (outcome.polls, outcome.status) == (2, "?")
    with pytest.raises(JobFailed):
        wait_for(running, finished, failed=is_done, done=lambda job: False)


def test_rules_judge_before_functions_do():
    profile = Profile(rules=["failed if phase == Bad", "done if missing phase"])
    functions = {"profile": profile, "status": lambda job: job["phase"], "done": {"Good"}}
    assert wait_for({"phase": "Slow"}, {"phase": "Good", "result": 7}, **functions) == 7
    with pytest.raises(JobFailed, match="rule 'failed if phase == Bad'"):
        wait_for({"phase": "Bad"}, **functions)
    assert wait_for({"phase": "Slow"}, {}, result=lambda job: "gone", **functions) == "gone"


def test_rules_judge_the_response_of_an_http_error_of_requests():
    def check():
        response = requests.get("https://api.test/1")
        response.raise_for_status()

    with responses.RequestsMock() as server:
        server.add("GET", "https://api.test/1", status=404, json={"code": "Gone"})
        assert wait(check, Profile(rules=["done if http 404 and error Gone"])) is None
        with pytest.raises(requests.HTTPError):
            wait(check, Profile(rules=["done if http 410"]))


def test_a_status_that_a_function_does_not_find_is_a_fault():
    outcome = outcome_of(job(None), status=lambda job: job.phase, max_faults=2)
    assert (outcome.state, outcome.faults) == ("unreachable", 2)
    assert "the function for the status found none" in outcome.error.message


def test_functions_are_not_called_for_an_http_error():
    busy = Reply(503, {}, "")
    got = wait_for(
        busy, Reply(200, {}, '{"x": "done"}'), status=lambda reply: reply.body and "done"
    )
    assert isinstance(got, Reply)


def test_functions_get_the_response_that_the_callable_returned():
    with responses.RequestsMock() as mock, requests.Session() as session:
        mock.add(responses.GET, "https://api.test/1", status=429, headers={"Retry-After": "30"})
        mock.add(responses.GET, "https://api.test/1", json={"state": {"n": "ok"}})
        clock = VirtualClock()
        began_at = clock.now()
        got = wait(
            lambda: session.get("https://api.test/1"),
            status=lambda response: response.json()["state"]["n"],
            result=lambda response: response.status_code,
            clock=clock,
        )
    assert got == 200
    assert clock.now() - began_at >= 30


def test_an_object_without_a_way_to_read_it_is_a_config_error():
    with pytest.raises(ConfigError, match="give status= a function that finds its status"):
        wait_for(job("done"))


def test_an_error_in_a_function_propagates():
    with pytest.raises(AttributeError):
        wait_for(job("done"), status=lambda job: job.stage)


@pytest.mark.parametrize("name", ["status", "done", "failed", "result"])
def test_a_function_needs_a_callable_job(name):
    poller = Poller(**{name: lambda value: value})
    with pytest.raises(
        ConfigError, match=name + " can be a function only if the job is a callable"
    ):
        poller.poll("http://api.test/1")


@pytest.mark.parametrize("settings", [{"status": 42}, {"done": 42}, {"result": b"x"}])
def test_arguments_that_are_neither_paths_nor_functions_are_refused(settings):
    with pytest.raises(ConfigError):
        Poller(**settings)


def test_the_wait_is_bounded_as_any_other():
    with pytest.raises(JobTimedOut):
        wait_for(job("running"), status="phase", timeout=60)


def test_a_callable_of_a_poller_runs_in_the_callers_thread():
    threads = []

    def check():
        threads.append(threading.current_thread())
        return True

    assert wait(check) is True
    assert threads == [threading.current_thread()]


# Many callables


@pytest.fixture
def gate():
    """An event that calls may wait for; set at the end of the test in any case."""
    event = threading.Event()
    yield event
    event.set()


def test_a_batch_polls_callables_beside_urls():
    with FakeJobApi() as api:
        api.add("job_1", result="from the API")
        with BatchPoller(api.profile, "fixed 10ms") as batch:
            futures = [
                batch.submit(script("running", {"status": "done", "result": 7}), id="a"),
                batch.submit("job_1"),
            ]
            outcomes = [future.result(10) for future in futures]
    assert [(each.id, each.state, each.result) for each in outcomes] == [
        ("a", "done", 7),
        ("job_1", "done", "from the API"),
    ]
    assert (outcomes[0].polls, outcomes[0].url) == (2, None)


def test_a_batch_of_callables_takes_no_real_time_on_a_virtual_clock():
    clock = VirtualClock()
    with BatchPoller(pace="fixed 1m", timeout="1h", clock=clock) as batch:
        futures = [batch.submit(script("running", "running", "done"), id=str(i)) for i in range(20)]
        outcomes = [future.result(10) for future in futures]
    assert {(each.state, each.polls) for each in outcomes} == {("done", 3)}


def test_on_done_nudge_and_cancel_work_for_a_callable(gate):
    seen = []
    calls = []

    def check():
        calls.append(1)
        return "running"

    with BatchPoller(pace="fixed 1h") as batch:
        future = batch.submit(check, seen.append, id="a")
        while len(calls) < 1:
            time.sleep(0.001)
        assert batch.nudge("a")
        while len(calls) < 2:
            time.sleep(0.001)
        assert batch.cancel("a")
        assert future.result(10).state == "cancelled"
    assert [outcome.id for outcome in seen] == ["a"]


def test_at_most_as_many_callables_run_at_once_as_there_are_workers():
    running = set()
    most = []
    lock = threading.Lock()

    def check():
        me = object()
        with lock:
            running.add(me)
            most.append(len(running))
        time.sleep(0.01)
        with lock:
            running.remove(me)
        return True

    with BatchPoller(workers=3) as batch:
        futures = [batch.submit(check, id=str(i)) for i in range(12)]
        assert all(future.result(10).state == "done" for future in futures)
    assert 1 < max(most) <= 3


def test_a_callable_that_blocks_does_not_hold_up_the_batch(gate):
    profile = Profile(request_timeout=0.1, limit="1000/s")
    began_at = time.monotonic()
    with BatchPoller(profile, "fixed 10ms", workers=2, max_faults=2) as batch:
        stuck = batch.submit(lambda: gate.wait() and "done", id="stuck")
        others = [batch.submit(lambda: True, id=str(i)) for i in range(20)]
        assert all(future.result(10).state == "done" for future in others)
        outcome = stuck.result(20)
    assert outcome.state == "unreachable"
    assert "the callable did not return within 0.1 s" in outcome.error.message
    assert time.monotonic() - began_at < 15


def test_a_late_call_is_joined_by_the_next_poll_and_not_repeated(gate, monkeypatch):
    calls = []
    waits = []
    wait_for_call = BackgroundCalls.wait

    def wait(self, *arguments):
        """Open the gate once a second poll waits for the call of the first."""
        waits.append(arguments)
        steps = wait_for_call(self, *arguments)
        if len(waits) < 2:
            return (yield from steps)
        needed = next(steps)
        gate.set()
        is_ready = yield needed
        with pytest.raises(StopIteration) as stop:
            steps.send(is_ready)
        return stop.value.value

    def check():
        calls.append(1)
        gate.wait()
        return {"status": "done", "result": 7}

    monkeypatch.setattr(BackgroundCalls, "wait", wait)
    with BatchPoller(Profile(request_timeout=0.05)) as batch:
        outcome = batch.submit(check, id="slow").result(20)
    assert (outcome.state, outcome.result, outcome.faults) == ("done", 7, 1)
    assert (len(calls), len(waits)) == (1, 2)


def test_an_outage_behind_one_callable_does_not_delay_another():
    """Nothing shows that two callables ask the same server."""
    lines = []
    busy = [Reply(503)] * 5
    clock = VirtualClock()
    with BatchPoller(
        pace="fixed 5s", clock=clock, on_event=lambda e: lines.append(str(e))
    ) as batch:
        bad = batch.submit(script(*busy, "done"), id="bad")
        good = batch.submit(script("running", "running", "done"), id="good")
        assert (bad.result(10).state, bad.result(10).faults) == ("done", 5)
        assert (good.result(10).polls, round(good.result(10).waited_s)) == (3, 10)
    assert [line for line in lines if line.startswith("callable bad: the server is down")]


def test_exceptions_in_retry_on_are_faults_and_others_end_the_wait():
    clock = VirtualClock()
    with BatchPoller(pace="fixed 1s", clock=clock, retry_on=(OSError,)) as batch:
        retried = batch.submit(script(OSError("reset"), "done"), id="a").result(10)
        ended = batch.submit(script(KeyError("phase"), "done"), id="b").result(10)
        stopped = batch.submit(lambda: next(iter(())), id="c").result(10)
    assert (retried.state, retried.faults) == ("done", 1)
    assert (ended.state, ended.polls) == ("unreachable", 1)
    assert "KeyError: 'phase' (name the exception in retry_on" in ended.error.message
    assert "StopIteration" in stopped.error.message


def test_an_exit_in_a_callable_of_a_batch_ends_only_its_wait():
    def leave():
        raise SystemExit(3)

    with BatchPoller() as batch:
        outcome = batch.submit(leave, id="x").result(10)
        assert batch.submit(lambda: True, id="y").result(10).state == "done"
    assert (outcome.state, outcome.polls) == ("unreachable", 1)
    assert outcome.error.message.startswith("SystemExit: 3")


def test_a_value_that_cannot_be_read_ends_the_wait():
    with BatchPoller() as batch:
        outcome = batch.submit(lambda: object(), id="a").result(10)
    assert outcome.state == "unreachable"
    assert "the callable returned <object" in outcome.error.message


@pytest.mark.parametrize("job_id", [None, "", 42])
def test_a_callable_needs_an_id(job_id):
    with BatchPoller() as batch, pytest.raises(ConfigError, match="a callable needs an id"):
        batch.submit(lambda: True, id=job_id)


def test_an_id_is_only_for_a_callable():
    with BatchPoller() as batch, pytest.raises(ConfigError, match="id is only for a callable"):
        batch.submit("http://api.test/1", id="a")


def test_an_id_names_one_callable():
    check = script("running")
    with BatchPoller(Profile(url="http://api.test/{id}"), pace="fixed 1h") as batch:
        first = batch.submit(check, id="a")
        again = batch.submit(check, id="a")  # the same job: not added again
        with pytest.raises(ConfigError, match="already pending, .* or as a callable"):
            batch.submit(lambda: True, id="a")
        with pytest.raises(ConfigError, match="already pending, .* or as a callable"):
            batch.submit("a")
        assert len(batch) == 1
        batch.close(wait=False)
    assert (first.result(1).state, again.result(1).state) == ("cancelled", "cancelled")


@pytest.mark.parametrize("retry_on", [42, ("x",), [OSError]])
def test_retry_on_must_be_exceptions(retry_on):
    with pytest.raises(ConfigError, match="retry_on must be exception classes"):
        BatchPoller(retry_on=retry_on)


def test_a_status_path_that_an_object_does_not_have_is_named():
    outcome = outcome_of(job("Active"), status="phaze", max_faults=2)
    assert (outcome.state, outcome.faults) == ("unreachable", 2)
    assert "has no attribute or key phaze, which status= names" in outcome.error.message
