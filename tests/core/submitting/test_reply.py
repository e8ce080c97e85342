"""The meaning of a reply to a submission or a lookup: accepted, refused, or unclear."""

import json

import pytest

from pollkit import Fault, Profile, Reply
from pollkit.core.model import FaultCode
from pollkit.core.submitting.intent import Kind
from pollkit.core.submitting.reply import SubmitReader

BASE = "https://api.internal"
PROFILE = Profile(url=BASE + "/jobs/{id}", submit_url=BASE + "/jobs")


def reply(data=None, status=200, url=BASE + "/jobs", **headers):
    body = b"" if data is None else json.dumps(data)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, names, body, url, 0.0)


def read(*args, profile=PROFILE, **kwargs):
    return SubmitReader(profile).read(reply(*args, **kwargs))


def look_up(*args, profile=PROFILE, **kwargs):
    return SubmitReader(profile).read_lookup(reply(*args, **kwargs))


def place(answer):
    return answer.kind, answer.job_id, answer.job_url


# The id or the URL of the job


@pytest.mark.parametrize(
    "data",
    [
        {"id": "j1"},
        {"job_id": "j1"},
        {"data": {"taskId": "j1"}, "code": 200},
        {"id": "", "job_id": "j1"},
        {"id": True, "uuid": "j1"},
        {"id": "x" * 1001, "uuid": "j1"},
        {"id": "two\nlines", "uuid": "j1"},
        {"status": "success", "task_id": "j1"},
    ],
)
def test_the_id_is_in_one_of_the_usual_fields(data):
    assert place(read(data, 202)) == (Kind.ACCEPTED, "j1", None)
    assert place(read(data, 200)) == (Kind.ACCEPTED, "j1", None)
    assert not read(data, 200).is_finished


def test_the_profile_names_the_field_of_the_id():
    profile = PROFILE._replace(submit_id="ticket.number")
    data = {"id": "other", "ticket": {"number": 42}}
    assert place(read(data, profile=profile)) == (Kind.ACCEPTED, "42", None)
    # It takes precedence over a link.
    linked = read(data, 201, profile=profile, Location="/jobs/9")
    assert place(linked) == (Kind.ACCEPTED, "42", None)


@pytest.mark.parametrize("status", [200, 201, 202, 303])
@pytest.mark.parametrize("header", ["Location", "Operation_Location", "Azure_AsyncOperation"])
def test_the_url_is_in_a_header(status, header):
    answer = read(None, status, **{header: "/jobs/7"})
    assert place(answer) == (Kind.ACCEPTED, None, BASE + "/jobs/7")


def test_a_url_in_a_header_goes_with_the_id_in_the_body():
    answer = read({"id": "j1"}, 201, Location="/jobs/7")
    assert place(answer) == (Kind.ACCEPTED, "j1", BASE + "/jobs/7")


def test_the_profile_names_the_field_of_the_url():
    profile = Profile(submit_url=BASE + "/jobs", submit_status_url="urls.get")
    answer = read({"urls": {"get": "/v1/jobs/7"}}, 201, profile=profile, Location="/x")
    assert place(answer) == (Kind.ACCEPTED, None, BASE + "/v1/jobs/7")


@pytest.mark.parametrize("url", [None, "", 7, "ftp://a/b", "http://"])
def test_a_field_without_a_url_is_an_error(url):
    profile = Profile(submit_url=BASE + "/jobs", submit_status_url="urls.get")
    answer = read({"urls": {"get": url}}, 201, profile=profile)
    assert answer.kind is Kind.UNTRACKED
    assert "there is no URL at urls.get" in answer.because


def test_a_url_at_another_origin_is_not_polled():
    answer = read(None, 202, Location="https://elsewhere.example/7")
    assert answer.kind is Kind.UNTRACKED
    assert "outside https://api.internal" in answer.because
    trusted = PROFILE._replace(origins=("https://elsewhere.example",))
    answer = read(None, 202, profile=trusted, Location="https://elsewhere.example/7")
    assert place(answer) == (Kind.ACCEPTED, None, "https://elsewhere.example/7")


def test_if_a_url_can_not_be_polled_the_id_will_do():
    answer = read({"id": "j1"}, 202, Location="http://10.0.0.7/internal/j1")
    assert place(answer) == (Kind.ACCEPTED, "j1", None)


@pytest.mark.parametrize(
    "data, status, problem",
    [
        ({"message": "thank you"}, 202, r"set submit_id = PATH \(the reply has: message\)"),
        ({}, 202, r"the reply has: nothing"),
        (None, 202, "no id in the reply"),
        ([1], 200, "no id in the reply"),
        ({"id": ".."}, 202, r"its id is \.\., and"),
        ({"status": "success"}, 200, "the reply has: status"),
    ],
)
def test_a_reply_without_an_id_is_an_error_that_quotes_its_fields(data, status, problem):
    answer = read(data, status)
    assert answer.kind is Kind.UNTRACKED
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(answer.because)


def test_an_id_without_a_url_to_poll_it_at_is_an_error_that_names_the_id():
    answer = read({"id": "j1"}, profile=Profile(submit_url=BASE + "/jobs"))
    assert answer.kind is Kind.UNTRACKED
    assert "its id is j1, and there is no url with {id}: set url in a profile" in answer.because


def test_the_error_names_the_field_of_the_profile():
    answer = read({"id": "j1"}, profile=PROFILE._replace(submit_id="job.id"))
    assert "there is no id at job.id" in answer.because


# Jobs that have finished at once


def test_a_job_that_is_done_or_failed_needs_no_poll():
    done = read({"id": "j1", "status": "done", "result": 42})
    assert (done.kind, done.is_finished, done.reading.result) == (Kind.ACCEPTED, True, 42)
    failed = read({"status": "failed", "error": {"message": "no pages"}})
    assert failed.is_finished and failed.reading.error_message == "no pages"


def test_a_result_that_has_its_own_url_is_fetched_after_a_poll():
    profile = PROFILE._replace(result_url="/jobs/{id}/result")
    assert not read({"id": "j1", "status": "done"}, profile=profile).is_finished
    assert read({"status": "done"}, profile=profile).is_finished  # it can't be polled


def test_a_202_is_never_the_end():
    assert not read({"id": "j1", "status": "done"}, 202).is_finished


def test_a_word_of_success_is_trusted_if_the_profile_names_the_status():
    data = {"id": "j1", "state": "success"}
    assert not read(data).is_finished
    assert read(data, profile=PROFILE._replace(status="state")).is_finished


def test_rules_without_a_status_judge_only_polls():
    profile = PROFILE._replace(rules=("done if missing stage",))
    assert not read({"id": "j1", "status": "done"}, profile=profile).is_finished


def test_with_prefer_a_200_without_an_id_is_the_result():
    profile = PROFILE._replace(prefer="respond-async")
    answer = read({"area": 12}, profile=profile)
    assert answer.is_finished and answer.reading.result == {"area": 12}
    text = SubmitReader(profile).read(Reply(200, {}, "12 km2", BASE))
    assert text.is_finished and text.reading.result == "12 km2"
    assert not read({"id": "j1"}, profile=profile).is_finished
    assert read({"area": 12}, 202, profile=profile).kind is Kind.UNTRACKED


def test_with_prefer_an_html_page_is_no_result():
    page = Reply(200, {"Content-Type": "text/html"}, "<html>log in</html>", BASE)
    answer = SubmitReader(PROFILE._replace(prefer="respond-async")).read(page)
    assert answer.kind is Kind.UNCLEAR and not answer.is_finished
    assert "an HTML page instead of JSON" in answer.because


def test_a_result_that_can_not_be_used_is_an_error():
    deep = "[" * 900 + "]" * 900
    answer = SubmitReader(PROFILE._replace(prefer="x")).read(Reply(200, {}, deep, BASE))
    assert answer.kind is Kind.UNTRACKED


# Replies that don't accept the job


@pytest.mark.parametrize(
    "status, kind",
    [
        (400, Kind.REFUSED),
        (404, Kind.REFUSED),
        (409, Kind.REFUSED),
        (422, Kind.REFUSED),
        (401, Kind.UNAUTHORISED),
        (403, Kind.UNAUTHORISED),
        (408, Kind.UNCLEAR),
        (425, Kind.NOT_SENT),
        (429, Kind.LIMITED),
        (500, Kind.UNCLEAR),
        (502, Kind.UNCLEAR),
        (503, Kind.UNCLEAR),
        (504, Kind.UNCLEAR),
        (301, Kind.UNCLEAR),
        (302, Kind.UNCLEAR),
        (303, Kind.UNCLEAR),
        (304, Kind.UNCLEAR),
    ],
)
def test_the_http_status_decides(status, kind):
    answer = read({"error": {"code": "c", "message": "in words"}}, status)
    assert (answer.kind, answer.http_status) == (kind, status)


def test_a_503_with_a_retry_after_is_unclear_too():
    answer = read({}, 503, Retry_After="7")
    assert (answer.kind, answer.retry_after) == (Kind.UNCLEAR, 7.0)


def test_a_refusal_has_the_words_of_the_api():
    answer = read({"error": {"code": "bad-pages", "message": "pages must\nbe 1"}}, 422)
    assert (answer.error_code, answer.because) == ("bad-pages", "pages must be 1")
    assert "413" in read(None, 413).because
    assert (
        SubmitReader(PROFILE)
        .read(Reply(400, {}, "<html>", BASE))
        .because.startswith("the server refused: 400")
    )


def test_a_redirect_is_named_without_its_secrets():
    answer = read(None, 302, Location="/login?token=secret7")
    assert answer.because == "302: redirected to https://api.internal/login?token=***"


def test_a_page_for_people_is_unclear():
    answer = SubmitReader(PROFILE).read(Reply(200, {}, "<html>log in</html>", BASE))
    assert answer.kind is Kind.UNCLEAR and "HTML" in answer.because


@pytest.mark.parametrize(
    "code, final, kind",
    [
        (FaultCode.CONNECT, False, Kind.NOT_SENT),
        (FaultCode.NAME, False, Kind.NOT_SENT),
        (FaultCode.CERTIFICATE, False, Kind.NOT_SENT),
        (FaultCode.CONFIG, True, Kind.IMPOSSIBLE),
        (FaultCode.REDIRECT, True, Kind.IMPOSSIBLE),
        (FaultCode.TIMEOUT, False, Kind.UNCLEAR),
        (FaultCode.NO_REPLY, False, Kind.UNCLEAR),
        (FaultCode.BROKEN, False, Kind.UNCLEAR),
        (FaultCode.BAD_HTTP, False, Kind.UNCLEAR),
        (FaultCode.TOO_LARGE, True, Kind.UNCLEAR),
        (FaultCode.CALL, False, Kind.UNCLEAR),
        (FaultCode.OTHER, False, Kind.UNCLEAR),
    ],
)
def test_only_a_request_that_was_surely_not_sent_may_be_repeated(code, final, kind):
    assert SubmitReader(PROFILE).read(Fault("no", final=final, code=code)).kind is kind


def test_of_another_client_a_tls_error_may_come_after_the_request():
    fault = Fault("no", code=FaultCode.TLS)
    assert SubmitReader(PROFILE).read(fault).kind is Kind.NOT_SENT
    assert SubmitReader(PROFILE, is_own_client=False).read(fault).kind is Kind.UNCLEAR
    refused = Fault("no", code=FaultCode.CONNECT)
    assert SubmitReader(PROFILE, is_own_client=False).read(refused).kind is Kind.NOT_SENT


# Lookups


@pytest.mark.parametrize(
    "data",
    [
        {"id": "j1"},
        [{"id": "j1"}],
        {"items": [{"id": "j1"}]},
        {"total": 1, "data": [{"job_id": "j1"}]},
        {"id": "j1", "tasks": []},
    ],
)
def test_a_lookup_finds_one_job(data):
    assert place(look_up(data)) == (Kind.ACCEPTED, "j1", None)


@pytest.mark.parametrize("data", [None, [], {}, {"items": []}, {"total": 0, "jobs": []}])
def test_a_lookup_finds_nothing(data):
    assert look_up(data).kind is Kind.ABSENT
    assert look_up(None, 404).kind is look_up(None, 410).kind is Kind.ABSENT
    assert look_up(None, 404, Retry_After="30").retry_after == 30.0


def test_a_404_of_a_proxy_does_not_say_that_there_is_no_job():
    """Otherwise the job would be submitted again."""
    assert look_up(None, 404, Server="squid/5.7").kind is Kind.NOT_SENT


@pytest.mark.parametrize(
    "data, problem",
    [
        ({"items": [{"id": "a"}, {"id": "b"}]}, "found 2 jobs, not one"),
        ({"items": [{"name": "a"}]}, "submit_lookup found a job: no id"),
        ({"message": "ok"}, "can't be used: no id"),
    ],
)
def test_a_lookup_that_can_not_be_used_says_why(data, problem):
    answer = look_up(data)
    assert answer.kind is Kind.NOT_SENT and problem in answer.because


def test_the_items_of_a_lookup_are_where_the_profile_says():
    profile = PROFILE._replace(batch_items="found.list")
    assert look_up({"found": {"list": [{"id": "j1"}]}}, profile=profile).job_id == "j1"


def test_a_lookup_that_fails_is_repeated():
    assert look_up({}, 500).kind is Kind.NOT_SENT
    assert look_up({}, 400).kind is Kind.NOT_SENT
    assert look_up({}, 429).kind is Kind.LIMITED
    assert look_up({}, 401).kind is Kind.UNAUTHORISED
    reader = SubmitReader(PROFILE)
    assert reader.read_lookup(Fault("no", code=FaultCode.TIMEOUT)).kind is Kind.NOT_SENT
    assert reader.read_lookup(Reply(200, {}, "<html>", BASE)).kind is Kind.NOT_SENT
