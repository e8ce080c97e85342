"""Login pages and the errors of proxies are not taken for replies of the API."""

import time

import pytest

from pollkit import Profile
from pollkit.core.model import FaultCode, Reply
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Verdict

HTML = {"content-type": "text/html"}
LOGIN = b"<!doctype html><html><head><title>Sign in &ndash; Corp</title><form>"
SQUID = {"server": "squid/5.7", "x-squid-error": "ERR_CONNECT_FAIL 111", **HTML}


def read(status, body, headers=HTML, **settings):
    moved = settings.pop("moved", False)
    return Reader(Profile(**settings)).read(Reply(status, headers, body), moved=moved)


@pytest.mark.parametrize(
    "body, titled",
    [
        (LOGIN, ", titled 'Sign in \u2013 Corp'"),
        (b"<html><TITLE lang='en'>\n Log\x1b in\n</TITLE>", ", titled 'Log? in'"),
        (b"<html>" + b"<p>" * 10000 + b"<title>too late</title>", ""),
        (b"<html><title></title>", ""),
        (b"<html><title>" + b"x" * 400, ", titled '%s...'" % ("x" * 77)),
    ],
)
def test_a_page_with_200_is_a_fault_that_names_its_title(body, titled):
    reading = read(200, body)
    assert (reading.verdict, reading.code) == (Verdict.FAULT, FaultCode.HTML)
    expected = "an HTML page instead of JSON%s: a proxy or login page?" % titled
    assert reading.because == expected


@pytest.mark.parametrize("status", [403, 404, 410, 502])
def test_an_error_page_is_named(status):
    reading = read(status, b"<html><title>Access Denied</title>")
    assert "titled 'Access Denied': a proxy or login page?" in reading.because
    assert str(status) in reading.because


@pytest.mark.parametrize(
    "body, verdict",
    [
        (LOGIN, Verdict.FAULT),
        (b"<html><form><input name=p type=password>", Verdict.FAULT),
        (b"<html><title>Report of May</title>", Verdict.DONE),
    ],
)
def test_a_login_page_is_not_the_result_that_a_303_points_to(body, verdict):
    """But another page may be: some jobs produce one."""
    assert read(200, body, moved=True).verdict is verdict


@pytest.mark.parametrize(
    "headers, reason",
    [
        (SQUID, "ERR_CONNECT_FAIL 111"),
        ({"server": "tinyproxy/1.11.1"}, "tinyproxy"),
        ({"proxy-status": "gate.internal; error=connection_refused"}, "connection_refused"),
    ],
)
@pytest.mark.parametrize("status", [400, 403, 404, 500, 503])
def test_an_error_of_a_proxy_is_a_fault_that_does_not_blame_the_server(status, headers, reason):
    reading = read(status, b"<html><title>ERROR</title>", headers)
    assert reading.verdict is Verdict.FAULT
    assert reading.because == "a proxy answered %d in place of the server (%s)" % (status, reason)
    is_sign_of_outage = reading.http_status == 503 and reading.code is FaultCode.HTTP_ERROR
    assert is_sign_of_outage is (status == 503)


@pytest.mark.parametrize(
    "status, headers",
    [
        (200, SQUID),
        (403, {"server": "nginx", "via": "1.1 proxy (squid/5.7)"}),
        (403, {"proxy-status": "gate.internal; received-status=403"}),
    ],
)
def test_a_reply_that_a_proxy_forwards_is_the_servers(status, headers):
    assert "proxy answered" not in read(status, b'{"status": "done"}', headers).because


def test_rules_do_not_judge_the_error_of_a_proxy():
    rules = "done if http 404"
    assert read(404, b"", {}, rules=rules).verdict is Verdict.DONE
    assert read(404, b"<html>", SQUID, rules=rules).verdict is Verdict.FAULT


def test_a_hostile_page_is_searched_in_linear_time():
    began = time.process_time()
    for piece in (b"<title", b"<title ", b"<input ", b"<title>", b"sign"):
        read(200, b"<html>" + piece * 1000000, moved=True)
    assert time.process_time() - began < 1
