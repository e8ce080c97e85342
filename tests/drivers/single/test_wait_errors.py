"""The errors of `wait` and `Poller`, and the options and jobs that they refuse."""

import json
import pickle

import pytest

import pollkit
from pollkit import (
    ConfigError,
    Fault,
    Job,
    JobFailed,
    JobTimedOut,
    JobUnreachable,
    Outcome,
    Poller,
    Profile,
    Reply,
    State,
    wait,
)
from pollkit.testing import VirtualClock
from scripted_calls import script


@pytest.mark.parametrize(
    "answers, options, error, base",
    [
        ([{"status": "failed", "error": "no luck"}], {}, JobFailed, Exception),
        (["running"] * 99, {"timeout": 3}, JobTimedOut, TimeoutError),
        ([Fault("down")] * 99, {}, JobUnreachable, Exception),
    ],
)
def test_wait_raises_an_error_that_has_the_outcome_and_pickles(answers, options, error, base):
    with pytest.raises(error) as caught:
        wait(script(*answers), clock=VirtualClock(), **options)
    raised = caught.value
    assert isinstance(raised, pollkit.PollkitError) and isinstance(raised, base)
    assert isinstance(raised.outcome, Outcome)
    assert str(raised) == raised.outcome.summary()
    again = pickle.loads(pickle.dumps(raised))
    assert type(again) is error and again.outcome == raised.outcome and str(again) == str(raised)


def test_config_errors_are_value_errors_and_pickle():
    error = ConfigError("no such thing")
    assert (
        isinstance(error, ValueError) and str(pickle.loads(pickle.dumps(error))) == "no such thing"
    )


def test_poll_does_not_raise_if_the_job_failed():
    assert Poller().poll(script("failed")).state == "failed"


def test_a_state_equals_its_value_and_prints_as_it():
    assert State.TIMED_OUT == "timed_out"
    assert (
        str(State.TIMED_OUT)
        == "%s" % State.TIMED_OUT
        == "{}".format(State.TIMED_OUT)
        == "timed_out"
    )
    assert json.dumps(State.DONE) == '"done"'


@pytest.mark.parametrize(
    "options",
    [
        {"pace": "quick"},
        {"timeout": -1},
        {"timeout": "soon"},
        {"max_faults": 0},
        {"profile": "knownowhere"},
        {"profile": 5},
        {"headers": {"X": "a\r\nb"}},
        {"headers": {"a b": "c"}},
        {"headers": {"Host": "x"}},
        {"pace": -5},
        {"bucket": "60/m"},
        {"retry_on": (5,)},
        {"max_faults": "3"},
        {"max_faults": 2.5},
        {"max_faults": True},
        {"headers": ["a"]},
        {"on_event": 5},
        {"profile": Profile(pace="quick")},
        {"profile": Profile(timeout="soon")},
        {"profile": Profile(unknown="x")},
        {"profile": Profile(max_faults=0)},
        {"profile": Profile(request_timeout=0)},
        {"profile": Profile(not_found_grace=None)},
        {"profile": Profile(limit="x")},
        {"profile": Profile(batch_size=0)},
        {"clock": 5},
        {"rng": 5},
        {"history": 5},
        {"profiles": 5},
        {"profile": Profile(headers={"X": []})},
        {"profile": Profile(method="get it")},
        {"profile": Profile(status="a..b")},
        {"profile": Profile(auth="magic")},
    ],
)
def test_invalid_options_are_refused_before_any_poll(options):
    with pytest.raises(ConfigError):
        Poller(**options)


def test_a_profile_accepts_paces_limits_and_durations_as_text():
    described = Profile(
        pace="fixed 5s",
        retry="fixed 2s",
        timeout="1m",
        not_found_grace="10s",
        request_timeout="3s",
        retry_after_default="7s",
        limit="60/m",
        done="fertig, komplett",
    )
    clock = VirtualClock()
    times = []

    def ask():
        times.append(clock.now())
        return ["running", Fault("x"), Reply(429), "fertig"][len(times) - 1]

    assert Poller(described, clock=clock, rng=lambda: 0.0).poll(ask).state == "done"
    assert times == [0, 5, 7, 14]


@pytest.mark.parametrize(
    "job",
    [
        None,
        5,
        [1],
        b"x",
        Job(5),
        Job("1", url=5),
        Job("1", profile=Profile()),
        Job("1", label=5),
        Job("1", size="large"),
    ],
)
def test_values_that_are_not_jobs_are_refused(job):
    with pytest.raises(ConfigError):
        Poller(Profile(url="http://a/{id}")).poll(job)


def test_stop_must_be_an_event():
    with pytest.raises(ConfigError, match="stop must be a threading.Event, not 5"):
        Poller().poll(lambda: True, stop=5)
