"""`pollkit doctor` against real servers, step by step."""

import contextlib
import os
import re
import socket
import sys
import time

import pytest

from doctor_report import STEPS, TLS_STEPS, http_date
from proxy_servers import tunnel
from raw_server import CLOSE, HANG, RawServer, reply
from tls_servers import CA, LAX_CA, tls_server

DONE = reply('{"status": "done"}', Content_Type="application/json")


@contextlib.contextmanager
def unused_address():
    """A host and port on which no server listens."""
    with contextlib.closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        yield "127.0.0.1:%d" % sock.getsockname()[1]


# All steps


def test_all_is_well_over_http(doctor):
    with RawServer(reply('{"status": "running", "progress": 0.4}', Date=http_date())) as server:
        seen = doctor(server.url("/jobs/1?api_key=SECRET"))
    assert seen.code == 0
    assert seen.steps == STEPS
    assert set(seen.level.values()) == {"ok"}
    assert seen.lines[0] == server.url("/jobs/1?api_key=***")
    assert seen.lines[-1] == "all well"
    assert seen.text["proxy"] == "none: neither http_proxy nor all_proxy is set"
    assert re.match(r"HTTP 200 in \d+ ms", seen.text["poll"])
    assert seen.text["meaning"] == 'status "running" at status: pending, 40 % done'
    assert len(server.requests) == 1  # one poll


def test_all_is_well_over_tls(doctor):
    with tls_server(reply('{"status": "done"}', Date=http_date())) as server:
        seen = doctor(server.url(), "--ca-file", CA)
    assert (seen.code, seen.steps, seen.problems) == (0, TLS_STEPS, [])
    assert re.match(
        r"TLSv1\.\d in \d+ ms; the certificate is for localhost, 127\.0\.0\.1", seen.text["TLS"]
    )
    assert "issued by pollkit test CA, valid until 2120-01-01" in seen.text["TLS"]
    assert re.match(r"localhost is .*127\.0\.0\.1.* \(\d+ ms\)", seen.text["DNS"])


def test_lines_are_aligned(doctor):
    with RawServer(DONE) as server:
        seen = doctor(server.url())
    assert {line.index(seen.text[what]) for line, what in zip(seen.lines[1:], seen.steps)} == {21}


def test_job_of_a_profile_is_found_by_its_id(doctor, tmp_path, environment):
    environment.setenv("KEY", "SECRET")
    with RawServer(DONE) as server:
        ini = tmp_path / "p.ini"
        ini.write_text(
            "[mine]\nurl = %s\nauth = header X-API-Key env:KEY\nlimit = 60/m\n"
            % server.url("/jobs/{id}")
        )
        seen = doctor("job_1", "--profile", "mine", "--profiles", str(ini))
    assert seen.code == 0
    assert (
        seen.text["credential"] == "from the environment variable KEY, sent as the header X-API-Key"
    )
    assert "60/m is configured" in seen.text["limits"]
    assert server.requests[0].headers["x-api-key"] == "SECRET"
    assert "SECRET" not in seen.out


def test_ipv6(doctor):
    try:
        server = RawServer(DONE, host="::1")
    except OSError as error:
        pytest.skip("no IPv6 on the loopback interface: %s" % error)
    with server:
        seen = doctor(server.url())
    assert seen.code == 0
    assert seen.text["TCP"].startswith("connected to ::1 in")


# No reply


def test_refused_port_is_a_problem_and_later_steps_are_skipped(doctor):
    with unused_address() as address:
        seen = doctor("http://%s/1" % address)
    assert (seen.code, seen.problems) == (4, ["TCP"])
    assert (
        seen.text["TCP"]
        == "%s refused the connection -> is the server up, and the port right?" % address
    )
    assert seen.level["credential"] == "ok"  # needs no network
    for what in ("poll", "meaning", "limits", "clock"):
        assert (seen.level[what], seen.text[what]) == (
            "skipped",
            "not tried, because of the problem with TCP",
        )
    assert seen.lines[-1] == "1 problem"


def test_name_that_does_not_exist_is_a_dns_problem(doctor):
    seen = doctor("https://jobs.invalid/1")
    assert (seen.code, seen.problems) == (4, ["DNS"])
    assert [seen.level[what] for what in ("TCP", "TLS", "poll")] == ["skipped"] * 3


def test_server_that_closes_the_connection_is_a_poll_problem(doctor):
    with RawServer(CLOSE) as server:
        seen = doctor(server.url())
    assert (seen.code, seen.problems) == (4, ["poll"])
    assert seen.level["meaning"] == "skipped"


def test_server_that_never_replies_is_given_up_within_the_request_timeout(doctor, tmp_path):
    ini = tmp_path / "p.ini"
    with RawServer(HANG) as server:
        ini.write_text("[mine]\nurl = %s\nrequest_timeout = 100ms\n" % server.url("/jobs/{id}"))
        began = time.monotonic()
        seen = doctor("1", "--profile", "mine", "--profiles", str(ini))
    assert time.monotonic() - began < 5
    assert seen.problems == ["poll"]
    assert "within 0.1 s" in seen.text["poll"]


def test_handshake_that_hangs_is_given_up_within_the_request_timeout(doctor, tmp_path):
    ini = tmp_path / "p.ini"
    with RawServer(DONE, greeting=HANG) as server:
        ini.write_text(
            "[mine]\nurl = https://%s/{id}\nrequest_timeout = 100ms\n" % server.authority
        )
        seen = doctor("1", "--profile", "mine", "--profiles", str(ini))
    assert seen.problems == ["TLS"]
    assert "in time" in seen.text["TLS"]


# Proxies


def test_unreachable_proxy_is_named_with_its_variable(doctor, environment):
    with unused_address() as address:
        environment.setenv("HTTP_PROXY", "http://me:SECRET@" + address)
        seen = doctor("http://jobs.invalid/1")
    assert (seen.code, seen.problems) == (4, ["TCP"])
    assert seen.text["proxy"] == "http://***@%s, from HTTP_PROXY" % address
    assert "the proxy resolves jobs.invalid" in seen.text["DNS"]
    assert "the proxy at %s refused the connection" % address in seen.text["TCP"]
    assert "SECRET" not in seen.out


@pytest.mark.parametrize(
    "variables, words",
    [
        (
            {"http_proxy": "http://a.test:1", "no_proxy": "x.test,127.0.0.1"},
            "none: no_proxy has 127.0.0.1",
        ),
        ({"https_proxy": "http://a.test:1"}, "none: neither http_proxy nor all_proxy is set"),
    ],
)
def test_why_no_proxy_is_used(variables, words, doctor, environment):
    for name, value in variables.items():
        environment.setenv(name, value)
    with RawServer(DONE) as server:
        seen = doctor(server.url())
    assert (seen.code, seen.text["proxy"]) == (0, words)


@pytest.mark.parametrize(
    "names, chosen",
    [
        (["http_proxy", "HTTP_PROXY"], "http_proxy"),
        (["ALL_PROXY"], "ALL_PROXY"),
        (["all_proxy", "http_proxy"], "http_proxy"),
    ],
)
def test_variable_that_chose_the_proxy_is_named(names, chosen, doctor, environment):
    with RawServer(DONE) as proxy:
        for name in names:
            environment.setenv(name, "http://%s/%s" % (proxy.authority, name == chosen))
        seen = doctor("http://jobs.invalid/1")
    assert seen.text["proxy"].endswith("/True, from " + chosen)
    assert seen.code == 0


def test_setting_none_is_named(doctor, environment):
    environment.setenv("http_proxy", "http://a.test:1")
    with RawServer(DONE) as server:
        seen = doctor(server.url(), "--proxy", "none")
    assert seen.text["proxy"] == "none: as --proxy or the profile says"


def test_proxy_of_another_kind_is_a_problem(doctor, environment):
    environment.setenv("https_proxy", "socks5://me:SECRET@127.0.0.1:1")
    seen = doctor("https://jobs.invalid/1")
    assert (seen.code, seen.problems) == (4, ["proxy"])
    assert "SECRET" not in seen.out


def test_tunnel_is_a_separate_step(doctor):
    with tls_server(DONE) as server, RawServer(tunnel) as proxy:
        seen = doctor(server.url(), "--ca-file", CA, "--proxy", "http://" + proxy.authority)
    assert seen.code == 0
    assert seen.steps == TLS_STEPS[:3] + ["tunnel"] + TLS_STEPS[3:]
    assert seen.level["tunnel"] == "ok"


def test_refused_tunnel_is_a_problem(doctor):
    with RawServer(reply(b"", "403 Forbidden")) as proxy:
        seen = doctor("https://jobs.invalid/1", "--proxy", "http://" + proxy.authority)
    assert (seen.code, seen.problems) == (4, ["tunnel"])
    assert "403" in seen.text["tunnel"] and "no_proxy" in seen.text["tunnel"]


# TLS


@pytest.mark.parametrize("through_a_proxy", [False, True])
def test_unknown_ca_is_reported_with_its_issuer_and_the_trusted_cas(through_a_proxy, doctor):
    """The certificate is shown, but the request is not sent."""
    with tls_server(DONE) as server, RawServer(tunnel) as proxy:
        seen = doctor(
            server.url(), "--proxy", "http://" + proxy.authority if through_a_proxy else "none"
        )
        assert not server.requests
    assert (seen.code, seen.problems) == (4, ["TLS"])
    for words in (
        "was not accepted",
        "issued by pollkit test CA",
        "for localhost",
        "; trusted: ",
        "--ca-file",
    ):
        assert words in seen.text["TLS"]


def test_ca_file_in_use_is_named(doctor):
    own = os.path.join(os.path.dirname(CA), "client.pem")
    with tls_server(DONE) as server:
        seen = doctor(server.url(), "--ca-file", own)
    assert "; trusted: %s -> " % own in seen.text["TLS"]


def test_certificate_for_another_name_is_reported_with_its_names(doctor):
    with tls_server(DONE, certificate="elsewhere") as server:
        seen = doctor(server.url(), "--ca-file", CA)
    assert seen.problems == ["TLS"]
    assert "for elsewhere.test" in seen.text["TLS"]
    assert "another one than the URL names" in seen.text["TLS"]


def test_self_signed_certificate_is_reported(doctor):
    with tls_server(DONE, certificate="expired") as server:
        seen = doctor(server.url())
    assert seen.problems == ["TLS"]
    # Python 3.6 states no reason.
    assert re.search("self.signed certificate|verify failed", seen.text["TLS"])
    shown = "for localhost, issued by pollkit test, expired, valid until 2021-01-01"
    assert shown in seen.text["TLS"]


def test_expired_certificate_is_reported(doctor):
    own = os.path.join(os.path.dirname(CA), "expired.pem")
    with tls_server(DONE, certificate="expired") as server:
        seen = doctor(server.url(), "--ca-file", own)
        assert not server.requests
    assert (seen.code, seen.problems) == (4, ["TLS"])
    assert re.search("(has expired|verify failed.*); it is for localhost", seen.text["TLS"])
    assert "needs a new certificate" in seen.text["TLS"]


@pytest.mark.skipif(sys.version_info < (3, 7), reason="Python 3.6 gives no reason")
def test_ca_that_only_python_3_13_refuses_gets_its_own_advice(strict_rules, doctor, tmp_path):
    """The advice must not blame the CA file: it is the right one."""
    with tls_server(DONE, certificate="lax") as server:
        ini = "[mine]\nca_file = CA\n[lax]\nca_file = CA\ntls_strict = no\n".replace("CA", LAX_CA)
        (tmp_path / "mine.ini").write_text(ini)
        words = [server.url(), "--profiles", str(tmp_path / "mine.ini"), "--profile"]
        seen = doctor(*words, "mine")
        mended = doctor(*words, "lax")
    assert (seen.code, seen.problems) == (4, ["TLS"])
    assert "Python 3.13 and later check this" in seen.text["TLS"]
    assert "tls_strict = no" in seen.text["TLS"]
    assert "--ca-file" not in seen.text["TLS"]
    assert (mended.code, mended.problems) == (0, [])


def test_server_that_requires_a_client_certificate(doctor):
    """With TLS 1.3 the client learns this only when the poll is refused."""
    with tls_server(DONE, client_ca=CA) as server:
        seen = doctor(server.url(), "--ca-file", CA)
    assert seen.code == 4
    assert seen.problems in (["TLS"], ["poll"])
    assert "--client-cert" in seen.text[seen.problems[0]]


def test_server_without_tls_is_a_tls_problem(doctor):
    with RawServer(DONE, greeting=reply(b"", "400 Bad Request")) as server:
        seen = doctor("https://%s/1" % server.authority)
    assert seen.problems == ["TLS"]
    assert "does not speak TLS -> is it http://" in seen.text["TLS"]
