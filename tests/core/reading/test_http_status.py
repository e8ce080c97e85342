"""HTTP statuses, and the replies after a 202 or a 303."""

import pytest

from pollkit import Profile, Reply
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Verdict
from readings import read_reply


@pytest.mark.parametrize(
    "status, verdict",
    [
        (400, Verdict.REFUSED),
        (401, Verdict.UNAUTHORISED),
        (403, Verdict.UNAUTHORISED),
        (404, Verdict.NOT_FOUND),
        (405, Verdict.REFUSED),
        (408, Verdict.FAULT),
        (409, Verdict.REFUSED),
        (410, Verdict.REFUSED),
        (425, Verdict.FAULT),
        (429, Verdict.LIMITED),
        (500, Verdict.FAULT),
        (502, Verdict.FAULT),
        (503, Verdict.FAULT),
        (504, Verdict.FAULT),
        (599, Verdict.FAULT),
        (304, Verdict.PENDING),
        (303, Verdict.FAULT),
        (302, Verdict.FAULT),
        (200, Verdict.FAULT),
        (201, Verdict.FAULT),
        (202, Verdict.PENDING),
        (204, Verdict.PENDING),
    ],
)
def test_a_status_without_a_body(status, verdict):
    assert read_reply(None, status).verdict is verdict


def test_the_error_message_of_the_server_is_quoted():
    assert (
        read_reply({"error": {"message": "bad id"}}, 400).because
        == "the server refused: 400, 'bad id'"
    )
    assert read_reply({"error": {"message": "x" * 999}}, 500).because.endswith("...'")
    assert read_reply({"error": 5}, 500).because == "the server answered 500"
    assert read_reply("<html>", 500).because.startswith("the server answered 500, an HTML page")
    assert read_reply("oops", 500).because == "the server answered 500"


@pytest.mark.parametrize(
    "headers, verdict",
    [
        ({"Retry_After": "60"}, Verdict.LIMITED),
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "60"}, Verdict.LIMITED),
        ({"X_RateLimit_Remaining": "7"}, Verdict.UNAUTHORISED),
        ({}, Verdict.UNAUTHORISED),
    ],
)
def test_a_403_with_the_headers_of_a_rate_limit_is_a_rate_limit(headers, verdict):
    assert read_reply(None, 403, **headers).verdict is verdict


@pytest.mark.parametrize(
    "headers, location",
    [
        ({"Location": "/v1/ops/7"}, "https://api.internal/v1/ops/7"),
        (
            {"Operation_Location": "https://ops.internal/7", "Location": "/result"},
            "https://ops.internal/7",
        ),
        ({"Azure_AsyncOperation": "ops/7"}, "https://api.internal/v1/jobs/ops/7"),
        ({"Location": "/v1/\u00c3\u00a9"}, "https://api.internal/v1/%C3%A9"),  # UTF-8
        ({"Location": "ftp://files/7"}, None),
        ({"Location": "javascript:alert(1)"}, None),
        ({}, None),
    ],
)
def test_a_202_may_link_to_another_url(headers, location):
    reading = read_reply(None, 202, **headers)
    assert (reading.verdict, reading.location) == (Verdict.PENDING, location)
    assert read_reply({"message": "accepted"}, 202, **headers).location == location
    assert read_reply({"status": "running"}, 202, **headers).location == location
    assert read_reply({"status": "done"}, 202, **headers).verdict is Verdict.DONE


def test_a_location_on_a_200_is_not_followed():
    assert read_reply({"status": "running"}, 200, location="/elsewhere").location is None


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_with_a_retry_after_is_followed_after_that_delay(status):
    reading = read_reply(None, status, location="/v2/1", Retry_After="7")
    assert (reading.verdict, reading.location, reading.retry_after) == (
        Verdict.PENDING,
        "https://api.internal/v2/1",
        7.0,
    )
    assert reading.because == "%d: to be followed after the Retry-After" % status
    for headers in (
        {"location": "/v2/1"},
        {"location": "/v2/1", "Retry_After": "soon"},
        {"Retry_After": "7"},
    ):
        assert read_reply(None, status, **headers).verdict is Verdict.FAULT


def test_a_303_names_the_url_to_poll_next():
    reading = read_reply(None, 303, location="/v1/results/9?sig=abc")
    assert (reading.verdict, reading.location) == (
        Verdict.SEE_OTHER,
        "https://api.internal/v1/results/9?sig=abc",
    )
    assert "abc" not in reading.because


@pytest.mark.parametrize(
    "body, verdict, result",
    [
        ({"rows": 3}, Verdict.DONE, {"rows": 3}),
        ({"status": "v2"}, Verdict.DONE, {"status": "v2"}),
        ({"status": "running"}, Verdict.PENDING, None),
        ({"status": "failed"}, Verdict.FAILED, None),
        (b"a,b\n1,2\n", Verdict.DONE, "a,b\n1,2\n"),
        (None, Verdict.DONE, None),
    ],
)
def test_the_reply_after_a_303_is_the_result_unless_its_status_is_known(body, verdict, result):
    reading = read_reply(body, moved=True)
    assert (reading.verdict, reading.result) == (verdict, result)
    assert read_reply(body, 202, moved=True).verdict is not Verdict.DONE


@pytest.mark.parametrize(
    "body, verdict, result",
    [
        ({"rows": 3}, Verdict.DONE, {"rows": 3}),
        ({"status": "v2"}, Verdict.PENDING, None),
        (None, Verdict.DONE, None),
        ({"status": "failed"}, Verdict.FAILED, None),
        (b"a,b\n1,2\n", Verdict.DONE, "a,b\n1,2\n"),
    ],
)
def test_the_reply_after_a_bare_202_is_the_result_unless_it_has_a_status(body, verdict, result):
    reading = read_reply(body, accepted=True)
    assert (reading.verdict, reading.result) == (verdict, result)
    assert read_reply(body, 202, accepted=True).verdict is not Verdict.DONE


def test_only_a_202_without_a_status_is_marked_as_accepted():
    assert read_reply(None, 202).accepted and read_reply({"message": "queued up"}, 202).accepted
    assert (
        not read_reply({"status": "running"}, 202).accepted and not read_reply(None, 204).accepted
    )


def test_a_304_after_a_bare_202_keeps_the_mark():
    assert read_reply(None, 304, accepted=True).accepted and not read_reply(None, 304).accepted


def test_an_etag_is_kept_while_pending():
    assert read_reply({"status": "running"}, etag='"v1"').etag == '"v1"'
    assert read_reply({"status": "done"}, etag='"v1"').etag is None


@pytest.mark.parametrize("length, is_repeated", [(1000, True), (1001, False)])
def test_an_etag_of_over_1000_characters_is_not_repeated(length, is_repeated):
    reply = Reply(200, {"ETag": "e" * length}, '{"status": "running"}')
    assert Reader(Profile()).read(reply).etag == ("e" * length if is_repeated else None)
