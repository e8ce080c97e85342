"""From a reply to a verdict: bodies, status words, callables, and many jobs in one reply."""

import json

import pytest

from pollkit import Fault, Profile, Reply
from pollkit.core.reading.fields.status_words import (
    DONE,
    FAILED,
    LONGEST_WORD,
    PENDING,
    StatusWords,
)
from pollkit.core.reading.rate_limit_headers import Quota
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Verdict
from readings import GUESS, read_reply

MB = 1024 * 1024


# The meaning of the status


@pytest.mark.parametrize(
    "word",
    """done completed complete success succeeded successful finished ready
    Done COMPLETED Succeeded JOB_STATE_SUCCEEDED""".split(),
)
def test_words_for_done(word):
    assert read_reply({"status": word}).verdict is Verdict.DONE


@pytest.mark.parametrize(
    "word",
    """failed failure error errored cancelled canceled aborted expired dismissed
    revoked stopped timeout TIMED_OUT Failed JOB_STATE_CANCELLED""".split()
    + ["timed out", "upstream_failed"],
)
def test_words_for_failed(word):
    assert read_reply({"status": word}).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    "word",
    """queued running CANCELLING canceling RETRY retrying up_for_retry in_progress
    In-Progress InProgress stopping STARTED notStarted processing generating""".split()
    + ["in progress"],
)
def test_words_that_mean_pending(word):
    reading = read_reply({"status": word})
    assert reading.verdict is Verdict.PENDING and not reading.warnings


def test_no_word_has_two_meanings():
    assert not DONE & FAILED and not DONE & PENDING and not FAILED & PENDING


def test_a_byte_order_mark_changes_nothing():
    """As .NET writes it. RFC 8259, 8.1 allows readers to ignore it."""
    for body in (b"done", b'{"status": "done"}'):
        assert read_reply(b"\xef\xbb\xbf" + body).verdict is Verdict.DONE


def test_an_unknown_word_is_pending_with_a_warning():
    reading = read_reply({"status": "frobbing"})
    assert reading.verdict is Verdict.PENDING
    assert reading.warnings == ("unknown status 'frobbing' counts as pending",)


def test_an_unknown_word_may_count_as_failed():
    assert (
        read_reply({"status": "frobbing"}, reader=Reader(Profile(unknown="failed"))).verdict
        is Verdict.FAILED
    )


def test_the_words_of_a_profile_take_precedence_over_the_usual_ones():
    own = StatusWords(done=["Stopped"], pending=["error"])
    assert own.meaning("STOPPED") == "done"
    assert (
        own.meaning("completed") is None
    )  # the profile lists its words for done: only those count
    assert own.meaning("error") == "pending"
    assert (
        own.meaning("failed") == "failed"
    )  # the profile lists none for failed: the usual ones count
    assert own.meaning("true") == "done" and own.meaning("false") == "pending"


@pytest.mark.parametrize(
    "data",
    [
        {"status": "completed", "conclusion": "failure"},
        {"status": "completed", "success": False},
        {"done": True, "success": False},
        {"status": "done", "error": {"message": "m"}},
        {"status": {"state": "DONE", "errorResult": {"message": "bad sql"}}},
        {"state": "finished", "error": "disk full"},
        {"status": "completed", "result": "failed"},
        {"state": "FINISHED", "result": "FAILURE"},
    ],
)
def test_a_finished_job_with_an_error_beside_its_status_has_failed(data):
    """Without a profile, to report a failed job as done would be the worst mistake."""
    assert Reader(Profile()).read(data).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    "data",
    [
        {"status": "completed", "conclusion": "success"},
        {"status": "done", "error": None},
        {"status": "done", "ok": True},
        {"status": "done", "error": "", "success": True},
        {"status": "done", "outcome": 5},
        "done",
        {"status": "success", "result": "invalid"},
        {"status": "done", "result": {"failed": 1}},
    ],
)
def test_a_finished_job_without_an_error_is_done(data):
    assert Reader(Profile()).read(data).verdict is Verdict.DONE


def test_a_profile_that_names_the_status_is_trusted():
    assert (
        Reader(Profile(status="status")).read({"status": "done", "error": "none"}).verdict
        is Verdict.DONE
    )


def test_a_status_of_many_lines_is_shown_on_one():
    reading = read_reply({"status": "a\nb" * 100})
    assert all(
        "\n" not in text and len(text) < 200 for text in (reading.because,) + reading.warnings
    )


def test_a_status_of_over_200_characters_is_no_known_word():
    assert read_reply(b'{"status": "%s"}' % (b"-" * 196 + b"done")).verdict is Verdict.DONE
    assert read_reply(b'{"status": "%s"}' % (b"-" * 197 + b"done")).verdict is Verdict.PENDING


def test_a_word_is_stored_once_for_all_jobs_unless_it_is_long():
    """Python 3.12 never frees an interned text: long words would fill the memory."""
    for length, is_same in ((LONGEST_WORD, True), (LONGEST_WORD + 1, False)):
        one, two = (Reader(Profile()).read({"status": "x" * length}).status for _ in range(2))
        assert (one is two, one == two) == (is_same, True)


# The status field


@pytest.mark.parametrize(
    "data, verdict, place",
    [
        ({"status": "running"}, Verdict.PENDING, "status"),
        ({"state": "running"}, Verdict.PENDING, "state"),
        ({"data": {"state": "generating"}}, Verdict.PENDING, "data.state"),
        ({"data": {"status": "success"}}, Verdict.DONE, "data.status"),
        ({"job": {"status": "FAILED"}}, Verdict.FAILED, "job.status"),
        ({"status": {"state": "running"}}, Verdict.PENDING, "status.state"),
        ({"name": "operations/1", "done": False}, Verdict.PENDING, "done"),
        ({"name": "operations/1", "done": True, "response": {}}, Verdict.DONE, "done"),
        ({"name": "operations/1", "done": True, "error": {"code": 3}}, Verdict.FAILED, "done"),
        ({"name": "operations/1", "metadata": {"progressPercent": 5}}, Verdict.PENDING, None),
        (
            {"name": "projects/p/operations/1", "done": True, "response": {"status": "failed"}},
            Verdict.DONE,
            "done",
        ),
        # the status of an envelope only means that the call worked; that of a job is final
        ({"status": "success", "data": {"status": "vectorizing"}}, Verdict.PENDING, "data.status"),
        ({"status": "success", "data": {"url": "u"}}, Verdict.DONE, "status"),
        ({"status": "succeeded", "data": {"id": 1, "status": "active"}}, Verdict.DONE, "status"),
        ({"status": "completed", "result": {"status": "error"}}, Verdict.DONE, "status"),
        ({"status": "frob", "data": {"status": "running"}}, Verdict.PENDING, "data.status"),
        ({"status": "ok", "state": "running"}, Verdict.PENDING, "state"),
        ({"status": "success", "data": {"state": "generating"}}, Verdict.PENDING, "data.state"),
        ({"status": "success", "data": {"state": "success"}}, Verdict.DONE, "data.state"),
        ({"status": 200, "data": {"state": "generating"}}, Verdict.PENDING, "data.state"),
        # a known word beats an unknown one
        ({"status": "v2", "state": "done"}, Verdict.DONE, "state"),
        ({"status": "v2", "state": "frob"}, Verdict.PENDING, "status"),
        ({"status": "done", "state": "v2"}, Verdict.DONE, "status"),
        ({"status": "done", "state": "done"}, Verdict.DONE, "status"),
    ],
)
def test_the_status_field_is_detected(data, verdict, place):
    reading = read_reply(data)
    assert reading.verdict is verdict
    assert place is None or " at %s: " % place in reading.because


@pytest.mark.parametrize(
    "data",
    [
        {"status": "success", "data": {"job": {"status": "processing"}}},
        {"job_status": "queued"},
        {"status": "success", "result": {"status": "running"}},
        {"status": "success", "data": {"job_status": "processing"}},
        {"Status": "Running"},
        {"task": {"status": "queued"}},
        {"status": {"phase": "Running"}},
        {"data": {"attributes": {"status": "pending"}}},
        {"properties": {"provisioningState": "Creating"}},
    ],
)
def test_the_status_field_is_detected_in_nested_objects(data):
    assert Reader(Profile()).read(data).verdict is Verdict.PENDING


@pytest.mark.parametrize(
    "data", [{}, {"status": None}, {"status": ""}, {"status": 200}, {"status": []}, [], 5, None]
)
def test_without_a_status_a_200_is_a_fault(data):
    reading = read_reply(json.dumps(data))
    assert reading.verdict is Verdict.FAULT and "no status found" in reading.because


def test_a_profile_names_the_status_field():
    reader = Reader(Profile(status="jobs.1.phase", done=("3",)))
    assert read_reply({"jobs": [{}, {"phase": 3}]}, reader=reader).verdict is Verdict.DONE
    missing = read_reply({"status": "done"}, reader=reader)
    assert missing.verdict is Verdict.FAULT and "nothing at jobs.1.phase" in missing.because


def test_every_reading_explains_itself():
    assert (
        read_reply({"data": {"state": "generating"}}).because
        == 'status "generating" at data.state: pending'
    )


# Bodies and callables


def test_an_html_page_where_json_should_be_is_a_fault():
    for body, kind in (
        (b"<!doctype html><title>Log in</title>", "text/plain"),
        (b"Sorry", "text/html; charset=utf-8"),
    ):
        reading = read_reply(body, content_type=kind)
        assert reading.verdict is Verdict.FAULT and "HTML page" in reading.because


def test_xml_is_not_called_html():
    reading = Reader(Profile()).read(
        Reply(200, {"Content-Type": "text/xml"}, b"<wps>running</wps>")
    )
    assert reading.verdict is Verdict.FAULT and "XML" in reading.because


@pytest.mark.parametrize(
    "body", [b"{", b"\xff\xfe\x00", b"nonsense", b"[" * 100000, b"status: done"]
)
def test_a_body_that_cannot_be_read_is_a_fault(body):
    assert read_reply(body).verdict is Verdict.FAULT


def test_bodies_in_other_encodings_of_unicode_are_read():
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le"):
        assert read_reply('{"status": "done"}'.encode(encoding)).verdict is Verdict.DONE


def test_a_body_may_be_a_bare_word():
    assert read_reply(b" Running\n").verdict is Verdict.PENDING
    assert read_reply(b'"done"').verdict is Verdict.DONE
    assert read_reply(b"\xef\xbb\xbf" + b'{"status": "done"}').verdict is Verdict.DONE


@pytest.mark.parametrize(
    "seen, verdict, result",
    [
        (True, Verdict.DONE, True),
        (False, Verdict.PENDING, None),
        ("done", Verdict.DONE, "done"),
        ("running", Verdict.PENDING, None),
        ({"status": "done", "result": 7}, Verdict.DONE, 7),
        ("", Verdict.FAULT, None),
    ],
)
def test_the_return_value_of_a_callable_is_read_like_a_reply(seen, verdict, result):
    reading = GUESS.read(seen)
    assert (reading.verdict, reading.result) == (verdict, result)


def test_a_fault_is_a_fault_and_a_final_one_a_refusal():
    assert GUESS.read(Fault("reset")).verdict is Verdict.FAULT
    final = GUESS.read(Fault("no", "use https", final=True))
    assert (final.verdict, final.because) == (Verdict.REFUSED, "no (use https)")


def test_the_result_of_a_callable_is_not_changed():
    result = [float("inf"), object()]
    assert GUESS.read({"status": "done", "result": result}).result is result


# Many jobs in one reply


@pytest.mark.parametrize(
    "profile, data",
    [
        (
            Profile(),
            {"items": [{"id": "a", "status": "done", "result": 1}, {"id": 7, "status": "running"}]},
        ),
        (Profile(), [{"id": "a", "status": "done", "result": 1}, {"id": 7, "status": "running"}]),
        (
            Profile(batch_items="data.jobs", batch_id="meta.name"),
            {
                "data": {
                    "jobs": [
                        {"meta": {"name": "a"}, "status": "done", "result": 1},
                        {"meta": {"name": "7"}, "status": "running"},
                    ]
                }
            },
        ),
        (Profile(), {"jobs": {"a": {"status": "done", "result": 1}, "7": {"status": "running"}}}),
    ],
)
def test_a_reply_about_many_jobs_is_read_for_each(profile, data):
    whole, readings = Reader(profile).read_many(
        [Reply(200, {}, json.dumps(data))], ["a", "7", "missing"]
    )
    assert [reading.verdict for reading in readings] == [
        Verdict.DONE,
        Verdict.PENDING,
        Verdict.PENDING,
    ]
    assert readings[0].result == 1 and "not in the answer" in readings[2].because
    assert whole.verdict is Verdict.PENDING


@pytest.mark.parametrize(
    "seen, verdict",
    [
        (Fault("reset"), Verdict.FAULT),
        (Reply(503), Verdict.FAULT),
        (Reply(429), Verdict.LIMITED),
        (Reply(200, {}, b"<html>"), Verdict.FAULT),
        (Reply(200, {}, b"oops"), Verdict.FAULT),
        (Reply(200, {}, b"{}"), Verdict.FAULT),
        (Reply(200, {}, b'{"items": 5}'), Verdict.FAULT),
        (Reply(400), Verdict.REFUSED),
    ],
)
def test_a_failed_exchange_fails_for_each_of_its_jobs(seen, verdict):
    whole, readings = GUESS.read_many([seen], ["a", "b"])
    assert [whole.verdict] + [reading.verdict for reading in readings] == [verdict] * 3


def test_the_headers_of_a_reply_about_many_jobs_count_for_each():
    headers = {"Retry-After": "9", "RateLimit-Remaining": "3", "RateLimit-Reset": "30"}
    whole, readings = GUESS.read_many(
        [Reply(200, headers, b'{"items": [{"id": "a", "status": "x"}]}')], ["a", "b"]
    )
    assert whole.quota == Quota(3, 30)
    assert [reading.retry_after for reading in readings] == [9, 9]


@pytest.mark.parametrize(
    "headers, quota",
    [
        ({"RateLimit-Remaining": "3", "RateLimit-Reset": "30"}, Quota(3, 30)),
        ({"RateLimit-Remaining": "57", "RateLimit-Reset": "30"}, None),
        ({"RateLimit-Remaining": "3"}, None),
        ({"RateLimit-Policy": '"a";q=100;w=60'}, Quota(None, None, 100, 60)),
    ],
)
def test_a_reading_has_the_quota_only_if_a_bucket_may_have_to_adapt(headers, quota):
    reading = GUESS.read(Reply(200, headers, b'{"status": "running"}'))
    assert reading.quota == quota


@pytest.mark.parametrize(
    "data, path",
    [
        ({"status": "done"}, "status"),
        ({"status": "success", "job": {"phase": "ORDERED"}}, "job.phase"),
        ({"a": 1}, None),
        ("done", None),
    ],
)
def test_the_path_of_the_status_is_known_if_there_is_one(data, path):
    assert GUESS.find_status_path(data) == path


def test_rules_judge_the_reply_that_an_exception_carries():
    reader = Reader(Profile(rules=["failed if http 410"]))
    assert reader.read_call_error(Reply(410, {}, b"")).verdict is Verdict.FAILED
    assert reader.read_call_error(Reply(409, {}, b"")) is None
