"""From a reply to what it says of a job."""

import json
import random

import pytest

from pollkit import ConfigError, Fault, Profile, Reply
from pollkit.core.reading import json_decoding
from pollkit.core.reading.json_paths import Path
from pollkit.core.reading.rate_limit_headers import LONGEST_S, Quota
from pollkit.core.reading.reader import Reader, Verdict
from pollkit.core.reading.status_words import DONE, FAILED, LONGEST_WORD, PENDING, StatusWords
from readings import GUESS, HERE, NOON, NOON_DATE, reply

# Words


@pytest.mark.parametrize(
    "word",
    """done completed complete success succeeded successful finished ready
    Done COMPLETED Succeeded JOB_STATE_SUCCEEDED""".split(),
)
def test_words_for_done(word):
    assert reply({"status": word}).verdict is Verdict.DONE


@pytest.mark.parametrize(
    "word",
    """failed failure error errored cancelled canceled aborted expired dismissed
    revoked stopped timeout TIMED_OUT Failed JOB_STATE_CANCELLED""".split()
    + ["timed out", "upstream_failed"],
)
def test_words_for_failed(word):
    assert reply({"status": word}).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    "word",
    """queued running CANCELLING canceling RETRY retrying up_for_retry in_progress
    In-Progress InProgress stopping STARTED notStarted processing generating""".split()
    + ["in progress"],
)
def test_words_that_are_no_end(word):
    reading = reply({"status": word})
    assert reading.verdict is Verdict.PENDING and not reading.warnings


def test_no_word_means_two_things():
    assert not DONE & FAILED and not DONE & PENDING and not FAILED & PENDING


def test_an_unknown_word_is_pending_with_a_warning():
    reading = reply({"status": "frobbing"})
    assert reading.verdict is Verdict.PENDING
    assert reading.warnings == ("unknown status 'frobbing' counts as pending",)


def test_an_unknown_word_may_count_as_failed():
    assert (
        reply({"status": "frobbing"}, reader=Reader(Profile(unknown="failed"))).verdict
        is Verdict.FAILED
    )


def test_an_apis_own_words_stand_before_the_common_ones():
    own = StatusWords(done=["Stopped"], pending=["error"])
    assert own.meaning("STOPPED") == "done"
    assert own.meaning("completed") is None  # it named its words for done: just those
    assert own.meaning("error") == "pending"
    assert own.meaning("failed") == "failed"  # it named none for failed: the common ones
    assert own.meaning("true") == "done" and own.meaning("false") == "pending"


# Where the status stands


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
        # an envelope's status says whether the call worked; a job's own is final, whatever its result says
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
def test_a_status_is_found_by_itself(data, verdict, place):
    reading = reply(data)
    assert reading.verdict is verdict
    assert place is None or " at %s: " % place in reading.because


@pytest.mark.parametrize(
    "data", [{}, {"status": None}, {"status": ""}, {"status": 200}, {"status": []}, [], 5, None]
)
def test_without_a_status_a_200_is_a_fault(data):
    reading = reply(json.dumps(data))
    assert reading.verdict is Verdict.FAULT and "no status found" in reading.because


def test_a_profile_says_where_the_status_stands():
    reader = Reader(Profile(status="jobs.1.phase", done=("3",)))
    assert reply({"jobs": [{}, {"phase": 3}]}, reader=reader).verdict is Verdict.DONE
    missing = reply({"status": "done"}, reader=reader)
    assert missing.verdict is Verdict.FAULT and "nothing at jobs.1.phase" in missing.because


def test_every_reading_explains_itself():
    assert (
        reply({"data": {"state": "generating"}}).because
        == 'status "generating" at data.state: pending'
    )


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
def test_what_a_callable_returns_is_read_alike(seen, verdict, result):
    reading = GUESS.read(seen)
    assert (reading.verdict, reading.result) == (verdict, result)


def test_a_fault_is_a_fault_and_a_final_one_a_refusal():
    assert GUESS.read(Fault("reset")).verdict is Verdict.FAULT
    final = GUESS.read(Fault("no", "use https", final=True))
    assert (final.verdict, final.because) == (Verdict.REFUSED, "no (use https)")


# Results, errors, progress, times


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
    assert reply(data).result == result


def test_a_profile_says_where_the_result_stands_even_inside_a_string():
    reader = Reader(Profile(status="data.state", result="data.resultJson|json.resultUrls"))
    data = {"data": {"state": "success", "resultJson": '{"resultUrls": ["https://cdn/1.png"]}'}}
    assert reply(data, reader=reader).result == ["https://cdn/1.png"]
    assert reply({"data": {"state": "success"}}, reader=reader).result is None


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
    reading = reply(dict(data, status="failed"))
    assert (reading.error_code, reading.error_message) == (code, message)


def test_a_profile_says_where_the_error_stands():
    reader = Reader(Profile(error="data.failMsg", error_code="data.failCode"))
    reading = reply(
        {"data": {"state": "failed", "failMsg": "nsfw", "failCode": 501}, "error": "x"},
        reader=reader,
    )
    assert (reading.error_code, reading.error_message) == ("501", "nsfw")


def test_an_error_that_is_no_json_is_no_trouble():
    assert "1027" in GUESS.read({"status": "failed", "error": {1027}}).error_message


def test_a_job_that_is_done_has_made_all_its_progress():
    assert reply({"status": "done", "progress": 1}).fraction == 1.0
    assert reply({"status": "done"}).fraction is None


def test_bodies_in_other_encodings_of_unicode_are_read():
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le"):
        assert reply('{"status": "done"}'.encode(encoding)).verdict is Verdict.DONE


def test_what_is_not_quite_json_does_not_get_into_results():
    assert reply(b'{"status": "done", "result": {"x": NaN, "y": -Infinity}}').result == {
        "x": None,
        "y": None,
    }


def test_a_status_of_many_lines_is_shown_on_one():
    reading = reply({"status": "a\nb" * 100})
    assert all(
        "\n" not in text and len(text) < 200 for text in (reading.because,) + reading.warnings
    )


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
        reading = reply({"status": status, "pages": pages}, reader=reader)
        assert reading.fraction == pytest.approx(fraction)
        assert reading.total == (
            None if fraction is None else 120
        )  # so that it can be shown in pages


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
    reading = reply(data, date=NOON_DATE)
    assert reading.duration_s == pytest.approx(duration)
    assert reading.notice_delay_s == pytest.approx(delay)


def test_a_clock_that_is_wrong_here_does_not_spoil_the_notice_delay():
    data = json.dumps({"status": "done", "finished_at": "2026-11-13T11:59:58Z"})
    for ours in (NOON - 86400, NOON + 0.4, NOON + 86400):
        delay = GUESS.read(Reply(200, {"Date": NOON_DATE}, data, HERE, ours)).notice_delay_s
        assert 2.0 <= delay <= 3.0
    assert GUESS.read(Reply(200, {}, data, HERE, NOON + 0.5)).notice_delay_s == 2.5
    assert GUESS.read(Reply(200, {"Date": NOON_DATE}, data, HERE)).notice_delay_s == 2.0
    assert GUESS.read(Reply(200, {"Date": "yesterday"}, data, HERE)).notice_delay_s is None
    assert GUESS.read(json.loads(data)).notice_delay_s is None


# One answer for many jobs


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
def test_an_answer_for_many_jobs_is_read_for_each(profile, data):
    whole, readings = Reader(profile).read_many(
        Reply(200, {}, json.dumps(data)), ["a", "7", "missing"]
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
        (Reply(200, {}, b"{}"), Verdict.FAULT),
        (Reply(200, {}, b'{"items": 5}'), Verdict.FAULT),
        (Reply(400), Verdict.REFUSED),
    ],
)
def test_an_exchange_that_went_wrong_went_wrong_for_all_of_its_jobs(seen, verdict):
    whole, readings = GUESS.read_many(seen, ["a", "b"])
    assert [whole.verdict] + [reading.verdict for reading in readings] == [verdict] * 3


def test_the_headers_of_an_answer_for_many_count_for_all():
    headers = {"Retry-After": "9", "RateLimit-Remaining": "3"}
    whole, readings = GUESS.read_many(
        Reply(200, headers, b'{"items": [{"id": "a", "status": "x"}]}'), ["a", "b"]
    )
    assert whole.quota == Quota(3) and [reading.retry_after for reading in readings] == [9, 9]


# Paths


@pytest.mark.parametrize(
    "path, found",
    [
        ("a.b", 1),
        ("list.0", "x"),
        ("list.1.c", 2),
        ("list.2", None),
        ("list.-1", None),
        ("list.x", None),
        ("a.b.c", None),
        ("made|json.urls.0", "u"),
        ("a|json.b", None),
        ("bad|json.x", None),
        ("none", None),
        (" a.b ", 1),
    ],
)
def test_a_path_finds_or_finds_nothing(path, found):
    data = {
        "a": {"b": 1},
        "list": ["x", {"c": 2}],
        "made": '{"urls": ["u"]}',
        "bad": "{",
        "none": None,
    }
    assert Path(path).find(data) == found


@pytest.mark.parametrize("path", ["", ".", "a..b", "a.", "a|xml.b", "|json", "a|"])
def test_a_bad_path_is_refused(path):
    with pytest.raises(ConfigError, match="path"):
        Path(path)


@pytest.mark.parametrize("seed", range(20))
def test_walk_no_reply_can_break_the_reader(seed):
    """Random JSON, headers and statuses: always a reading, never an exception."""
    rng = random.Random(seed)
    names = [
        "status",
        "state",
        "data",
        "done",
        "error",
        "message",
        "result",
        "progress",
        "created_at",
        "finished_at",
        "code",
        "job",
        "errors",
        "metadata",
    ]
    texts = [
        "done",
        "running",
        "",
        "7",
        "99%",
        "nan",
        "2026-11-13T12:00:00Z",
        "\x00",
        "é",
        '{"a": 1}',
        "-1",
    ]

    def value(depth):
        kind = rng.randrange(9 if depth else 6)
        return [
            lambda: rng.choice(texts),
            lambda: rng.randrange(-5, 10**15),
            lambda: rng.uniform(-2, 200),
            lambda: None,
            lambda: rng.random() < 0.5,
            lambda: 10 ** rng.randrange(400),
            lambda: [value(depth - 1) for _ in range(rng.randrange(3))],
            lambda: {rng.choice(names): value(depth - 1) for _ in range(rng.randrange(4))},
            lambda: {rng.choice(names): value(depth - 1) for _ in range(rng.randrange(6))},
        ][kind]()

    headers = [
        "retry-after",
        "retry-after-ms",
        "ratelimit",
        "ratelimit-policy",
        "ratelimit-remaining",
        "location",
        "ratelimit-reset",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "date",
        "etag",
        "operation-location",
    ]
    junk = texts + [
        NOON_DATE,
        "5",
        "1e400",
        '"a";r=1;t=2',
        "r=",
        "http://[",
        "//x",
        "http://a b/",
        "\x7f",
        "9" * 50,
    ]
    for _ in range(300):
        made = {rng.choice(headers): rng.choice(junk) for _ in range(rng.randrange(5))}
        status = rng.choice(
            [200, 202, 204, 303, 304, 401, 403, 404, 429, 500, rng.randrange(100, 1000)]
        )
        body = json.dumps(value(4)) if rng.random() < 0.8 else rng.choice(junk)
        reading = GUESS.read(
            Reply(status, made, body, HERE, rng.choice([None, NOON])), rng.random() < 0.2
        )
        assert reading.verdict in Verdict and reading.because
        assert reading.fraction is None or 0 <= reading.fraction <= 1
        assert reading.retry_after is None or 0 <= reading.retry_after <= LONGEST_S


@pytest.mark.parametrize(
    "said",
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
def test_a_job_that_is_done_but_not_well_has_failed(said):
    """Where nobody said how the API speaks, a false 'all is well' would be the worst reading."""
    assert Reader(Profile()).read(said).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    "said",
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
def test_a_job_that_is_done_and_well_is_done(said):
    assert Reader(Profile()).read(said).verdict is Verdict.DONE


def test_a_profile_that_names_the_status_is_believed():
    assert (
        Reader(Profile(status="status")).read({"status": "done", "error": "none"}).verdict
        is Verdict.DONE
    )


@pytest.mark.parametrize(
    "said",
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
def test_a_status_is_found_in_many_places_and_inside_envelopes(said):
    assert Reader(Profile()).read(said).verdict is Verdict.PENDING


def test_a_result_that_is_not_where_the_profile_says_is_told():
    reader = Reader(Profile(result="data.nope"))
    assert "nothing at data.nope" in reader.read({"status": "done", "data": {"yes": 1}}).warnings[0]
    assert reader.read({"status": "done", "data": {"nope": None}}).warnings == ()


def test_xml_is_not_called_html():
    reading = Reader(Profile()).read(
        Reply(200, {"Content-Type": "text/xml"}, b"<wps>running</wps>")
    )
    assert reading.verdict is Verdict.FAULT and "XML" in reading.because


# Results that nobody could read


def nested(levels):
    return '{"status": "done", "result": %s1%s}' % ("[" * levels, "]" * levels)


def test_a_result_that_is_nested_too_deep_ends_the_wait_and_says_so():
    """Python writes less deep than it reads, and others bear still less."""
    assert reply(nested(100)).verdict is Verdict.DONE
    items = '{"items": [%s]}' % nested(101).replace("{", '{"id": "a", ', 1)
    inside = Reader(Profile(result="made|json"))
    for reading in (
        reply(nested(101)),
        reply(nested(600)),
        reply("[" * 101 + "1" + "]" * 101, moved=True),
        GUESS.read_many(Reply(200, {}, items), ["a"])[1][0],
        reply({"status": "done", "made": "[" * 101 + "1" + "]" * 101}, reader=inside),
    ):
        assert (reading.verdict, reading.because) == (
            Verdict.REFUSED,
            "the result can't be used: it is nested more than 100 levels deep",
        )
    assert reply(nested(101).replace("done", "running")).verdict is Verdict.PENDING


@pytest.mark.parametrize(
    "body, said",
    [
        ('{"status": "done", "n": %s}' % ("7" * 6000), "a number in it is too long"),
        ("[" * 200000, "it is nested too deep"),
    ],
    ids=["number", "nested"],
)
def test_json_that_python_can_not_bear_is_a_fault_and_not_called_anything_else(
    body, said, monkeypatch
):
    def parse_int(digits):  # as newer Pythons do by themselves
        if len(digits) > 4300:
            raise ValueError("Exceeds the limit")
        return int(digits)

    monkeypatch.setattr(json_decoding, "_DECODER", json.JSONDecoder(parse_int=parse_int))
    for reading in (reply(body), GUESS.read_many(Reply(200, {}, body), ["a"])[1][0]):
        assert (reading.verdict, reading.because) == (
            Verdict.FAULT,
            "JSON that can't be read: " + said,
        )
    assert reply(body, moved=True).result == body


def test_a_number_beyond_all_bounds_is_null_as_nan_is():
    many = '{"items": [{"id": "a", "status": "done", "result": 1e999}]}'
    assert reply('{"status": "done", "result": {"a": [1e999, NaN, 1.5], "b": -1e999}}').result == {
        "a": [None, None, 1.5],
        "b": None,
    }
    assert reply("[1e999]", moved=True).result == [None]
    assert GUESS.read_many(Reply(200, {}, many), ["a"])[1][0].result is None
    assert reply(
        {"status": "done", "made": "[NaN, 1]"}, reader=Reader(Profile(result="made|json"))
    ).result == [None, 1]


def test_what_a_callable_gives_is_left_as_it_is():
    result = [float("inf"), object()]
    assert GUESS.read({"status": "done", "result": result}).result is result


def test_an_error_that_holds_itself_can_not_be_shown():
    error = {}
    error["error"] = error
    reading = GUESS.read({"status": "failed", "error": error})
    assert (reading.verdict, reading.error_message) == (Verdict.FAILED, "data that can't be shown")


def test_a_word_is_kept_once_for_all_jobs_unless_it_is_a_novel():
    """What is interned stays for ever on Python 3.12: a status of 1 MB, another each time, took as much memory."""
    for length, is_same in ((LONGEST_WORD, True), (LONGEST_WORD + 1, False)):
        one, two = (Reader(Profile()).read({"status": "x" * length}).status for _ in range(2))
        assert (one is two, one == two) == (is_same, True)
