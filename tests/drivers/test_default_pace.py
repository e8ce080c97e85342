"""The default pace is adaptive: in Python, in every command, in profiles that name no pace."""

import json
import os
import re

import pytest

import pollkit
from history_file import save_durations, steady
from job_api import JobApi, done_after
from pollkit import Adaptive, BatchPoller, Job, Poller, Profile
from pollkit.core.learning.curve import cold_interval
from pollkit.core.profiles.profile import validate_profile
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.edges.history_file import History, Kind
from pollkit.edges.profiles import catalog as profiles
from pollkit.testing import FakeJobApi, VirtualClock

# Little more than a quarter of a second each, so that a command that expects them is quick.
PAST_JOBS = [duration / 400 for duration in steady(40)]


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def api(clock):
    with FakeJobApi(clock=clock) as served:
        yield served


@pytest.fixture
def real_api(monkeypatch):
    """An API in real time, whose jobs are done at the second poll."""
    for name in [
        name for name in os.environ if name.startswith("POLLKIT") or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    with JobApi(done_after(1)) as served:
        yield served


def by_wait(api, clock, **options):
    pollkit.wait("job", profile=api.profile, clock=clock, **options)


def by_poller(api, clock, **options):
    with Poller(api.profile, clock=clock, **options) as poller:
        poller.poll("job")


def by_batch(api, clock, **options):
    with BatchPoller(api.profile, clock=clock, **options) as batch:
        batch.run(["job"])


everything_in_python = pytest.mark.parametrize("wait_for_job", [by_wait, by_poller, by_batch])


def ages(api):
    """The ages of the job at which it was polled; clears the list."""
    found = [request.at for request in api.requests]
    del api.requests[:]
    return [at - found[0] for at in found]


def cold_ages(duration):
    """When the cold-start law polls a job of that duration; threads take a moment each time."""
    found = [0.0]
    while found[-1] < duration:
        found.append(found[-1] + cold_interval(1.0, found[-1]))
    return pytest.approx(found, rel=0.01)


# In Python


@everything_in_python
def test_the_first_job_ever_is_polled_by_the_cold_start_law(api, clock, wait_for_job):
    api.add("job", lasts=100)
    wait_for_job(api, clock)
    assert ages(api) == cold_ages(100)


@everything_in_python
def test_the_duration_of_one_job_makes_the_second_cheaper(api, clock, wait_for_job):
    history = History()
    costs = []
    for _ in range(2):
        api.add("job", lasts=100)
        wait_for_job(api, clock, history=history)
        polled = ages(api)
        costs.append(len(polled) + polled[-1] - 100)
    assert costs[1] < 0.8 * costs[0]


def test_a_poller_learns_from_the_jobs_that_it_has_seen_finish(api, clock):
    polls = []
    with Poller(api.profile, clock=clock) as poller:
        for number in range(25):
            api.add("job", lasts=100 + number % 5)
            polls.append(poller.poll("job").polls)
    assert polls[0] >= 8 and polls[-1] <= 4


def test_each_call_of_wait_begins_without_any_history(api, clock):
    for _ in range(3):
        api.add("job", lasts=100)
        by_wait(api, clock)
        assert ages(api) == cold_ages(100)


def test_a_profile_whose_pace_is_none_is_adaptive_too():
    assert (
        validate_profile(Profile(pace=None)).pace
        == Profile().pace
        == WaitSettings.from_profile(Profile(pace=None)).pace
        == Adaptive()
    )


def test_a_pace_that_a_profile_names_is_kept(api, clock):
    api.add("job", lasts=18)
    pollkit.wait("job", profile=api.profile._replace(pace="fixed 5s"), clock=clock)
    assert ages(api) == [0, 5, 10, 15, 20]


def test_a_job_of_another_profile_without_a_pace_is_adaptive(api, clock, tmp_path):
    path = tmp_path / "mine.ini"
    path.write_text("[mine]\nurl = %s/jobs/{id}\n" % api.base)
    api.add("job", lasts=100)
    other = Profile(name="other", pace="fixed 5s")
    with BatchPoller(other, profiles=str(path), clock=clock) as batch:
        batch.run([Job("job", profile="mine")])
    assert ages(api) == cold_ages(100)


# The commands


def listed(tmp_path, *jobs):
    path = tmp_path / "jobs.jsonl"
    path.write_text("".join(json.dumps(job) + "\n" for job in jobs))
    return str(path)


@pytest.mark.parametrize("command", ["wait", "batch"])
def test_without_a_pace_a_command_uses_past_durations(
    real_api, pollkit, tmp_path, history_of_its_own, command
):
    save_durations(str(history_of_its_own), PAST_JOBS, Kind(real_api.url))
    url = real_api.url + "/jobs/1"
    code, _, err = pollkit(
        command, url if command == "wait" else listed(tmp_path, {"url": url}), "-v"
    )
    assert code == 0 and "pending; most jobs like this finish " in err


def test_without_a_pace_a_run_of_a_ledger_is_adaptive(real_api, pollkit, tmp_path):
    ledger = str(tmp_path / "jobs.db")
    pollkit("add", ledger, real_api.url + "/jobs/1")
    code, _, err = pollkit("run", ledger, "-v", "--once")
    assert code == 0 and "pending; no duration known of jobs like this; next poll in " in err


@pytest.fixture
def ini(real_api, tmp_path):
    """A profile that names no pace, with a label that does."""
    path = tmp_path / "mine.ini"
    path.write_text("[mine]\nurl = %s/jobs/{id}\n[mine:quick]\npace = fixed 30ms\n" % real_api.url)
    return str(path)


@pytest.mark.parametrize("command", ["wait", "batch", "run"])
def test_the_pace_of_a_label_is_kept_if_its_profile_names_none(pollkit, tmp_path, ini, command):
    flags = ["--profile", "mine", "--profiles", ini]
    words = ["wait", "1", "--label", "quick"]
    if command == "batch":
        words = ["batch", listed(tmp_path, {"id": "1", "label": "quick"})]
    elif command == "run":
        ledger = str(tmp_path / "jobs.db")
        pollkit("add", ledger, "1", "--label", "quick", *flags)
        words = ["run", ledger]
    code, _, err = pollkit(*(words + flags + ["-v"]))
    assert code == 0 and re.search(r"poll 1: .*; next in 30ms \(pace\)", err)


# profiles show


def test_profiles_show_prints_the_default_pace(pollkit, ini):
    out = pollkit("profiles", "show", "mine", "--profiles", ini)[1]
    assert re.search(r"^pace +. adaptive$", out, re.MULTILINE) and re.search(
        r"^pace = fixed 30ms$", out, re.MULTILINE
    )


def test_a_pace_that_equals_the_default_is_kept_if_an_earlier_file_has_another(pollkit, tmp_path):
    path = tmp_path / "mine.ini"
    path.write_text("[knowhere]\npace = adaptive\n")
    out = pollkit("profiles", "show", "knowhere", "--profiles", str(path))[1]
    path.write_text(out)
    assert profiles.find_profile("knowhere", str(path)).pace == Adaptive()
