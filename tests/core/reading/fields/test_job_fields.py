"""The result, the error, the progress and the times of a job."""

import json

import pytest

from pollkit import Profile, Reply
from pollkit.core.reading.fields.job_fields import data_text
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Verdict
from readings import GUESS, HERE, NOON, NOON_DATE, read_reply

# Results


@pytest.mark.parametrize(
    "data, result",
    [
        ({"status": "done", "result": [1]}, [1]),
        ({"status": "done", "output": "x"}, "x"),
        ({"done": True, "response": {"a": 1}}, {"a": 1}),
        ({"status": "done", "data": {"result": 0}}, 0),
        ({"status": "done", "url": "u"}, {"status": "done", "url": "u"}),
    ],
)
def test_the_result_is_found_or_is_the_whole_reply(data, result):
    assert read_reply(data).result == result


def test_a_profile_names_the_result_even_inside_a_string():
    reader = Reader(Profile(status="data.state", result="data.resultJson|json.resultUrls"))
    data = {"data": {"state": "success", "resultJson": '{"resultUrls": ["https://cdn/1.png"]}'}}
    assert read_reply(data, reader=reader).result == ["https://cdn/1.png"]
    assert read_reply({"data": {"state": "success"}}, reader=reader).result is None


def test_a_missing_result_causes_a_warning():
    reader = Reader(Profile(result="data.nope"))
    (warning,) = reader.read({"status": "done", "data": {"yes": 1}}).warnings
    assert warning == (
        "there is nothing at data.nope: the result is null; check the path that result names "
        "(pollkit doctor --show-reply prints the reply)"
    )
    assert reader.read({"status": "done", "data": {"nope": None}}).warnings == ()


# Errors


@pytest.mark.parametrize(
    "data, code, message",
    [
        ({"error": {"code": "E7", "message": "out of disk"}}, "E7", "out of disk"),
        ({"error": "out of disk"}, None, "out of disk"),
        ({"error_code": 7, "message": "out of disk"}, "7", "out of disk"),
        ({"errors": [{"code": 1, "message": "first"}]}, "1", "first"),
        ({"error": {"kind": "x"}}, None, '{"kind": "x"}'),
        ({"error": [{"a": 1}]}, None, '[{"a": 1}]'),
        ({"detail": "gone"}, None, "gone"),
        ({}, None, None),
    ],
)
def test_the_error_is_found(data, code, message):
    reading = read_reply(dict(data, status="failed"))
    assert (reading.error_code, reading.error_message) == (code, message)


def test_a_profile_names_the_error():
    reader = Reader(Profile(error="data.failMsg", error_code="data.failCode"))
    reading = read_reply(
        {"data": {"state": "failed", "failMsg": "nsfw", "failCode": 501}, "error": "x"},
        reader=reader,
    )
    assert (reading.error_code, reading.error_message) == ("501", "nsfw")


def test_an_error_that_is_not_json_is_shown_as_text():
    assert "1027" in GUESS.read({"status": "failed", "error": {1027}}).error_message


def test_an_error_that_contains_itself_can_not_be_shown():
    error = {}
    error["error"] = error
    reading = GUESS.read({"status": "failed", "error": error})
    assert (reading.verdict, reading.error_message) == (Verdict.FAILED, "data that can't be shown")


def test_an_error_that_is_data_is_shown_up_to_10000_characters():
    shown = data_text([{"a": "x" * 50000}, {"b": 1}])
    assert shown.startswith('[{"a": "xxx') and shown.endswith("x...") and len(shown) == 10003
    assert data_text("x" * 20000).endswith("x...")
    assert data_text({"a": [1, "\u4e2d"]}) == '{"a": [1, "\u4e2d"]}'


# Progress


@pytest.mark.parametrize(
    "value, fraction",
    [
        (0.42, 0.42),
        (42, 0.42),
        (100, 1.0),
        (1.0, 1.0),
        (1, 0.01),
        (0, 0.0),
        ("42%", 0.42),
        ("0.5", 0.5),
        ("50", 0.5),
        (250, 1.0),
        (-5, None),
        (float("nan"), None),
        (10**400, None),
        ("soon", None),
        (True, None),
        ([], None),
        ({"percent": 30}, 0.3),
        (99.5, 0.995),
        ("0.5%", 0.005),
    ],
)
def test_progress_is_a_fraction(value, fraction):
    assert GUESS.read({"status": "running", "progress": value}).fraction == pytest.approx(fraction)


@pytest.mark.parametrize(
    "pages, fraction",
    [
        ({"done": 45, "total": 120}, 0.375),
        ({"done": 130, "total": 120}, 1.0),
        ({"done": 1, "total": 0}, None),
        ({"done": 1}, None),
        ({"total": 3}, None),
        ({"done": "x", "total": 3}, None),
    ],
)
def test_progress_may_be_a_pair_of_paths(pages, fraction):
    reader = Reader(Profile(progress="pages.done / pages.total"))
    for status in ("running", "failed"):
        reading = read_reply({"status": status, "pages": pages}, reader=reader)
        assert reading.fraction == pytest.approx(fraction)
        assert reading.total == (
            None if fraction is None else 120
        )  # so that it can be shown in pages


def test_a_job_that_is_done_has_a_progress_of_1():
    assert read_reply({"status": "done", "progress": 1}).fraction == 1.0
    assert read_reply({"status": "done"}).fraction is None


# Times


@pytest.mark.parametrize(
    "finished, duration, delay",
    [
        ("2026-11-13T11:59:30Z", 90.0, 30.0),
        ("2026-11-13T12:59:30.250+01:00", 90.25, 29.75),
        ("2026-11-13 11:59:30", 90.0, 30.0),
        (NOON - 30, 90.0, 30.0),
        (int(NOON - 30) * 1000, 90.0, 30.0),
        (str(int(NOON - 30)), 90.0, 30.0),
        ("Fri, 13 Nov 2026 11:59:30 GMT", 90.0, 30.0),
        ("2026-11-13T06:59:30-0500", 90.0, 30.0),
        ("2026-11-13T12:00:10Z", 130.0, 0.0),
        ("2026-11-13T11:50:00Z", None, 600.0),
        ("2026-13-45T99:59:30Z", None, None),
        ("soon", None, None),
        (True, None, None),
        (None, None, None),
        (17, None, None),
        ([], None, None),
    ],
)
def test_timestamps_give_the_true_duration_and_the_notice_delay(finished, duration, delay):
    data = {"status": "done", "created_at": "2026-11-13T11:58:00Z", "finished_at": finished}
    reading = read_reply(data, date=NOON_DATE)
    assert reading.duration_s == pytest.approx(duration)
    assert reading.notice_delay_s == pytest.approx(delay)


def test_the_notice_delay_does_not_depend_on_our_clock():
    data = json.dumps({"status": "done", "finished_at": "2026-11-13T11:59:58Z"})
    for ours in (NOON - 86400, NOON + 0.4, NOON + 86400):
        delay = GUESS.read(Reply(200, {"Date": NOON_DATE}, data, HERE, ours)).notice_delay_s
        assert 2.0 <= delay <= 3.0
    assert GUESS.read(Reply(200, {}, data, HERE, NOON + 0.5)).notice_delay_s == 2.5
    assert GUESS.read(Reply(200, {"Date": NOON_DATE}, data, HERE)).notice_delay_s == 2.0
    assert GUESS.read(Reply(200, {"Date": "yesterday"}, data, HERE)).notice_delay_s is None
    assert GUESS.read(json.loads(data)).notice_delay_s is None


@pytest.mark.parametrize(
    "data, message",
    [
        ({"state": "FAILURE", "result": "ValueError('x')", "traceback": "..."}, "ValueError('x')"),
        ({"state": "FAILURE", "exception": "KeyError", "result": None}, "KeyError"),
        ({"status": "failed", "exc_info": "Traceback:\n  a\nValueError: x\n"}, "ValueError: x"),
        ({"status": "failed", "traceback": "a\nOSError: y", "description": "f()"}, "OSError: y"),
        ({"status": "failed", "description": "out of disk"}, "out of disk"),
        ({"status": "failed", "result": {"rows": 1}}, None),
        ({"status": "completed", "result": "failed"}, None),
        ({"state": {"type": "CRASHED", "message": "pod evicted"}}, "pod evicted"),
        ({"status": "failed", "error": "no", "result": "partial"}, "no"),
    ],
)
def test_the_reason_of_a_failure_is_found_where_queues_put_it(data, message):
    reading = read_reply(data)
    assert (reading.verdict, reading.error_message) == (Verdict.FAILED, message)


@pytest.mark.parametrize("key", ["end_date", "end_time"])
def test_the_finish_time_of_workflows_is_found(key):
    assert read_reply(
        {"status": "done", key: "2026-11-13T11:59:30Z"}, date=NOON_DATE
    ).notice_delay_s


@pytest.mark.parametrize(
    "ours, delay",
    [(2.5, 1.3), (1.0, 0.0), (60.0, 0.0)],
    ids=["the Date lags", "our clock is behind", "our clock is wrong"],
)
def test_a_finish_time_ahead_of_a_lagging_date_is_not_clipped(ours, delay):
    data = json.dumps({"status": "done", "finished_at": "2026-11-13T12:00:01.200Z"})
    reading = GUESS.read(Reply(200, {"Date": NOON_DATE}, data, HERE, NOON + ours))
    assert reading.notice_delay_s == pytest.approx(delay)
