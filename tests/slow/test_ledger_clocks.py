"""The wall clock is set between runs or during one: no job is stranded or polled too often."""

import time

import pytest

from job_api import JobApi
from ledger_host import folder
from ledger_place import Place
from pollkit import Ledger
from pollkit.cli import main
from pollkit.edges.clock import Clock

HOUR = 3600.0
DAY = 86400.0
JUMPS = [HOUR, -HOUR, DAY, -DAY]
EVERY_S = 0.05
TIMEOUT_S = 0.5
RATE = 300
BURST = 10
PROFILE = "limit = %d/s burst %d\n[fake:brief]\ntimeout = 500ms\n" % (RATE, BURST)


class Host:
    """The clocks of pollkit in this process, and an API whose jobs finish at `ends_at`."""

    def __init__(self, monkeypatch):
        self.shift = 0.0  # of the wall clock
        self.base = 0.0  # of the monotonic clock
        self.boots = 1
        self.at_request = {}  # by how much to set the clock, by number of request
        self.ends_at = float("inf")
        monkeypatch.setattr(Clock, "wall", lambda clock: time.time() + self.shift)
        monkeypatch.setattr(Clock, "now", lambda clock: time.monotonic() - self.base)
        monkeypatch.setattr(Clock, "boot", lambda clock: "boot %d" % self.boots)
        self.api = JobApi(self.answer)

    def answer(self, name, count):
        requests = sum(self.api.counts.values())
        for number in [number for number in list(self.at_request) if number <= requests]:
            self.shift += self.at_request.pop(number, 0.0)
        # A slow machine may need longer until the clock is set.
        is_over = time.monotonic() >= self.ends_at and not self.at_request
        return "done" if name != "late" and is_over else "running"

    def restart(self):
        self.base = time.monotonic() - 5.0
        self.boots += 1


@pytest.fixture
def host(monkeypatch):
    host = Host(monkeypatch)
    with host.api, folder() as path:
        place = Place(path, host.api.url, PROFILE)
        for name, value in place.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(path)
        add = ["add", "jobs.db", "--profile", "fake", "--quiet"]
        assert main(add + ["job_%d" % i for i in range(10)]) == 0
        assert main(add + ["--label", "brief", "late"]) == 0
        yield host
        monkeypatch.undo()


def run(for_s="5s", *words):
    began = time.monotonic()
    code = main(
        ["run", "jobs.db", "--for", for_s, "--pace", "fixed 50ms", "--profile", "fake", "--quiet"]
        + list(words)
    )
    return code, time.monotonic() - began


def outcomes():
    with Ledger("jobs.db") as ledger:
        return {row.job.id: row.outcome for row in ledger.jobs()}


def check(host, late_s):
    """All jobs have the right outcome; neither the pace nor the limit was exceeded."""
    found = outcomes()
    late = found.pop("late")
    finished = list(found.values())
    assert [outcome["state"] for outcome in finished] == ["done"] * 10
    assert late["state"] == "timed_out"
    assert TIMEOUT_S <= late["waited_s"] < late_s
    assert min(outcome["waited_s"] for outcome in finished) >= 0.0
    times = sorted(host.api.times)
    assert max(host.api.counts.values()) <= (times[-1] - times[0]) / EVERY_S + 3
    for i, begin in enumerate(times):
        for count, end in enumerate(times[i:], 1):
            assert count <= RATE * (end - begin + 0.1) + BURST


@pytest.mark.parametrize("by", JUMPS)
def test_setting_the_clock_during_a_run_changes_nothing(host, by):
    host.at_request = {30: by}
    host.ends_at = time.monotonic() + 0.3
    code, took_s = run()
    assert code == 3 and took_s < TIMEOUT_S + 2 and host.shift == by
    check(host, TIMEOUT_S + 2)
    assert all(
        outcome["waited_s"] < TIMEOUT_S + 2 and outcome["polls"] > 3
        for outcome in outcomes().values()
    )


def test_setting_the_clock_again_and_again_changes_nothing(host):
    host.at_request = {10 * i: by for i, by in enumerate(JUMPS * 3, 1)}
    host.ends_at = time.monotonic() + 0.3
    assert run()[0] == 3
    check(host, TIMEOUT_S + 2)


@pytest.mark.parametrize("by", JUMPS)
def test_setting_the_clock_between_runs_changes_nothing(host, by):
    host.ends_at = float("inf")
    for _ in range(3):
        assert run("80ms")[0] == 0
        host.shift += by
    host.ends_at = time.monotonic() + 0.1
    code, took_s = run()
    assert code == 3 and took_s < TIMEOUT_S + 2
    check(host, TIMEOUT_S + 2)
    assert min(outcome["polls"] for outcome in outcomes().values()) > 3


@pytest.mark.parametrize("by", [-HOUR, -DAY])
def test_a_clock_that_is_set_back_at_a_boot_strands_nothing(host, by):
    """As if no time had passed: due jobs are due, and a deadline is as far away as before."""
    assert run("80ms")[0] == 0
    host.restart()
    host.shift += by
    host.ends_at = time.monotonic() + 0.2
    code, took_s = run()
    assert code == 3 and took_s < TIMEOUT_S + 2
    check(host, TIMEOUT_S + 2)


@pytest.mark.parametrize("by", [HOUR, DAY])
def test_with_a_clock_far_ahead_after_a_boot_each_job_gets_exactly_one_final_poll(host, by):
    """It looks as if the machine had been off for so long."""
    assert run("80ms")[0] == 0
    before = dict(host.api.counts)
    host.restart()
    host.shift += by
    host.ends_at = time.monotonic()
    code, took_s = run("5s", "--timeout", "10m")
    assert code == 3 and took_s < 2
    polls = {name: count - before.get(name, 0) for name, count in host.api.counts.items()}
    assert polls == dict.fromkeys(polls, 1)
    check(host, by + 2)


@pytest.mark.parametrize("by", JUMPS)
@pytest.mark.parametrize("is_boot", [False, True])
def test_the_lease_of_a_dead_process_expires_even_if_the_clock_is_set(host, by, is_boot):
    host.ends_at = time.monotonic()
    with Ledger("jobs.db") as ledger:
        assert len(ledger._leases.claim(20, lease_s=0.3)) == 11
    if is_boot:
        host.restart()
    host.shift += by
    code, took_s = run()
    assert code == 3 and took_s < TIMEOUT_S + 3
    assert sorted(outcome["state"] for outcome in outcomes().values()) == ["done"] * 10 + [
        "timed_out"
    ]
    assert max(count for name, count in host.api.counts.items() if name != "late") == 1
