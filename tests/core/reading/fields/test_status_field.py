"""Which field of a reply is the job's status: replies of many APIs, and envelopes around them."""

import json
import os

import pytest

from paths import DATA
from pollkit import Profile, Reply
from pollkit.core.reading.fields import status_candidates
from pollkit.core.reading.fields.status_candidates import DEEPEST_LEVEL, LARGE, MOST_VALUES
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Verdict
from readings import GUESS, read_reply

DONE = Verdict.DONE
FAILED = Verdict.FAILED
PENDING = Verdict.PENDING

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
def test_the_replies_of_many_apis_are_understood(data, verdict):
    assert read_reply(data).verdict is verdict


# Which fields look like a status


def envelope(**inside):
    return {"status": "success", "data": {"x": inside}}


@pytest.mark.parametrize(
    "key",
    """status state phase stage lifecycle Status STATE lifeCycle job_status task_state
    JOB_STATUS jobStatus provisioningState JobState job-status""".split(),
)
def test_keys_of_a_status_inside_an_envelope(key):
    for word in ("processing", "ORDERED"):
        reading = read_reply(envelope(**{key: word}))
        assert (reading.verdict, reading.status) == (PENDING, word)
        assert reading.because == 'status "%s" at data.x.%s: pending' % (word, key)


@pytest.mark.parametrize(
    "key",
    """statusCode status_code estate upstate realEstate stateful stages phases type name
    message statustext kind jobstatus""".split()
    + ["", "x" * 200 + "_status"],
)
def test_other_keys_are_no_status(key):
    assert read_reply(envelope(**{key: "processing"})).verdict is DONE


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
    assert read_reply(envelope(state=value)).verdict is DONE


@pytest.mark.parametrize(
    "value", ["In Progress", " queued ", "not-started", "Processing...", "läuft", "step_2"]
)
def test_a_status_is_a_single_word_or_a_known_one(value):
    reading = read_reply(envelope(state=value))
    assert (reading.verdict, reading.status) == (PENDING, value.strip())


def test_an_unknown_word_inside_an_envelope_is_pending_with_a_warning():
    reading = read_reply({"payload": {"job": {"phase": "ORDERED"}}, "status": "success"})
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
    assert read_reply(data).verdict is PENDING
    assert read_reply({key: word, "a": {}}).verdict is DONE


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
    assert read_reply(dict(inside, status="success")).verdict is DONE


def test_a_known_word_beside_a_city_is_a_status():
    assert read_reply(envelope(state="processing", city="Berlin")).verdict is PENDING
    assert read_reply(envelope(phase="ORDERED", city="Berlin")).verdict is PENDING


def test_the_search_is_four_levels_deep_and_lists_add_no_depth():
    def nested(levels, in_lists):
        data = {"state": "processing"}
        for _ in range(levels):
            data = {"x": [data] if in_lists else data}
        return dict(data, status="success")

    for in_lists in (False, True):
        for levels in range(1, DEEPEST_LEVEL + 1):
            assert read_reply(nested(levels, in_lists)).verdict is PENDING
        assert read_reply(nested(DEEPEST_LEVEL + 1, in_lists)).verdict is DONE


# Which of them decides


@pytest.mark.parametrize(
    "data, verdict, path",
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
        # a usual path that means done has to be confirmed by the other fields of its level
        ({"data": {"state": "done"}, "job": {"phase": "ORDERED"}}, PENDING, "job.phase"),
        ({"data": {"state": "done"}, "x": {"y": {"state": "running"}}}, DONE, "data.state"),
        ({"result": {"status": "done"}, "x": {"state": "running"}}, PENDING, "x.state"),
        ({"result": {"status": "done"}}, DONE, "result.status"),
        ({"data": {"status": "Waiting for a GPU"}}, PENDING, "data.status"),
        # among equals, the first one
        ({"data": {"state": "ORDERED", "status": "PACKED"}}, PENDING, "data.state"),
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
def test_which_field_inside_an_envelope_decides(data, verdict, path):
    reading = read_reply(dict(data, status="success"))
    assert (reading.verdict, reading.because.split(" at ")[-1].split(":")[0]) == (verdict, path)


def test_a_top_level_with_the_time_when_the_job_finished_is_the_job():
    inside = {"user": {"state": "active"}}
    for key in ("finished_at", "completedAt", "end_date", "date_done", "complete_time"):
        for at, verdict in (
            ("2026-11-13T11:59:00Z", DONE),
            (None, PENDING),
            ("", PENDING),
            (False, PENDING),
        ):
            assert read_reply(dict(inside, status="success", **{key: at})).verdict is verdict
    assert (
        read_reply(dict(FINISHED, status="success", data={"state": "generating"})).verdict
        is PENDING
    )


def test_a_profile_that_names_the_status_ends_the_search():
    data = {"status": "success", "data": {"attributes": {"state": "processing"}}}
    assert read_reply(data, reader=Reader(Profile(status="status"))).verdict is DONE
    assert (
        read_reply(data, reader=Reader(Profile(status="data.attributes.state"))).verdict is PENDING
    )


def test_the_words_of_a_profile_count_inside_an_envelope():
    reader = Reader(Profile(done=("archived",), pending=("done",)))
    assert read_reply(envelope(state="archived"), reader=reader).verdict is DONE
    assert read_reply(envelope(state="done"), reader=reader).verdict is PENDING


def test_an_item_of_a_reply_about_many_jobs_may_be_an_envelope():
    data = {
        "items": [
            {"id": "a", "status": "success", "job": {"phase": "ORDERED"}},
            {"id": "b", "status": "success"},
        ]
    }
    _, readings = GUESS.read_many([Reply(200, {}, json.dumps(data))], ["a", "b"])
    assert [reading.verdict for reading in readings] == [PENDING, DONE]


def test_the_reply_after_a_303_is_the_result_unless_the_status_inside_is_known():
    assert read_reply(envelope(state="processing"), moved=True).verdict is PENDING
    assert read_reply(envelope(stage="prod"), moved=True).verdict is DONE


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
    search = status_candidates._candidates

    def count(steps, fields, words, most, any_key):
        searched.append(1 + min(len(fields), most))
        return search(steps, fields, words, most, any_key)

    monkeypatch.setattr(status_candidates, "_candidates", count)
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
    ring["self"] = ring
    ring["list"] = [ring]
    assert GUESS.read(ring).verdict is DONE
