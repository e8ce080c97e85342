"""run --dry-run and run --splay."""

import argparse
import os

import pytest

from ledger_shell import added
from pollkit import Job, Ledger
from pollkit.cli.commands.ledgers.run import delay_start
from pollkit.core.scheduling.outages import Outage
from pollkit.testing import VirtualClock

pytestmark = pytest.mark.usefixtures("place")


def test_a_dry_run_prints_what_a_run_would_do_and_sends_and_writes_nothing(api, pollkit):
    added(api, 3)
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("x", profile="absent"), "http://down.example/1"])
        now = ledger.clock.now()
        outage = Outage("http://down.example", now - 600, "refused", now + 30)
        ledger._outages.begin(outage)
    names = set(os.listdir("."))
    files = ["--outbox", "out.jsonl", "--metrics", "m.prom", "--bucket", "b.db"]
    code, out, err = pollkit("run", "jobs.db", "--dry-run", "--once", *files)
    assert (code, err) == (2, "") and api.requests == [] and set(os.listdir(".")) == names
    first, fake, down, absent = out.splitlines()
    assert first == "5 jobs wait: 5 due now"
    assert fake == "%s (profile fake): 3 due, 3 would be polled" % api.base
    assert down.startswith("http://down.example: 1 due, held back, because it has been down since ")
    assert "(10m): refused; the next probe is in " in down
    assert absent.startswith("can't be polled: x: there is no profile 'absent'")
    with Ledger("jobs.db") as ledger:
        assert len(ledger._outages.take_reports()) == 1  # a dry run leaves it to a real one


def test_a_dry_run_counts_jobs_that_the_limit_holds_back(api, pollkit):
    added(api, 5)
    words = ["run", "jobs.db", "--dry-run", "--profile", "fake", "--limit", "1/m burst 2"]
    text = "5 jobs wait: 5 due now\n%s (profile fake): 5 due, %s\n"
    code, out, _ = pollkit(*words, "--for", "55s")
    held_back = "2 would be polled; the rate limit holds back 3"
    assert (code, out) == (0, text % (api.base, held_back))
    code, out, _ = pollkit(*words)
    assert (code, out) == (0, text % (api.base, "5 would be polled"))


def test_a_dry_run_shows_pending_notifications(api, pollkit):
    added(api, 1)
    pollkit("run", "jobs.db")
    text = "no job waits\n1 notification pending, the first is due now"
    remark = "; a run without --exec and --outbox sends none\n"
    assert pollkit("run", "jobs.db", "--dry-run") == (0, text + remark, "")
    assert pollkit("run", "jobs.db", "--dry-run", "--outbox", "o") == (0, text + "\n", "")
    pollkit("run", "jobs.db", "--outbox", "o")
    assert pollkit("run", "jobs.db", "--dry-run") == (0, "no job waits\n", "")


# --splay


@pytest.mark.parametrize("for_s, left_s", [(55.0, 50.0), (None, None)])
def test_a_run_begins_after_a_part_of_the_splay_and_ends_no_later(capsys, for_s, left_s):
    clock = VirtualClock()
    arguments = argparse.Namespace(splay=20.0, for_s=for_s, verbose=1)
    delay_start(arguments, clock, lambda: 0.25)
    assert (clock.now(), arguments.for_s) == (5.0, left_s)
    assert capsys.readouterr().err == "pollkit: the run begins in 5s (--splay)\n"


def test_a_run_with_a_splay_polls(api, pollkit):
    added(api, 1)
    assert pollkit("run", "jobs.db", "--once", "--splay", "10ms") == (0, "", "")
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    "words, message",
    [
        (["--for", "20s", "--splay", "20s"], "--splay must be shorter than --for"),
        (["--splay", "soon"], "--splay: 'soon' is not a duration"),
    ],
)
def test_a_splay_that_leaves_no_time_is_refused(api, pollkit, words, message):
    added(api, 1)
    code, _, err = pollkit("run", "jobs.db", *words)
    assert code == 2 and message in err and api.requests == []
