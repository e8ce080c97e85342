"""The fields that look like a status, as doctor lists them."""

import json

import pytest

from pollkit import Profile, Reply
from pollkit.cli import main
from pollkit.core.reading.fields.status_field import MOST_LISTED
from pollkit.core.reading.reader import Reader
from pollkit.drivers.doctor.findings import Level, meaning_finding
from raw_server import RawServer
from raw_server import reply as http_reply
from readings import GUESS

USER = {"id": 1, "username": "root", "state": "active"}
FINISHED = {"created_at": "2026-11-13T11:00:00Z", "finished_at": "2026-11-13T11:59:00Z"}


def candidates(data, reader=GUESS, status=200):
    return list(map(str, reader.list_candidates(Reply(status, {}, json.dumps(data)))))


def test_the_candidates_are_listed_if_it_is_uncertain_which_is_the_status():
    data = {
        "status": "success",
        "job": {"phase": "ORDERED"},
        "a.b": {"state": "x"},
        "": {"state": "x"},
        "$": {"state": "x"},
        "a[0]": {"state": "x"},
        "a|json": {"state": "x"},
    }
    assert candidates(data) == [
        'status "success"',
        'job.phase "ORDERED"',
    ]  # only paths that a profile can name
    assert candidates({"jobs": [{"job_state": "RUNNING"}]}) == ['jobs.0.job_state "RUNNING"']
    wrong = Reader(Profile(status="nope"))
    assert candidates({"status": "running"}, wrong) == ['status "running"']
    assert len(candidates({"status": "ok", "all": [{"state": "x"}] * 50})) == MOST_LISTED
    assert candidates({"status": "ok", "k" * 200: [{"state": "x"}] * 50}) == []


@pytest.mark.parametrize(
    "data",
    [
        {"status": "running", "user": USER},
        {"status": "success"},
        {"status": "success", "data": {"url": "u"}},
        {"a": 1},
        dict(FINISHED, status="success", user=USER),
        [],
        "done",
        5,
        None,
    ],
)
def test_nothing_is_listed_if_it_is_certain(data):
    assert candidates(data) == []


def test_without_the_key_of_a_status_the_fields_with_a_status_word_are_listed():
    data = {"id": "a", "step": "Running", "data": {"mode": "fast", "now": "queued"}}
    assert candidates(data) == ['step "Running"', 'data.now "queued"']
    assert candidates(dict(data, data={"phase": "ORDERED"})) == ['data.phase "ORDERED"']


def test_nothing_is_listed_for_an_error_or_a_body_that_is_not_json():
    assert candidates({"status": "success", "job": {"phase": "ORDERED"}}, status=500) == []
    assert GUESS.list_candidates(Reply(200, {}, b"<html>")) == []
    assert GUESS.list_candidates(Reply(200)) == []
    named = Reader(Profile(status="status"))
    assert candidates({"status": "success", "job": {"phase": "ORDERED"}}, named) == []


@pytest.mark.parametrize(
    "data, level, line",
    [
        ({"status": "success", "data": {"state": "generating"}}, Level.OK, None),
        (
            {"status": "success", "a": {"state": "done"}, "b": {"state": "queued"}},
            Level.WARNING,
            "status = a.state",
        ),
        ({"status": "success", "job": {"phase": "ORDERED"}}, Level.WARNING, "status = job.phase"),
        ({"jobs": [{"job_state": "RUNNING"}]}, Level.PROBLEM, "status = jobs.0.job_state"),
        ({"data": {"job": {"step": "Running"}}}, Level.PROBLEM, "status = data.job.step"),
    ],
)
def test_doctor_warns_if_the_status_is_uncertain_and_has_a_line_to_paste(data, level, line):
    reply = Reply(200, {}, json.dumps(data))
    found = meaning_finding(GUESS.read(reply), True, GUESS.list_candidates(reply))
    assert found.level is level
    assert "fields that look like a status: " in found.text
    assert found.advice.endswith(": " + line) if line else found.advice == ""


def test_a_202_without_a_status_needs_no_candidates():
    reply = Reply(202, {}, '{"jobs": [{"job_state": "RUNNING"}]}')
    found = meaning_finding(GUESS.read(reply), True, GUESS.list_candidates(reply))
    assert (found.level, found.text) == (Level.OK, "202 Accepted: pending")


# From a real server to the command line

ORDERED = '{"payload": {"job": {"phase": "ORDERED"}}, "status": "success"}'
PROCESSING = '{"status": "success", "data": {"attributes": {"state": "processing"}}}'


@pytest.mark.parametrize("body", [ORDERED, PROCESSING], ids=["unknown", "pending"])
def test_a_wait_lasts_as_long_as_the_job_inside_the_envelope(body, capsys):
    done = body.replace("ORDERED", "done").replace("processing", "done")
    with RawServer(http_reply(body), http_reply(body), http_reply(done)) as server:
        command = ["wait", server.url(), "--pace", "fixed 10ms", "--proxy", "none"]
        assert main(command) == 0
        assert len(server.requests) == 3
        server.answers = [http_reply(body)]
        assert main(command + ["--timeout", "0"]) == 3
    out, err = capsys.readouterr()
    assert [json.loads(line)["state"] for line in out.splitlines()] == ["done", "timed_out"]
    assert ("unknown status 'ORDERED' counts as pending" in err) == (body == ORDERED)


@pytest.mark.parametrize(
    "body, path", [(ORDERED, 'payload.job.phase "ORDERED"'), (PROCESSING, "data.attributes.state")]
)
def test_doctor_lists_the_candidates_and_the_profile_can_name_one(body, path, capsys, tmp_path):
    with RawServer(http_reply(body)) as server:
        assert main(["doctor", server.url(), "--proxy", "none"]) == 0
        out = capsys.readouterr().out
        assert 'fields that look like a status: status "success", ' + path in out
        ini = tmp_path / "mine.ini"
        ini.write_text("[mine]\nurl = %s\nstatus = status\n" % server.url("/{id}"))
        named = ["--profile", "mine", "--profiles", str(ini), "--proxy", "none"]
        assert main(["doctor", "1"] + named) == 0
        out = capsys.readouterr().out
        assert "look like a status" not in out and 'status "success" at status: done' in out
