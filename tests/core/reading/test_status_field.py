"""Which field of a reply is the job's status: replies of many APIs, and envelopes around them."""

import json
import os

import pytest

from paths import DATA
from pollkit import Profile, Reply
from pollkit.cli import main
from pollkit.core.reading import status_field
from pollkit.core.reading.reader import Reader, Verdict
from pollkit.core.reading.status_field import DEEPEST_LEVEL, LARGE, MOST_LISTED, MOST_VALUES
from pollkit.drivers.doctor.findings import Level, meaning_finding
from raw_server import RawServer
from raw_server import reply as sent
from readings import GUESS, reply

DONE, FAILED, PENDING = Verdict.DONE, Verdict.FAILED, Verdict.PENDING

USER = {"id": 1, "username": "root", "state": "active"}
FINISHED = {"created_at": "2026-11-13T11:00:00Z", "finished_at": "2026-11-13T11:59:00Z"}


def api_replies():
    """Yield a row per reply in data/api_replies.txt: the data and its verdict."""
    with open(os.path.join(DATA, "api_replies.txt")) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                verdict, name, text = line.split(" | ", 2)
                yield pytest.param(json.loads(text), Verdict(verdict.strip()), id=name)


@pytest.mark.parametrize("data, verdict", list(api_replies()))
def test_what_the_replies_of_many_apis_mean(data, verdict):
    assert reply(data).verdict is verdict


# What looks like a status


def envelope(**inside):
    return {"status": "success", "data": {"x": inside}}


@pytest.mark.parametrize(
    "key",
    """status state phase stage lifecycle Status STATE lifeCycle job_status task_state
    JOB_STATUS jobStatus provisioningState JobState job-status""".split(),
)
def test_keys_of_a_status_inside_an_envelope(key):
    for word in ("processing", "ORDERED"):
        reading = reply(envelope(**{key: word}))
        assert (reading.verdict, reading.status) == (PENDING, word)
        assert reading.because == 'status "%s" at data.x.%s: pending' % (word, key)


@pytest.mark.parametrize(
    "key",
    """statusCode status_code estate upstate realEstate stateful stages phases type name
    message statustext kind jobstatus""".split()
    + ["", "x" * 200 + "_status"],
)
def test_other_keys_are_no_status(key):
    assert reply(envelope(**{key: "processing"})).verdict is DONE


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "two words",
        "https://a/b",
        "2026-11-13T12:00:00Z",
        "200",
        "50%",
        "a@b",
        "x" * 61,
        "{}",
        5,
        1.5,
        True,
        None,
        ["processing"],
        {"text": "x"},
    ],
)
def test_other_values_are_no_status(value):
    assert reply(envelope(state=value)).verdict is DONE


@pytest.mark.parametrize(
    "value", ["In Progress", " queued ", "not-started", "Processing...", "läuft", "step_2"]
)
def test_a_status_is_a_single_word_or_a_known_one(value):
    reading = reply(envelope(state=value))
    assert (reading.verdict, reading.status) == (PENDING, value.strip())


def test_an_unknown_word_inside_an_envelope_is_pending_with_a_warning():
    reading = reply({"payload": {"job": {"phase": "ORDERED"}}, "status": "success"})
    assert (reading.verdict, reading.status) == (PENDING, "ORDERED")
    assert reading.warnings == ("unknown status 'ORDERED' counts as pending",)
    strict = Reader(Profile(unknown="failed"))
    assert (
        strict.read({"payload": {"job": {"phase": "ORDERED"}}, "status": "success"}).verdict
        is FAILED
    )


@pytest.mark.parametrize("word", ["success", "OK", "ok", "Success", "true", True])
@pytest.mark.parametrize("key", ["status", "state", "Status"])
def test_all_envelope_words_count_as_such(key, word):
    data = {"a": {"b": {"phase": "running"}}}
    data[key] = word
    assert reply(data).verdict is PENDING
    assert reply({key: word, "a": {}}).verdict is DONE


@pytest.mark.parametrize(
    "inside",
    [
        {"result": {"job": {"state": "processing"}}},
        {"output": {"status": "processing"}},
        {"data": {"response": {"a": {"status": "processing"}}}},
        {"data": {"Result": {"state": "processing"}}},
        {"data": {"address": {"state": "CA"}}},
        {"billing_address": {"state": "CA"}},
        {"shippingAddress": {"state": "CA"}},
        {"data": {"addresses": [{"state": "CA"}]}},
        {"place": {"city": "Los Angeles", "state": "CA"}},
        {"location": {"State": "Bavaria", "Postal_Code": "80331"}},
        {"state": "CA", "zip": "90001"},
    ],
)
def test_results_and_addresses_have_no_status(inside):
    assert reply(dict(inside, status="success")).verdict is DONE


def test_a_known_word_beside_a_city_is_a_status():
    assert reply(envelope(state="processing", city="Berlin")).verdict is PENDING
    assert reply(envelope(phase="ORDERED", city="Berlin")).verdict is PENDING


def test_the_search_goes_four_levels_deep_and_lists_add_none():
    def nested(levels, in_lists):
        data = {"state": "processing"}
        for _ in range(levels):
            data = {"x": [data] if in_lists else data}
        return dict(data, status="success")

    for in_lists in (False, True):
        for levels in range(1, DEEPEST_LEVEL + 1):
            assert reply(nested(levels, in_lists)).verdict is PENDING
        assert reply(nested(DEEPEST_LEVEL + 1, in_lists)).verdict is DONE


# Which one decides


@pytest.mark.parametrize(
    "data, verdict, place",
    [
        # the nearest level
        ({"a": {"state": "done", "b": {"state": "running"}}}, DONE, "a.state"),
        ({"a": {"b": {"state": "done"}}, "c": {"state": "running"}}, PENDING, "c.state"),
        ({"data": {"state": "done", "job": {"status": "running"}}}, DONE, "data.state"),
        # within an object: pending, failed, done, unknown
        ({"a": {"state": "done", "sub_state": "running"}}, PENDING, "a.sub_state"),
        ({"a": {"state": "done", "sub_state": "failed"}}, FAILED, "a.sub_state"),
        ({"a": {"stage": "prod", "state": "done"}}, DONE, "a.state"),
        ({"a": {"stage": "prod", "state": "failed"}}, FAILED, "a.state"),
        # between objects: pending, unknown, failed, done
        ({"a": {"state": "done"}, "b": {"state": "running"}}, PENDING, "b.state"),
        ({"a": {"state": "done"}, "b": {"state": "ORDERED"}}, PENDING, "b.state"),
        ({"a": {"state": "ORDERED"}, "b": {"state": "running"}}, PENDING, "b.state"),
        ({"a": {"state": "failed"}, "b": {"state": "ORDERED"}}, PENDING, "b.state"),
        ({"a": {"state": "done"}, "b": {"state": "failed"}}, FAILED, "b.state"),
        ({"a": {"state": "done"}, "b": {"state": "succeeded"}}, DONE, "a.state"),
        # a common place that says done has to be confirmed by the others of its level
        ({"data": {"state": "done"}, "job": {"phase": "ORDERED"}}, PENDING, "job.phase"),
        ({"data": {"state": "done"}, "x": {"y": {"state": "running"}}}, DONE, "data.state"),
        ({"result": {"status": "done"}, "x": {"state": "running"}}, PENDING, "x.state"),
        ({"result": {"status": "done"}}, DONE, "result.status"),
        ({"data": {"status": "Waiting for a GPU"}}, PENDING, "data.status"),
        # lists
        ({"data": [{"id": 1, "state": "processing"}]}, PENDING, "data.0.state"),
        ({"data": [{"state": "done"}, {"state": "processing"}]}, PENDING, "data.1.state"),
        ({"data": [{"state": "done"}, {"state": "failed"}]}, FAILED, "data.1.state"),
        ({"data": [{"state": "done"}, {"state": "done"}]}, DONE, "data.0.state"),
        ({"data": [{"state": "done"}], "job": {"state": "done"}}, DONE, "job.state"),
        ({"data": [1, "running", None, [{"state": "running"}]]}, DONE, "status"),
        # done: false
        ({"data": {"done": False}}, PENDING, "data.done"),
        ({"data": {"job": {"done": False, "id": 1}}}, PENDING, "data.job.done"),
        ({"data": {"done": True}}, DONE, "status"),
        ({"data": {"done": None}}, DONE, "status"),
        # the top level itself
        ({"phase": "ORDERED"}, PENDING, "phase"),
        ({"phase": "Running"}, PENDING, "phase"),
        ({"state": "ORDERED"}, PENDING, "state"),
        ({"job_status": "ORDERED"}, PENDING, "job_status"),
        ({"phase": "ORDERED", "x": {"state": "done"}}, DONE, "x.state"),
        ({"lifecycle": "finished", "x": {"state": "running"}}, DONE, "lifecycle"),
        ({"previous_state": "running"}, DONE, "status"),
        ({"state": "ok"}, DONE, "status"),
    ],
)
def test_which_field_inside_an_envelope_decides(data, verdict, place):
    reading = reply(dict(data, status="success"))
    assert (reading.verdict, reading.because.split(" at ")[-1].split(":")[0]) == (verdict, place)


def test_a_top_level_that_says_when_the_job_finished_is_the_job():
    inside = {"user": {"state": "active"}}
    for key in ("finished_at", "completedAt", "end_date", "date_done", "complete_time"):
        for at, verdict in (
            ("2026-11-13T11:59:00Z", DONE),
            (None, PENDING),
            ("", PENDING),
            (False, PENDING),
        ):
            assert reply(dict(inside, status="success", **{key: at})).verdict is verdict
    assert reply(dict(FINISHED, status="success", data={"state": "generating"})).verdict is PENDING


def test_a_profile_that_names_the_status_is_not_second_guessed():
    data = {"status": "success", "data": {"attributes": {"state": "processing"}}}
    assert reply(data, reader=Reader(Profile(status="status"))).verdict is DONE
    assert reply(data, reader=Reader(Profile(status="data.attributes.state"))).verdict is PENDING


def test_a_profiles_own_words_count_inside_an_envelope():
    reader = Reader(Profile(done=("archived",), pending=("done",)))
    assert reply(envelope(state="archived"), reader=reader).verdict is DONE
    assert reply(envelope(state="done"), reader=reader).verdict is PENDING


def test_an_item_of_an_answer_for_many_jobs_may_be_an_envelope_too():
    data = {
        "items": [
            {"id": "a", "status": "success", "job": {"phase": "ORDERED"}},
            {"id": "b", "status": "success"},
        ]
    }
    _, readings = GUESS.read_many(Reply(200, {}, json.dumps(data)), ["a", "b"])
    assert [reading.verdict for reading in readings] == [PENDING, DONE]


def test_what_follows_a_303_is_the_result_unless_the_status_inside_is_known():
    assert reply(envelope(state="processing"), moved=True).verdict is PENDING
    assert reply(envelope(stage="prod"), moved=True).verdict is DONE


# The work is bounded


@pytest.mark.parametrize(
    "filler",
    [
        [0] * 200000,
        [{}] * 200000,
        [{"a": 1}] * 50000,
        [[[]]] * 50000,
        {str(i): i for i in range(100000)},
        {str(i): {"state": "done"} for i in range(50000)},
    ],
    ids=["numbers", "empty objects", "objects", "lists", "one object", "many objects"],
)
def test_a_large_reply_neither_hides_the_job_nor_takes_long(filler, monkeypatch):
    searched = []
    search = status_field.StatusFinder._search
    monkeypatch.setattr(
        status_field.StatusFinder,
        "_search",
        lambda self, steps, data, most: (
            searched.append(1 + min(len(data), most)),
            search(self, steps, data, most),
        )[1],
    )
    for data in (
        {"filler": filler, "x": {"y": {"state": "processing"}}},
        {"x": {"y": {"state": "processing"}}, "filler": filler},
    ):
        del searched[:]
        assert GUESS.read(dict(data, status="success")).verdict is PENDING
        assert sum(searched) <= (DEEPEST_LEVEL + 1) * (MOST_VALUES + LARGE)


def test_a_job_on_the_level_of_a_large_list_is_found():
    for filler in ([{"state": "done"}] * 50000, {str(i): i for i in range(100000)}):
        assert (
            GUESS.read({"status": "success", "filler": filler, "job": {"state": "running"}}).verdict
            is PENDING
        )
        assert (
            GUESS.read(
                {"status": "success", "filler": filler, "jobs": [{"state": "running"}]}
            ).verdict
            is PENDING
        )


def test_no_data_of_a_callable_breaks_the_search():
    ring = {"status": "success", 5: {"state": "running"}, None: 1, (1,): []}
    ring["self"], ring["list"] = ring, [ring]
    assert GUESS.read(ring).verdict is DONE


# What doctor lists


def candidates(data, reader=GUESS, status=200):
    return list(map(str, reader.list_candidates(Reply(status, {}, json.dumps(data)))))


def test_the_candidates_are_listed_if_it_is_uncertain_which_is_the_status():
    data = {
        "status": "success",
        "job": {"phase": "ORDERED"},
        "a.b": {"state": "x"},
        "": {"state": "x"},
    }
    assert candidates(data) == [
        'status "success"',
        'job.phase "ORDERED"',
    ]  # those that a profile can name
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


def test_nothing_is_listed_for_a_reply_that_is_an_error_or_no_json():
    assert candidates({"status": "success", "job": {"phase": "ORDERED"}}, status=500) == []
    assert GUESS.list_candidates(Reply(200, {}, b"<html>")) == []
    assert GUESS.list_candidates(Reply(200)) == []
    named = Reader(Profile(status="status"))
    assert candidates({"status": "success", "job": {"phase": "ORDERED"}}, named) == []


@pytest.mark.parametrize(
    "data, level, has_advice",
    [
        ({"status": "success", "data": {"state": "generating"}}, Level.OK, False),
        (
            {"status": "success", "a": {"state": "done"}, "b": {"state": "queued"}},
            Level.WARNING,
            True,
        ),
        ({"status": "success", "job": {"phase": "ORDERED"}}, Level.WARNING, True),
        ({"jobs": [{"job_state": "RUNNING"}]}, Level.PROBLEM, True),
    ],
)
def test_what_the_doctor_says_of_candidates(data, level, has_advice):
    said = Reply(200, {}, json.dumps(data))
    found = meaning_finding(GUESS.read(said), True, GUESS.list_candidates(said))
    assert found.level is level
    assert "fields that look like a status: " in found.text
    assert ("status = PATH" in found.advice) == has_advice


def test_a_202_without_a_status_needs_no_candidates():
    said = Reply(202, {}, '{"jobs": [{"job_state": "RUNNING"}]}')
    found = meaning_finding(GUESS.read(said), True, GUESS.list_candidates(said))
    assert (found.level, found.text) == (Level.OK, "202 Accepted: pending")


# From a real server to the command line

ORDERED = '{"payload": {"job": {"phase": "ORDERED"}}, "status": "success"}'
PROCESSING = '{"status": "success", "data": {"attributes": {"state": "processing"}}}'


@pytest.mark.parametrize("body", [ORDERED, PROCESSING], ids=["unknown", "pending"])
def test_a_wait_goes_on_while_the_job_inside_the_envelope_does(body, capsys):
    done = body.replace("ORDERED", "done").replace("processing", "done")
    with RawServer(sent(body), sent(body), sent(done)) as server:
        words = ["wait", server.url(), "--pace", "fixed 10ms", "--proxy", "none"]
        assert main(words) == 0
        assert len(server.requests) == 3
        server.answers = [sent(body)]
        assert main(words + ["--timeout", "0"]) == 3
    out, err = capsys.readouterr()
    assert [json.loads(line)["state"] for line in out.splitlines()] == ["done", "timed_out"]
    assert ("unknown status 'ORDERED' counts as pending" in err) == (body == ORDERED)


@pytest.mark.parametrize(
    "body, place", [(ORDERED, 'payload.job.phase "ORDERED"'), (PROCESSING, "data.attributes.state")]
)
def test_doctor_lists_the_candidates_and_the_profile_can_name_one(body, place, capsys, tmp_path):
    with RawServer(sent(body)) as server:
        assert main(["doctor", server.url(), "--proxy", "none"]) == 0
        out = capsys.readouterr().out
        assert 'fields that look like a status: status "success", ' + place in out
        ini = tmp_path / "mine.ini"
        ini.write_text("[mine]\nurl = %s\nstatus = status\n" % server.url("/{id}"))
        named = ["--profile", "mine", "--profiles", str(ini), "--proxy", "none"]
        assert main(["doctor", "1"] + named) == 0
        out = capsys.readouterr().out
        assert "look like a status" not in out and 'status "success" at status: done' in out
