"""The profiles of `pollkit help apis`, each against a server that speaks as its API does."""

import json
import re

import pytest

from pollkit import Job, Poller, State
from pollkit.cli.commands.program.help import text_of
from pollkit.edges.profiles.catalog import check_file, find_profile, profile_names
from raw_server import RawServer, reply

pytestmark = pytest.mark.usefixtures("home")

TABLE = {"Table": {"TableStatus": "ACTIVE", "TableName": "t"}}
NO_TABLE = {"__type": "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"}
RUNNING_PIPELINE = {"id": 1, "status": "waiting_for_resource", "user": {"state": "active"}}

# Each row: profile, the replies (a status before the data if it is not 200), state, and the
# result or the error message.
SCRIPTS = [
    ("plain-202", [("202 Accepted", {}), {"rows": 3}], "done", {"rows": 3}),
    ("plain-202", [("410 Gone", {"message": "expired"})], "failed", "expired"),
    (
        "azure-operation",
        [{"status": "Updating"}, {"status": "Succeeded", "properties": {"n": 1}}],
        "done",
        {"n": 1},
    ),
    (
        "azure-operation",
        [{"status": "Failed", "error": {"code": "Conflict", "message": "in use"}}],
        "failed",
        "in use",
    ),
    (
        "google-operation",
        [
            {"name": "operations/1", "metadata": {"state": "DONE"}},
            {"name": "operations/1", "done": True, "response": {"n": 1}},
        ],
        "done",
        {"n": 1},
    ),
    (
        "google-operation",
        [{"name": "operations/1", "done": True, "error": {"code": 3, "message": "bad"}}],
        "failed",
        "bad",
    ),
    ("table-exists", [("400 Bad", NO_TABLE), TABLE], "done", TABLE["Table"]),
    ("ogc", [{"status": "running", "progress": 5}, {"status": "successful"}], "done", None),
    ("ogc", [{"status": "dismissed", "message": "by the user"}], "failed", "by the user"),
    (
        "jsend",
        [
            {"status": "success", "data": {"job": {"state": "queued"}}},
            {"status": "success", "data": {"job": {"state": "done", "result": 7}}},
        ],
        "done",
        7,
    ),
    ("jsend", [{"status": "error", "message": "no database"}], "failed", "no database"),
    (
        "slurm",
        [
            {"jobs": [{"job_state": ["RUNNING", "CONFIGURING"]}]},
            {"jobs": [{"job_state": ["COMPLETED"]}]},
        ],
        "done",
        None,
    ),
    (
        "slurm",
        [{"jobs": [{"job_state": ["NODE_FAIL"], "state_reason": "NodeDown"}]}],
        "failed",
        "NodeDown",
    ),
    ("gitlab-pipeline", [RUNNING_PIPELINE, {"id": 1, "status": "success"}], "done", None),
    ("gitlab-pipeline", [{"id": 1, "status": "canceled"}], "failed", None),
    (
        "jenkins",
        [
            {"building": True, "result": None},
            {"building": False, "result": "SUCCESS", "artifacts": [{"relativePath": "a.zip"}]},
        ],
        "done",
        ["a.zip"],
    ),
    (
        "jenkins",
        [{"building": False, "result": "UNSTABLE", "description": "2 tests failed"}],
        "failed",
        "2 tests failed",
    ),
    (
        "openai-response",
        [{"status": "in_progress", "error": None}, {"status": "completed", "output": ["x"]}],
        "done",
        ["x"],
    ),
    (
        "openai-response",
        [{"status": "failed", "error": {"code": "server_error", "message": "sorry"}}],
        "failed",
        "sorry",
    ),
]


@pytest.fixture
def cookbook(write):
    """The profiles of the topic, in a file."""
    lines = [line[4:] for line in text_of("apis").split("\n") if line.startswith("    ")]
    return write("\n".join(line for line in lines if not line.startswith("pollkit ")))


def encode(answer):
    status, data = answer if isinstance(answer, tuple) else ("200 OK", answer)
    return reply(json.dumps(data), status, Content_Type="application/json")


def test_the_cookbook_has_ten_profiles_without_mistakes(cookbook):
    assert check_file(cookbook) == []
    assert sorted(profile_names(cookbook)) == sorted({name for name, _, _, _ in SCRIPTS})
    assert len(profile_names(cookbook)) == 10


@pytest.mark.parametrize("name, replies, state, expected", SCRIPTS)
def test_a_server_that_speaks_so_is_understood(cookbook, name, replies, state, expected):
    profile = find_profile(name, cookbook)
    with RawServer(*map(encode, replies)) as server:
        path = re.sub(r"https?://[^/]+|\{base\}", "", profile.url or "/{id}")
        local = profile._replace(
            url=server.origin + path, base=None, auth=None, pace="fixed 10ms", labels={}
        )
        outcome = Poller(local, timeout=5).poll(job_of(local))
        assert len(server.requests) == len(replies)
    assert (outcome.state, outcome.faults) == (State(state), 0)
    if state == "failed" and expected is not None:
        assert outcome.error.message == expected
    elif expected is not None:
        assert outcome.result == expected


def job_of(profile):
    """A job, with a label if the URL needs one."""
    return Job("7", label="p" if "{label}" in profile.url else None)
