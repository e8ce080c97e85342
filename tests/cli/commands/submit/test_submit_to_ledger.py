"""pollkit submit --ledger: the job is in the ledger before it is submitted."""

import json
import os
import signal
import sqlite3
from contextlib import closing

import pytest

from ledger_shell import lines_of, posix, start, wait_for_exit
from pollkit import Ledger
from raw_server import wait_for


def test_in_a_ledger_it_submits_and_leaves_the_wait_to_run(pollkit, describe, server):
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    code, out, err = pollkit(*words, "--timeout", "6h", "--metadata", '{"file": "a"}')
    job = json.loads(out)
    assert (code, job["state"], job["status"]) == (0, "waiting", "queued")
    assert (job["polls"], job["metadata"]) == (0, {"file": "a"})
    assert err.startswith("pollkit: %s was submitted; it times out at " % job["id"])
    assert "(6h) unless done" in err
    assert pollkit("run", "jobs.db", "--outbox", "out.jsonl") == (0, "", "")
    (outcome,) = lines_of("out.jsonl")
    assert (outcome["id"], outcome["result"]) == (job["id"], {"pages": 3})


def test_the_body_is_in_the_ledger_until_the_job_is_known_and_the_credential_never(
    pollkit, describe, monkeypatch
):
    monkeypatch.setenv("TOKEN", "s3cr3t-token")
    with open("job.json", "w") as file:
        file.write('"the body"')
    describe("drop", "auth = bearer env:TOKEN")
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    assert pollkit(*words)[0] == 4
    describe("ok", "auth = bearer env:TOKEN")
    assert pollkit(*words)[0] == 0
    with closing(sqlite3.connect("jobs.db")) as db:
        bodies = db.execute("SELECT body FROM intents").fetchall()
        dump = "\n".join(db.iterdump())
    assert bodies == [('"the body"',)]
    assert "s3cr3t" not in dump


def test_status_and_dry_run_know_jobs_that_are_not_submitted_yet(pollkit, describe):
    with open("mine.ini", "w") as file:
        file.write(
            "[counted]\nurl = http://127.0.0.1:9/jobs/{id}\nsubmit_url = http://127.0.0.1:9/jobs\n"
            "proxy = none\n"
        )
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    code, out, err = pollkit(*words)
    assert code == 0
    assert "is not submitted yet: 127.0.0.1:9 refused the connection" in err
    assert "pollkit run will try again" in err
    job = json.loads(out)
    assert (job["status"], job["faults"]) == ("not submitted", 1)
    assert "refused the connection" in job["last_fault"]
    _, out, _ = pollkit("status", "jobs.db")
    assert "not submitted" in out and "refused the connection" in out
    code, out, err = pollkit("run", "jobs.db", "--dry-run")
    assert code == 0 and "can't be polled" not in out


def test_a_job_that_is_not_submitted_yet_is_not_cancelled(pollkit, describe, server):
    """The API does not know its name: a request could only cancel another job, or none."""
    with open("mine.ini", "w") as file:
        file.write(
            "[counted]\nurl = {0}/jobs/{{id}}\nsubmit_url = http://127.0.0.1:9/jobs\n"
            "cancel_url = {0}/jobs/{{id}}/cancel\nproxy = none\n".format(server.origin)
        )
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    name = json.loads(pollkit(*words)[1])["id"]
    before = len(server.requests("POST"))
    code, _, err = pollkit("cancel", "jobs.db", name)
    assert (code, err.count("\n")) == (2, 1)
    assert "so nothing was sent: %s; let pollkit run submit it first, or remove" % name in err
    assert len(server.requests("POST")) == before


def test_retry_resubmit_is_the_users_decision(pollkit, describe, server):
    with open("job.json", "w") as file:
        file.write('"again"')
    describe("drop-once&n=again")
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    code, out, err = pollkit(*words)
    name = json.loads(out)["id"]
    assert code == 4 and "pollkit retry LEDGER %s --resubmit" % name in err
    assert pollkit("retry", "jobs.db", name) == (0, "", "pollkit: 1 waits again\n")
    assert pollkit("run", "jobs.db")[0] == 4
    assert server.count("again") == 1
    assert pollkit("retry", "jobs.db", name, "--resubmit")[0] == 0
    assert pollkit("run", "jobs.db") == (0, "", "")
    assert server.count("again") == 2  # as the user wanted


def test_resubmit_is_refused_for_jobs_that_were_submitted(pollkit, describe):
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    name = json.loads(pollkit(*words)[1])["id"]
    assert pollkit("run", "jobs.db")[0] == 0
    code, _, err = pollkit("retry", "jobs.db", name, "--resubmit")
    assert code == 2 and "nothing was changed: " + name in err
    with Ledger("jobs.db") as ledger:
        assert [row.state for row in ledger.jobs()] == ["done"]


def test_status_shows_the_whole_command_that_submits_a_job_again(pollkit, describe):
    describe("drop-once&n=long")
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    name = json.loads(pollkit(*words)[1])["id"]
    _, out, _ = pollkit("status", "jobs.db")
    assert "if it has not: pollkit retry LEDGER %s --resubmit" % name in out


@pytest.mark.parametrize(
    "more, status, sentence",
    [
        ("idempotency_header = Idempotency-Key", "perhaps submitted", " is perhaps submitted: "),
        ("", None, " the API may have accepted the job: "),
    ],
)
def test_a_lost_reply_is_not_taken_for_a_request_that_was_not_sent(
    pollkit, describe, more, status, sentence
):
    describe("drop", more)
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    _, out, err = pollkit(*words)
    assert json.loads(out)["status"] == status
    assert sentence in err and "not submitted yet" not in err


@pytest.mark.parametrize("flags", [["--result"], ["--pace", "fixed 5s"], ["--history", "h.json"]])
def test_flags_of_a_wait_are_refused_with_a_ledger(submit, flags):
    code, _, err = submit("--ledger", "jobs.db", *flags)
    assert (code, err) == (
        2,
        "pollkit: %s does not go with --ledger, which does not wait\n" % flags[0],
    )
    assert not os.path.exists("jobs.db")


def test_a_history_from_the_environment_is_no_error_with_a_ledger(submit, monkeypatch):
    monkeypatch.setenv("POLLKIT_HISTORY", "none")
    assert submit("--ledger", "jobs.db")[0] == 0


def interrupt_submission(server, body):
    """Interrupt submit when the server has created the job, but not replied yet; its errors."""
    with open("job.json", "w") as file:
        json.dump(body, file)
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    process = start(*words)
    wait_for(lambda: server.count(body))
    process.send_signal(signal.SIGINT)
    code, _, err = wait_for_exit(process)
    assert code == 130
    return err


@posix
def test_an_interrupted_submission_is_completed_by_run(describe, server):
    describe("ok&delay=1.5", "idempotency_header = Idempotency-Key")
    err = interrupt_submission(server, "interrupted")
    assert "interrupted: pollkit run completes the submission of submit-" in err
    describe("ok", "idempotency_header = Idempotency-Key")
    run = start("run", "jobs.db", "--outbox", "out.jsonl")
    assert wait_for_exit(run) == (0, "", "")
    (outcome,) = lines_of("out.jsonl")
    assert outcome["result"] == "interrupted"
    assert server.count("interrupted") == 1


@posix
def test_an_interrupted_submission_without_a_key_may_have_been_submitted(describe, server):
    describe("ok&delay=1.5")
    err = interrupt_submission(server, "interrupted without a key")
    assert "may have been submitted: pollkit run submits it only if no request was sent" in err
    run = start("run", "jobs.db", "--outbox", "out.jsonl")
    assert wait_for_exit(run)[0] == 4
    (outcome,) = lines_of("out.jsonl")
    assert outcome["error"]["code"] == "submit-ambiguous"
