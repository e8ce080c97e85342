"""Polls of a real nginx: private CA, client certificate, gzip, chunks, HTTP/1.0, redirects."""

import contextlib
import time

import pytest

from job_api import JobApi, done_after
from nginx_server import running_nginx
from paths import DATA
from pollkit import BatchPoller, Poller, Profile
from pollkit.edges.http.connections.connecting import TlsSettings
from pollkit.edges.http.connections.tls import tls_context
from tls_servers import CA, CLIENT_CERT, CLIENT_KEY

SERVERS = """
    limit_req_zone $binary_remote_addr zone=api:1m rate=20r/s;
    limit_req_zone $binary_remote_addr zone=plain:1m rate=20r/s;
    gzip on;
    gzip_proxied any;
    gzip_min_length 1;
    gzip_types application/json;
    server {
        listen 127.0.0.1:PORT;
        default_type application/json;
        location /jobs/ { proxy_pass http://jobs; proxy_http_version 1.0; proxy_buffering off; }
        location /brief/ { proxy_pass http://jobs/jobs/; keepalive_timeout 1s; }
        location /once/ { proxy_pass http://jobs/jobs/; keepalive_timeout 0; }
        location /moved/ { rewrite ^/moved/(.*) /jobs/$1 permanent; }
        location /found/ { return 302 /moved/x; }
        location /loop/ { return 302 /loop/; }
        location /captive/ { return 302 http://localhost:PORT/login; }
        location /login { default_type text/html; return 200 "<title>Sign in</title>"; }
        location /down/ { proxy_pass http://127.0.0.1:1; }
        location /limited/ {
            limit_req zone=api burst=5 nodelay;
            limit_req_status 429;
            proxy_pass http://jobs/jobs/;
        }
        location /limited-plainly/ {
            limit_req zone=plain burst=5 nodelay;
            proxy_pass http://jobs/jobs/;
        }
    }
"""
TLS = """
    server {
        listen 127.0.0.1:PORT ssl;
        ssl_certificate DATA/localhost.pem;
        ssl_certificate_key DATA/localhost.key;
        OPTIONS
        location / { proxy_pass http://jobs; }
    }
"""
MUTUAL = "ssl_client_certificate DATA/ca.pem; ssl_verify_client on;"
OLD = "ssl_protocols TLSv1 TLSv1.1; ssl_ciphers ALL:@SECLEVEL=0;"


@pytest.fixture(scope="module")
def api():
    with JobApi(done_after(2)) as api:
        yield api


@pytest.fixture(scope="module")
def start(api, tmp_path_factory):
    """A function that starts an nginx with these server blocks."""
    with contextlib.ExitStack() as stack:

        def start(servers):
            folder = str(tmp_path_factory.mktemp("nginx"))
            servers = servers.replace("DATA", DATA)
            return stack.enter_context(running_nginx(api.url, folder, servers))

        yield start


@pytest.fixture(scope="module")
def nginx(start):
    return start(SERVERS)


@pytest.fixture(scope="module")
def tls_url(start):
    """The URL of a job that only clients with a certificate may ask about."""
    return start(TLS.replace("OPTIONS", MUTUAL)).url_of_name("https://localhost") + "/jobs/tls"


def poll(url, **settings):
    settings = dict({"pace": "fixed 20ms", "retry": "fixed 20ms", "max_faults": 2}, **settings)
    with Poller(Profile(proxy="none", **settings), timeout=10) as poller:
        return poller.poll(url)


@pytest.mark.parametrize("path", ["/jobs/plain", "/brief/b", "/once/o", "/moved/m", "/found/f"])
def test_a_job_is_done_in_every_form_of_reply(nginx, path):
    """gzip, chunks after HTTP/1.0, connections that nginx closes, redirects."""
    assert poll(nginx.url + path).state == "done"


def test_a_connection_that_nginx_closes_after_a_second_is_replaced_unnoticed(nginx):
    with Poller(Profile(proxy="none"), pace="fixed 1200ms", timeout=10) as poller:
        outcome = poller.poll(nginx.url + "/brief/idle")
    assert (outcome.state, outcome.faults) == ("done", 0)


@pytest.mark.parametrize(
    "path, problem",
    [
        ("/loop/x", "redirected over"),
        ("/captive/x", "an HTML page instead of JSON, titled 'Sign in': a proxy or login page?"),
        ("/down/x", "the server answered 502, an HTML page instead of JSON, titled '502 Bad"),
        ("/nonesuch", "404: not found, an HTML page instead of JSON, titled '404 Not Found'"),
    ],
)
def test_an_error_of_nginx_is_named(nginx, path, problem):
    outcome = poll(nginx.url + path, not_found_grace=0)
    assert outcome.state == "unreachable"
    assert problem in outcome.error.message


@pytest.mark.parametrize("path", ["/limited/", "/limited-plainly/"])
def test_a_limit_is_kept_to_whether_it_refuses_with_429_or_503(nginx, path):
    profile = Profile(url=nginx.url + path + "{id}", proxy="none")
    began = time.monotonic()
    with BatchPoller(profile, pace="fixed 100ms", timeout=60) as batch:
        outcomes = batch.run(["limited%s-%d" % (path[1:-1], i) for i in range(12)])
    assert {outcome.state for outcome in outcomes} == {"done"}
    assert time.monotonic() - began < 30


def test_a_private_ca_and_a_client_certificate_are_used(tls_url):
    files = {"ca_file": CA, "client_cert": CLIENT_CERT, "client_key": CLIENT_KEY}
    assert poll(tls_url, **files).state == "done"


@pytest.mark.parametrize(
    "files, problem",
    [
        ({}, "the certificate of localhost"),
        ({"ca_file": CA}, "400, an HTML page instead of JSON, titled '400 No required SSL cert"),
    ],
)
def test_a_missing_certificate_is_named(tls_url, files, problem):
    outcome = poll(tls_url, **files)
    assert outcome.state == "unreachable"
    assert problem in outcome.error.message


@pytest.mark.parametrize("has_lax_client", [False, True])
def test_a_server_that_speaks_only_tls_1_1_is_refused(start, has_lax_client):
    """Also if OpenSSL is configured so that it would accept it."""
    nginx = start(TLS.replace("OPTIONS", OLD))
    tls_context.cache_clear()
    if has_lax_client:
        tls_context(TlsSettings(CA)).set_ciphers("ALL:@SECLEVEL=0")
    outcome = poll(nginx.url_of_name("https://localhost") + "/jobs/old", ca_file=CA)
    tls_context.cache_clear()
    assert outcome.state == "unreachable"
    assert "pollkit requires TLS 1.2 at least" in outcome.error.message
