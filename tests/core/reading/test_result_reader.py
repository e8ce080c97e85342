"""The replies to requests for a result, and to requests to cancel a job."""

import pytest

from pollkit import Fault, Profile, Reply
from pollkit.core.model import FaultCode
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.result_reader import ResultReader, read_cancel_reply
from pollkit.core.reading.verdict import Verdict

URL = "http://api/results/1"
JSON = {"content-type": "application/json"}
HTML = {"content-type": "text/html"}


def read(reply, **fields):
    return ResultReader(Profile(result_url="/r/{id}", **fields)).read(reply)


def test_the_json_of_a_good_reply_is_the_result():
    reading = read(Reply(200, JSON, '{"status": "running", "a": 1}', URL))
    assert (reading.verdict, reading.is_result) == (Verdict.DONE, True)
    assert reading.result == {"status": "running", "a": 1}  # its status is not the job's


def test_the_profile_may_name_a_path_in_it():
    reading = read(Reply(200, JSON, '{"items": [1]}', URL), result="items")
    assert (reading.result, reading.warnings) == ([1], ())


def test_a_path_that_leads_nowhere_causes_a_warning():
    reading = read(Reply(200, JSON, '{"data": [1]}', URL), result="items")
    assert (reading.verdict, reading.result) == (Verdict.DONE, None)
    (warning,) = reading.warnings
    assert warning.startswith("there is nothing at items in the fetched result: the result is null")
    assert "check the path that result names" in warning
    assert read(Reply(200, JSON, '{"items": null}', URL), result="items").warnings == ()


@pytest.mark.parametrize(("body", "result"), [(b"", None), (b"plain text", "plain text")])
def test_a_result_need_not_be_json(body, result):
    assert read(Reply(200, {}, body, URL)).result == result


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Reply(202, JSON, "{}", URL), Verdict.FAULT),
        (Reply(500, JSON, "{}", URL), Verdict.FAULT),
        (Reply(304, {}, "", URL), Verdict.FAULT),
        (Reply(404, {}, "", URL), Verdict.NOT_FOUND),
        (Reply(410, {}, "", URL), Verdict.REFUSED),
        (Reply(403, {}, "", URL), Verdict.UNAUTHORISED),
        (Reply(429, {"Retry-After": "7"}, "", URL), Verdict.LIMITED),
        (Reply(200, HTML, "<html>log in", URL), Verdict.FAULT),
        (Reply(200, JSON, "[" * 200 + "]" * 200, URL), Verdict.REFUSED),
        (Fault("reset"), Verdict.FAULT),
        (Fault("no", final=True), Verdict.REFUSED),
    ],
)
def test_anything_else_is_no_result(reply, verdict):
    reading = read(reply)
    assert (reading.verdict, reading.is_result, reading.result) == (verdict, True, None)


def test_a_result_that_costs_too_much_is_refused():
    body = "[" + ",".join(["{}"] * 3000000) + "]"
    reading = read(Reply(200, JSON, body, URL))
    assert (reading.verdict, reading.result) == (Verdict.REFUSED, None)


def test_html_can_be_the_result_if_the_file_is_html():
    reader = ResultReader(Profile(result_url="/r/{id}"))
    assert reader.check(Reply(200, HTML, b"", URL), can_be_html=True).verdict is Verdict.DONE


def test_a_retry_after_is_obeyed():
    assert read(Reply(503, {"Retry-After": "7"}, "", URL)).retry_after == 7.0


def test_pages():
    reader = ResultReader(Profile(result_url="/r/{id}", result_next="next"))
    assert reader.has_pages
    assert reader.next_page_url(Reply(200, {}, '{"next": "/p2"}', URL), URL) == "http://api/p2"
    assert reader.next_page_url(Reply(200, {}, "{}", URL), URL) is None
    assert not ResultReader(Profile()).has_pages
    assert ResultReader(Profile()).next_page_url(Reply(200, {}, "{}", URL), URL) is None


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("/files/1", "http://api/files/1"),
        ("https://cdn/1", "https://cdn/1"),
        ("", None),
        (7, None),
        ("ftp://cdn/1", None),
    ],
)
def test_the_link_of_a_done_job_becomes_absolute(link, found):
    reader = Reader(Profile(result_url="out.url"))
    body = '{"status": "done", "out": {"url": %s}}' % ('"%s"' % link if link != 7 else 7)
    reading = reader.read(Reply(200, JSON, body, "http://api/jobs/1"))
    assert (reading.verdict, reading.result_link) == (Verdict.DONE, found)


def test_the_jobs_of_a_list_have_links_too():
    reader = Reader(Profile(batch_url="http://api/jobs?ids={ids}", result_url="url"))
    page = Reply(200, JSON, '{"items": [{"id": "a", "status": "done", "url": "/f/a"}]}', URL)
    _, readings = reader.read_many([page], ["a"])
    assert readings[0].result_link == "http://api/f/a"


@pytest.mark.parametrize("status", [200, 202, 204, 303])
def test_an_accepted_cancel_request(status):
    reading = read_cancel_reply(Reply(status, {"location": "/x"}, '{"status": "done"}', URL))
    assert (reading.verdict, reading.is_cancel) == (Verdict.PENDING, True)
    assert reading.location is None and reading.status is None and not reading.warnings


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Reply(409, {}, "", URL), Verdict.REFUSED),
        (Reply(404, {}, "", URL), Verdict.NOT_FOUND),
        (Reply(500, {}, "", URL), Verdict.FAULT),
        (Fault("reset", code=FaultCode.BROKEN), Verdict.FAULT),
    ],
)
def test_a_cancel_request_that_failed_is_judged_by_its_reply(reply, verdict):
    reading = read_cancel_reply(reply)
    assert (reading.verdict, reading.is_cancel) == (verdict, True)


def test_a_cancel_request_may_meet_the_limit():
    reading = read_cancel_reply(Reply(429, {"Retry-After": "3"}, "", URL))
    assert (reading.verdict, reading.retry_after, reading.warnings) == (Verdict.LIMITED, 3.0, ())
