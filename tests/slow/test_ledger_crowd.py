"""Eight processes on one ledger, and one limit for all of them."""

import collections
import os
import signal
import threading

import pytest

from job_api import JobApi
from ledger_host import states
from ledger_place import placed
from pollkit import Ledger
from raw_server import wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="for POSIX only")
RATE = 150
BURST = 5
DELAY_S = 0.1  # of a request on a busy machine, from its token to the server


def profile_for(place, number):
    """The same profile with another URL, which identifies the run."""
    with open(place.env["POLLKIT_PROFILES"]) as file:
        text = file.read()
    with open(place.file("%d.ini" % number), "w") as file:
        file.write(text.replace("/jobs/", "/%d/jobs/" % number))
    return place.file("%d.ini" % number)


def test_eight_processes_share_500_jobs_and_one_limit_and_each_outcome_is_in_the_outbox_once(
    storage,
):
    """Five runs, and one of three processes; a few more jobs make the last portion incomplete."""
    names = ["job_%d" % i for i in range(520)]
    with JobApi(
        lambda name, count: "done" if count or name[-1] != "7" else "running"
    ) as api, placed(api, "limit = %d/s burst %d\n" % (RATE, BURST), storage) as place:
        place.add(names)
        runs = [
            place.start(
                "run",
                place.ledger,
                "--outbox",
                "outbox",
                "--profiles",
                profile_for(place, i),
                "--processes",
                "3" if i == 5 else "1",
            )
            for i in range(6)
        ]
        assert [run.communicate(timeout=60) + (run.returncode,) for run in runs] == [
            ("", "", 0)
        ] * 6
        assert sorted(line["id"] for line in place.lines("outbox")) == sorted(names)
        asked = collections.Counter(path.split("/")[1] for _, path in api.asked)
        times = sorted(api.times)
    assert len(times) == 572 and len([run for run, count in asked.items() if count > 10]) > 3, asked
    for i, begin in enumerate(times):
        for count, end in enumerate(times[i:], 1):
            assert count <= RATE * (end - begin + DELAY_S) + BURST


@pytest.mark.parametrize("runs", [1, 3])
def test_after_all_leases_have_expired_each_outcome_is_still_notified_once(runs):
    """As after a Ctrl-Z or a paused machine: time has passed for all but the runs."""
    names = ["job_%d" % i for i in range(40)]
    with JobApi(lambda name, count: "done" if count >= 20 else "running") as api, placed(
        api
    ) as place:
        place.add(names)
        processes = [place.start("run", place.ledger, "--outbox", "outbox") for _ in range(runs)]
        for least in range(100, 700, 100):
            wait_for(lambda least=least: len(api.asked) > least)
            place.time_passes(40)
        assert [run.communicate(timeout=20) + (run.returncode,) for run in processes] == [
            ("", "", 0)
        ] * runs
        assert sorted(line["id"] for line in place.lines("outbox")) == sorted(names)
        assert len(api.asked) <= 21 * 40 + 3 * runs * 8


class SlowApi(JobApi):
    """Delays the reply to the first poll of each job until `gate` is set."""

    def __init__(self, answer):
        self.gate = threading.Event()
        super().__init__(answer)

    def reply(self, path):
        reply = super().reply(path)
        if self.counts[path.rpartition("/")[2]] == 1:
            self.gate.wait(20)
        return reply


def test_a_run_that_was_stopped_does_not_overwrite_the_outcomes_of_another_run():
    """When it continues, it receives replies about jobs whose leases it has lost."""
    names = ["job_%d" % i for i in range(8)]
    with SlowApi(lambda name, count: "failed" if count else "done") as api, placed(api) as place:
        place.add(names)
        first = place.start("run", place.ledger, "--outbox", "outbox")
        wait_for(lambda: len(api.asked) == 8)
        first.send_signal(signal.SIGSTOP)
        place.time_passes(60)
        second = place.start("run", place.ledger, "--outbox", "outbox", "--quiet")
        assert second.communicate(timeout=20) + (second.returncode,) == ("", "", 1)
        api.gate.set()
        first.send_signal(signal.SIGCONT)
        assert first.communicate(timeout=20) + (first.returncode,) == ("", "", 0)
        notified = [(line["id"], line["state"]) for line in place.lines("outbox")]
        assert sorted(notified) == [(name, "failed") for name in names]
        with Ledger(place.ledger) as ledger:
            assert states(ledger) == {"failed": 8}
            assert ledger.statistics.totals()["fake"].polls == len(api.asked) == 16
