"""The wall clock is set, by an hour or a day, between runs and in the middle of one: no job is stranded or stormed."""

import time

import pytest

from job_api import JobApi
from ledger_host import folder
from ledger_place import Place
from pollkit import Ledger
from pollkit.cli import main
from pollkit.edges.clock import Clock

HOUR, DAY = 3600.0, 86400.0
JUMPS = [HOUR, -HOUR, DAY, -DAY]
EVERY_S, TIMEOUT_S, RATE, BURST = 0.05, 0.5, 300, 10
PROFILE = "limit = %d/s burst %d\n[fake:brief]\ntimeout = 500ms\n" % (RATE, BURST)


class Host:
    """The clocks that pollkit sees in this process, and an API whose jobs end when they are told to."""

    def __init__(self, monkeypatch):
        self.shift, self.base, self.boots = 0.0, 0.0, 1
        self.at_request, self.ends_at = {}, float("inf")
        monkeypatch.setattr(Clock, "wall", lambda clock: time.time() + self.shift)
        monkeypatch.setattr(Clock, "now", lambda clock: time.monotonic() - self.base)
        monkeypatch.setattr(Clock, "boot", lambda clock: "boot %d" % self.boots)
        self.api = JobApi(self.answer)

    def answer(self, name, count):
        self.shift += self.at_request.pop(sum(self.api.counts.values()), 0.0)
        return "done" if name != "late" and time.monotonic() >= self.ends_at else "running"

    def restart(self):
        self.base, self.boots = time.monotonic() - 5.0, self.boots + 1


@pytest.fixture
def host(monkeypatch):
    host = Host(monkeypatch)
    with host.api, folder() as path:
        place = Place(path, host.api.url, PROFILE)
        for name, value in place.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(path)
        assert (
            main(
                ["add", "jobs.db", "--profile", "fake", "--quiet"]
                + ["job_%d" % i for i in range(10)]
            )
            == 0
        )
        assert (
            main(["add", "jobs.db", "--profile", "fake", "--quiet", "--label", "brief", "late"])
            == 0
        )
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
        return {row.job.id: row.outcome for row in ledger.rows()}


def check(host, late_s):
    """All ended as they should, nobody was asked more often than the pace says, and the limit was kept."""
    found = outcomes()
    late, ended = found.pop("late"), list(found.values())
    assert [outcome["state"] for outcome in ended] == ["done"] * 10 and late["state"] == "timed_out"
    assert (
        TIMEOUT_S <= late["waited_s"] < late_s
        and min(outcome["waited_s"] for outcome in ended) >= 0.0
    )
    counts, times = host.api.counts, sorted(host.api.times)
    assert max(counts.values()) <= (times[-1] - times[0]) / EVERY_S + 3
    for i, begin in enumerate(times):
        for count, end in enumerate(times[i:], 1):
            assert count <= RATE * (end - begin + 0.1) + BURST


@pytest.mark.parametrize("by", JUMPS)
def test_a_clock_that_is_set_while_a_run_is_at_work_changes_nothing(host, by):
    host.at_request = {30: by}
    host.ends_at = time.monotonic() + 0.3
    code, took_s = run()
    assert code == 3 and took_s < TIMEOUT_S + 2 and host.shift == by
    check(host, TIMEOUT_S + 2)
    assert all(
        outcome["waited_s"] < TIMEOUT_S + 2 and outcome["polls"] > 3
        for outcome in outcomes().values()
    )


def test_a_clock_that_is_set_again_and_again_changes_nothing(host):
    host.at_request = {10 * i: by for i, by in enumerate(JUMPS * 3, 1)}
    host.ends_at = time.monotonic() + 0.3
    assert run()[0] == 3
    check(host, TIMEOUT_S + 2)


@pytest.mark.parametrize("by", JUMPS)
def test_a_clock_that_is_set_between_runs_changes_nothing(host, by):
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
    """As if no time had passed: what was due is due, and a deadline is as far away as it was."""
    assert run("80ms")[0] == 0
    host.restart()
    host.shift += by
    host.ends_at = time.monotonic() + 0.2
    code, took_s = run()
    assert code == 3 and took_s < TIMEOUT_S + 2
    check(host, TIMEOUT_S + 2)


@pytest.mark.parametrize("by", [HOUR, DAY])
def test_a_clock_that_is_far_ahead_after_a_boot_leaves_each_job_a_last_look_and_no_storm(host, by):
    """Nobody can tell it from a machine that was off for so long."""
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
def test_a_lease_of_one_who_died_runs_out_whatever_the_clock_says(host, by, is_boot):
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
