"""`pollkit help schema` describes the output of wait, batch, run, --log-json and status --json."""

import json

import pytest

from json_schema import find_errors
from ledger_shell import lines_of
from pollkit import Ledger, Outcome, State
from pollkit.core import events
from pollkit.core.scheduling.outages import Outage

QUICK = ["--profile", "fake", "--pace", "fixed 20ms", "--history", "none"]
# The keys that the design names.
STATUS = "summary outages jobs".split()
JOB = (
    "id profile label metadata state status progress polls faults last_fault added_at deadline "
    "next_poll_at ended_at outcome notified notify_error"
).split()


@pytest.fixture
def schema(pollkit):
    code, out, err = pollkit("help", "schema")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.fixture
def jobs(api):
    """Jobs that end in each way."""
    api.add("done", lasts=0.1, pages=3, result={"pages": [1, None, "x"]})
    api.add("failed", fails="bad page", code="E7")
    api.add("late", lasts=60)
    api.fault(400, "gone")
    api.fault(500, "done")
    return ["done", "failed", "late", "gone"]


def check(value, kind, schema):
    assert find_errors(value, schema["$defs"][kind], schema) == []
    assert find_errors(value, schema, schema) == []


def test_outcomes_of_wait_and_batch_match(jobs, pollkit, schema):
    words = ["batch"] + jobs + QUICK + ["--timeout", "500ms"]
    outcomes = [json.loads(line) for line in pollkit(*words)[1].splitlines()]
    assert {outcome["state"] for outcome in outcomes} == {
        "done",
        "failed",
        "timed_out",
        "unreachable",
    }
    outcomes.append(json.loads(pollkit("wait", "done", *QUICK)[1]))
    for outcome in outcomes:
        check(outcome, "outcome", schema)


def test_lines_of_an_outbox_match(jobs, pollkit, schema):
    with open("jobs.jsonl", "w") as file:
        file.write('{"id": "done", "metadata": {"n": 1}}\n{"id": "failed", "label": "small"}\n')
    pollkit("add", "jobs.db", "--from", "jobs.jsonl", "--profile", "fake")
    pollkit("run", "jobs.db", "--outbox", "out.jsonl")
    outcomes = lines_of("out.jsonl")
    assert len(outcomes) == 2
    for outcome in outcomes:
        check(outcome, "outcome", schema)


def test_lines_of_the_log_match(jobs, api, pollkit, schema):
    api.fault(429, "failed", retry_after=0.1)
    words = ["batch"] + jobs + QUICK + ["--timeout", "500ms", "--log-json"]
    text = pollkit(*words)[2]
    api.fault(400, "gone")
    text += pollkit(*(words + ["-v"]))[2]
    lines = [json.loads(line) for line in text.splitlines()]
    kinds = {line["event"] for line in lines}
    assert kinds == {"poll", "status", "fault", "pause", "end", "note"}
    for line in lines:
        check(line, "event", schema)


def test_every_kind_of_event_and_every_state_is_in_the_schema(schema):
    about_jobs = schema["$defs"]["event"]["anyOf"][0]["properties"]["event"]["enum"]
    names = ("POLL", "STATUS", "FAULT", "PAUSE", "WARNING", "END")
    assert about_jobs == [getattr(events, name) for name in names]
    assert schema["$defs"]["outcome_state"]["enum"] == [state.value for state in State]


def test_the_keys_of_an_outcome_are_its_fields(schema):
    outcome = schema["$defs"]["outcome"]
    assert outcome["required"] == list(outcome["properties"]) == list(Outcome._fields)


def test_the_keys_of_the_status_are_those_of_the_design(schema):
    for kind, keys in (("status", STATUS), ("job", JOB)):
        assert (
            schema["$defs"][kind]["required"] == list(schema["$defs"][kind]["properties"]) == keys
        )


def test_the_status_of_a_ledger_matches(jobs, pollkit, schema):
    pollkit("add", "jobs.db", "--profile", "fake", "--quiet", *jobs)
    pollkit("run", "jobs.db", "--once", "--outbox", "out.jsonl")
    with Ledger("jobs.db") as ledger:
        ledger._outages.begin(Outage("https://api.internal", ledger.clock.now(), "refused", 0.0))
    code, out, _ = pollkit("status", "jobs.db", "--json")
    status = json.loads(out)
    check(status, "status", schema)
    assert len(status["outages"]) == 1
    assert {job["state"] for job in status["jobs"]} >= {"waiting", "failed"} and code == 5


# The validator itself


@pytest.mark.parametrize(
    "change",
    [
        {"state": "waiting"},
        {"polls": -1},
        {"polls": True},
        {"polls": 1.5},
        {"progress": 1.5},
        {"id": None},
        {"ended_at": "yesterday"},
        {"error": {"code": None}},
        {"slept_s": None},
        {"extra": 1},
        {"polls": None},
    ],
    ids=repr,
)
def test_an_outcome_that_differs_from_the_schema_is_found(jobs, pollkit, schema, change):
    outcome = json.loads(pollkit("wait", "failed", *QUICK)[1])
    assert find_errors(outcome, schema["$defs"]["outcome"], schema) == []
    outcome.update(change)
    assert find_errors(outcome, schema["$defs"]["outcome"], schema)
    assert find_errors(outcome, schema, schema)


def test_a_missing_key_is_found(jobs, pollkit, schema):
    outcome = json.loads(pollkit("wait", "failed", *QUICK)[1])
    del outcome["label"]
    assert find_errors(outcome, schema["$defs"]["outcome"], schema) == ["$: label is missing"]
