"""The status command: JSON, outages, --summary and --watch."""

import json
import re
import signal

import pytest

from ledger_host import finish_without_result, poll_job, time_passes
from ledger_shell import added, posix, profile, start, wait_for_exit
from pollkit import Job, Ledger
from pollkit.core.reading.verdict import Verdict
from pollkit.core.scheduling.outages import Outage
from pollkit.core.waiting.ends.endings import RESULT_ERROR, SAVE_ERROR

pytestmark = pytest.mark.usefixtures("place")
KEYS = (
    "id profile label metadata state status progress polls faults last_fault added_at deadline "
    "next_poll_at ended_at outcome notified notify_error"
).split()
INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
REFUSED = "127.0.0.1:9 refused the connection"
DOWN = "http://127.0.0.1:9"


def status(pollkit, *words):
    code, out, err = pollkit("status", "jobs.db", "--json", *words)
    assert err == ""
    return code, json.loads(out)


def begin_outage(began_s_ago=90.0, next_probe_s=30.0):
    with Ledger("jobs.db") as ledger:
        now = ledger.clock.now()
        outage = Outage(DOWN, now - began_s_ago, REFUSED, now + next_probe_s)
        assert ledger._outages.begin(outage)


def test_json_has_exactly_the_documented_keys(api, pollkit):
    added(api, 1)
    api.add("late", lasts=60)
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("late", profile="fake", label="small", metadata={"to": "me"})])
    pollkit("run", "jobs.db", "--once", "--outbox", "out.jsonl")
    code, found = status(pollkit)
    assert code == 5 and list(found) == ["summary", "outages", "jobs"]
    assert found["summary"] == {
        "waiting": 1,
        "leased": 0,
        "done": 1,
        "failed": 0,
        "timed_out": 0,
        "unreachable": 0,
        "cancelled": 0,
    }
    done, late = found["jobs"]
    assert list(done) == list(late) == KEYS
    assert (done["state"], done["notified"], done["outcome"]["state"]) == ("done", "yes", "done")
    assert (done["deadline"], done["next_poll_at"]) == (None, None)
    assert (late["label"], late["metadata"], late["polls"]) == ("small", {"to": "me"}, 1)
    assert (late["notified"], late["notify_error"], late["outcome"]) == ("no", None, None)
    for key in ("added_at", "deadline", "next_poll_at"):
        assert re.fullmatch(INSTANT, late[key]), key
    assert late["ended_at"] is None and done["ended_at"] == done["outcome"]["ended_at"]


def test_the_last_fault_names_the_cause_and_stays_after_a_good_reply(api, pollkit):
    profile(DOWN)
    pollkit("add", "jobs.db", "job_0", "--profile", "fake")
    pollkit("run", "jobs.db", "--once")
    (job,) = status(pollkit)[1]["jobs"]
    assert REFUSED in job["last_fault"] and (job["faults"], job["polls"]) == (1, 1)
    assert "1 job with a fault" in pollkit("status", "jobs.db")[1].splitlines()[0]
    assert REFUSED in pollkit("status", "jobs.db")[1]
    api.add("job_0", lasts=60)
    profile(api.url("").rpartition("/jobs")[0])
    time_passes("jobs.db", 60)
    pollkit("run", "jobs.db", "--once")
    (job,) = status(pollkit)[1]["jobs"]
    assert REFUSED in job["last_fault"] and (job["faults"], job["polls"]) == (1, 2)
    assert "refused" not in pollkit("status", "jobs.db")[1]


def test_a_fault_with_a_retry_after_is_a_problem_until_the_next_good_reply(api, pollkit):
    api.fault(503, retry_after=20)
    added(api, 1, lasts=60)
    pollkit("run", "jobs.db", "--once")
    for selection in [], ["--state", "waiting"]:
        first, *others = pollkit("status", "jobs.db", *selection)[1].splitlines()
        assert "1 job with a fault" in first and "the server answered 503" in others[-1]
    time_passes("jobs.db", 60)
    pollkit("run", "jobs.db", "--once")
    assert "fault" not in pollkit("status", "jobs.db")[1].splitlines()[0]


def test_the_deadline_is_the_same_before_and_after_the_first_poll(api, pollkit):
    added(api, 1, lasts=60)
    (before,) = status(pollkit)[1]["jobs"]
    pollkit("run", "jobs.db", "--once")
    (after,) = status(pollkit)[1]["jobs"]
    assert (before["polls"], after["polls"]) == (0, 1)
    assert before["deadline"][:18] == after["deadline"][:18] > before["added_at"]


def test_status_begins_with_the_outage_and_json_lists_it(api, pollkit):
    added(api, 1, lasts=60)
    begin_outage()
    code, out, _ = pollkit("status", "jobs.db")
    assert code == 5
    assert re.fullmatch(
        r"http://127\.0\.0\.1:9 has been down for 1m30s, since \S+ \S+ UTC: %s; "
        r"next try in (30|29)s" % REFUSED,
        out.splitlines()[0],
    )
    (outage,) = status(pollkit)[1]["outages"]
    assert list(outage) == ["origin", "since", "last_fault"]
    assert (outage["origin"], outage["last_fault"]) == (DOWN, REFUSED)
    assert re.fullmatch(INSTANT, outage["since"])
    with Ledger("jobs.db") as ledger:
        ledger._outages.end(DOWN, 0.0)
    assert "down" not in pollkit("status", "jobs.db")[1]
    assert status(pollkit)[1]["outages"] == []


@pytest.mark.parametrize("flags", [[], ["--json"], ["--summary"]])
def test_the_exit_code_covers_done_jobs_without_their_result_as_that_of_batch_does(pollkit, flags):
    with Ledger("jobs.db") as ledger:
        ledger.add(["fetched", "lost", "unsaved"])
        claims = {claim.job.id: claim for claim in ledger._leases.claim(3)}
        finish_without_result(ledger, claims["lost"], RESULT_ERROR)
        finish_without_result(ledger, claims["unsaved"], SAVE_ERROR)
        result = 'a text with "result-not-fetched"'
        assert poll_job(ledger, claims["fetched"], Verdict.DONE, result=result)
    assert pollkit("status", "jobs.db", *flags)[0] == 2
    assert pollkit("status", "jobs.db", "lost", "fetched", *flags)[0] == 4
    assert pollkit("status", "jobs.db", "fetched", *flags)[0] == 0
    assert pollkit("status", "jobs.db", "--state", "failed", *flags)[0] == 0
    assert pollkit("status", "jobs.db", "--state", "done", *flags)[0] == 2
    with Ledger("jobs.db") as ledger:
        ledger.add(["waiting"])
    assert pollkit("status", "jobs.db", *flags)[0] == 5


def test_a_notification_that_was_given_up_is_visible(api, pollkit):
    added(api, 1)
    pollkit("run", "jobs.db", "--once")
    with Ledger("jobs.db") as ledger:
        (notification,) = ledger._notifications.claim(1)
        ledger._notifications.record_failure(notification, "exited with 1", 10.0, give_up_s=0.0)
    code, found = status(pollkit)
    assert code == 0
    assert [found["jobs"][0][key] for key in ("notified", "notify_error")] == [
        "gave_up",
        "exited with 1",
    ]
    out = pollkit("status", "jobs.db")[1]
    assert re.search(r" gave up +notification failed \(attempt 1\): exited with 1\n", out)


def test_the_table_names_states_as_the_flag_takes_them(api, pollkit):
    api.add("late", lasts=600)
    pollkit("add", "jobs.db", "late", "--profile", "fake", "--timeout", "0")
    assert pollkit("run", "jobs.db")[0] == 3
    out = pollkit("status", "jobs.db")[1]
    assert out.startswith("1 timed_out; ") and re.search(r"\nlate +timed_out +", out)


def test_a_filter_by_state_ignores_jobs_that_wait(api, pollkit):
    added(api, 1, lasts=60)
    assert pollkit("status", "jobs.db")[0] == 5
    assert pollkit("status", "jobs.db", "--state", "failed") == (0, "no jobs\n", "")


def test_the_summary_has_no_jobs(api, pollkit):
    added(api, 2)
    assert pollkit("status", "jobs.db", "--summary") == (
        5,
        "2 waiting; the oldest has waited for 0s\n",
        "",
    )
    code, found = status(pollkit, "--summary")
    assert (code, found["summary"]["waiting"], found["jobs"]) == (5, 2, [])


@pytest.mark.parametrize(
    "words, message",
    [
        (["jobs.db", "--watch", "0"], "--watch: 0 is too short"),
        (["--watch", "jobs.db"], "if it is the ledger, write it before --watch"),
        (["jobs.db", "--watch", "--json"], "leave out --json"),
    ],
)
def test_a_wrong_watch_is_one_line(api, pollkit, words, message):
    added(api, 1)
    code, out, err = pollkit("status", *words)
    assert (code, out, err.count("\n")) == (2, "", 1) and message in err


@posix
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_without_a_terminal_watch_prints_one_summary_after_the_other(api, number, code):
    added(api, 1, lasts=60)
    begin_outage()
    process = start("status", "jobs.db", "--watch", "100ms")
    lines = [process.stdout.readline() for _ in range(3)]
    process.send_signal(number)
    assert wait_for_exit(process)[0] == code
    for line in lines:
        assert re.fullmatch(
            INSTANT + r" http://127.0.0.1:9 has been down for .*; 1 waiting; the oldest .*\n", line
        )


@posix
def test_watch_ends_when_the_pipe_is_closed(api):
    added(api, 1, lasts=60)
    process = start("status", "jobs.db", "--watch", "100ms")
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == 141
    assert process.stderr.read() == ""
    process.stderr.close()
