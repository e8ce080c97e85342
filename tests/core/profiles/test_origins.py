"""The credentials of a profile are sent only to the origin of its URL and to those it lists."""

import json

import pytest

from pollkit import BatchPoller, ConfigError, Job, Ledger, Poller, Profile
from pollkit.core.profiles.origins import (
    check_credential_origin,
    credential_origins,
    is_internal,
    parse_origin,
)
from pollkit.edges.http.request import Request
from raw_server import RawServer, reply
from tls_servers import CA, tls_server

DONE = reply('{"status": "done"}')
TOKEN = "s3cr3t-token"
pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", TOKEN)


@pytest.fixture
def stranger():
    """A server that must receive no request."""
    with RawServer(DONE) as server:
        yield server
    assert server.accepted == 0


@pytest.fixture
def api():
    with RawServer(DONE) as server:
        yield server


SECRETS = {"auth": "auth = bearer env:MY_TOKEN\n", "header": "header.X-API-Key = %s\n" % TOKEN}


def profile_at(write, url, more="auth = bearer env:MY_TOKEN\n"):
    path = write("[mine]\nurl = %s\nproxy = none\n%s" % (url, more))
    return ["--profile", "mine", "--profiles", path]


# Jobs at another origin


@pytest.mark.parametrize("secret", list(SECRETS))
def test_wait_refuses_a_url_outside_the_profile_in_one_line(secret, stranger, write, pollkit):
    flags = profile_at(write, "http://api.internal/jobs/{id}", SECRETS[secret])
    code, out, err = pollkit("wait", stranger.url("/x"), *flags)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "the job at %s is outside http://api.internal" % stranger.url("/x") in err
    assert "add origins = %s to the profile" % stranger.origin in err
    assert TOKEN not in err


def test_batch_refuses_the_whole_list_before_any_request(api, stranger, write, pollkit):
    """The error names the line of the list."""
    jobs = write("job_1\n%s\njob_2\n" % stranger.url("/x"), "jobs.txt")
    code, out, err = pollkit("batch", jobs, *profile_at(write, api.url("/jobs/{id}")))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "%s, line 2: the job at %s is outside %s" % (jobs, stranger.url("/x"), api.origin) in err
    assert api.accepted == 0


def test_an_https_profile_sends_nothing_over_http(stranger, write, pollkit):
    """Not even to the same host and port."""
    url = "https://%s/jobs/{id}" % stranger.authority
    code, _, err = pollkit("wait", stranger.url("/x"), *profile_at(write, url))
    assert code == 2 and err.count("\n") == 1
    assert "are https, and so must the job's be" in err and "origins =" not in err


def test_run_names_such_a_job_and_polls_the_others(api, stranger, write, pollkit, tmp_path):
    flags = profile_at(write, api.url("/jobs/{id}"))
    path = str(tmp_path / "jobs.db")
    with Ledger(path) as ledger:  # an earlier version or a program may have added it
        evil = Job("evil", url=stranger.url("/x"), profile="mine")
        ledger.add([Job("job_1", profile="mine"), evil])
    code, _, err = pollkit("run", path, "--once", *flags)
    assert code == 2
    assert err.count("\n") == 1 and "evil: the job at %s is outside" % stranger.url("/x") in err
    with Ledger(path) as ledger:
        states = {row.job.id: row.state for row in ledger.jobs()}
    assert states == {"job_1": "done", "evil": "waiting"}
    assert [request.headers["authorization"] for request in api.requests] == ["Bearer " + TOKEN]


def test_without_a_base_the_origin_is_unknown(api, stranger, write, pollkit, tmp_path):
    """`add` accepts the job, because the base may be given to `run`."""
    flags = profile_at(write, "{base}/{id}")
    ledger = str(tmp_path / "jobs.db")
    assert pollkit("add", ledger, api.url("/x"), *flags)[0] == 0
    for words in (["wait", stranger.url("/x")], ["run", ledger, "--once"]):
        code, _, err = pollkit(*(words + flags))
        assert code == 2 and err.count("\n") == 1 and "give --base-url, or add origins = " in err
    assert pollkit("run", ledger, "--once", *(flags + ["--base-url", api.url("/v1")]))[0] == 0
    assert api.targets == ["/x"]


def test_doctor_reports_such_a_job_and_does_not_poll_it(api, write, pollkit):
    for more in SECRETS.values():
        flags = profile_at(write, "http://api.internal/{id}", more)
        code, out, _ = pollkit("doctor", api.url("/x"), *flags)
        assert code == 4
        assert "problem  credential  the job at %s is outside http://api.int" % api.url("/x") in out
    assert not api.requests


@pytest.mark.parametrize("driver", [Poller, BatchPoller])
def test_a_header_from_python_is_a_credential_if_its_name_is_that_of_a_secret(driver, stranger):
    def poll(headers):
        with driver(Profile(url="http://127.0.0.1:9/{id}"), headers=headers, timeout=0) as poller:
            if driver is BatchPoller:
                return poller.run([stranger.url()])
            return poller.poll(stranger.url())

    with pytest.raises(ConfigError, match="is outside http://127.0.0.1:9"):
        poll({"X-API-Key": TOKEN})


def test_the_transport_sends_no_credential_to_another_origin(stranger, new_transport):
    """A caller that does not check the URL first gets a fault."""
    transport = new_transport(url="http://api.internal/{id}", auth="bearer env:MY_TOKEN")
    fault = transport.fetch(Request(stranger.url(), stranger.origin))
    assert fault.final and "is outside http://api.internal" in fault.message


# Allowed origins


def test_a_listed_origin_gets_the_credential(api, write, pollkit):
    more = "auth = bearer env:MY_TOKEN\norigins = http://other.internal, %s\n" % api.origin
    flags = profile_at(write, "http://api.internal/{id}", more)
    code, out, _ = pollkit("wait", api.url("/x"), *flags)
    assert code == 0 and json.loads(out)["state"] == "done"
    assert api.requests[0].headers["authorization"] == "Bearer " + TOKEN


def test_a_profile_without_url_allows_any_origin_unless_it_lists_some(api, write, pollkit):
    cases = {"": 0, "origins = %s\n" % api.origin: 0, "origins = http://other.internal\n": 2}
    for more, code in cases.items():
        path = write("[mine]\nproxy = none\nauth = bearer env:MY_TOKEN\n" + more)
        assert pollkit("wait", api.url("/x"), "--profile", "mine", "--profiles", path)[0] == code
    assert [request.headers["authorization"] for request in api.requests] == ["Bearer " + TOKEN] * 2


def test_a_credential_without_a_profile_goes_to_the_jobs_own_origin(api, pollkit):
    assert pollkit("wait", api.url("/x"), "--token-env", "MY_TOKEN", "--proxy", "none")[0] == 0
    assert api.requests[0].headers["authorization"] == "Bearer " + TOKEN


def test_a_profile_without_credentials_allows_any_origin(api, write, pollkit):
    flags = profile_at(write, "https://api.internal/{id}", "header.X-Tenant = blue\n")
    assert pollkit("wait", api.url("/x"), *flags)[0] == 0
    assert api.requests[0].headers["x-tenant"] == "blue"


def test_token_env_with_a_profile_is_bound_like_its_own_credential(api, stranger, write, pollkit):
    flags = profile_at(write, api.url("/jobs/{id}"), "") + ["--token-env", "MY_TOKEN"]
    assert pollkit("wait", "job_1", *flags)[0] == 0
    assert pollkit("wait", stranger.url("/x"), *flags)[0] == 2


def test_base_url_decides_the_origin(api, stranger, write, pollkit):
    flags = profile_at(
        write, "{base}/jobs/{id}", "base = http://old.internal\nauth = bearer env:MY_TOKEN\n"
    )
    flags += ["--base-url", api.url("/v1")]
    assert pollkit("wait", "job_1", *flags)[0] == 0
    assert pollkit("wait", api.url("/elsewhere/2"), *flags)[0] == 0
    code, _, err = pollkit("wait", stranger.url("/x"), *flags)
    assert code == 2 and "is outside %s," % api.origin in err
    assert api.targets == ["/v1/jobs/job_1", "/elsewhere/2"]


def test_the_origin_of_batch_url_is_allowed(api):
    profile = Profile(
        url="http://127.0.0.1:9/{id}",
        batch_url=api.url("/many?ids={ids}"),
        auth="bearer env:MY_TOKEN",
        proxy="none",
    )
    api.answers = [reply('[{"id": "a", "status": "done"}]')]
    with BatchPoller(profile) as batch:
        assert [outcome.state for outcome in batch.run(["a"])] == ["done"]
    assert api.requests[0].headers["authorization"] == "Bearer " + TOKEN


def test_an_http_batch_url_beside_an_https_url_gets_no_credential(stranger):
    profile = Profile(
        url="https://127.0.0.1:9/{id}",
        batch_url=stranger.url("/many?ids={ids}"),
        auth="bearer env:MY_TOKEN",
        proxy="none",
    )
    with BatchPoller(profile) as batch, pytest.raises(ConfigError, match="so must the job's be"):
        batch.run(["a"])


def test_an_https_url_gets_its_credential_over_tls():
    with tls_server(DONE) as server:
        profile = Profile(
            url=server.url("/{id}"), auth="bearer env:MY_TOKEN", proxy="none", ca_file=CA
        )
        with Poller(profile) as poller:
            assert poller.poll(server.url("/by-url")).state == "done"
    assert server.requests[0].headers["authorization"] == "Bearer " + TOKEN


# The key `origins`


def test_an_http_origin_beside_an_https_url_is_refused(stranger, write, pollkit):
    flags = profile_at(
        write,
        "https://api.internal/{id}",
        "auth = bearer env:MY_TOKEN\norigins = %s\n" % stranger.origin,
    )
    for words in (["wait", stranger.url("/x")] + flags, ["profiles", "check", flags[-1]]):
        code, out, err = pollkit(*words)
        assert code == 2 and "origins has %s, but url is https" % stranger.origin in out + err
    with pytest.raises(ConfigError, match="but url is https"):
        Poller(Profile(url="https://api.internal/{id}", origins=(stranger.origin,)))


@pytest.mark.parametrize(
    "text, origin",
    [
        ("https://api.internal", "https://api.internal"),
        ("HTTPS://API.Internal:443/", "https://api.internal"),
        ("http://h:8080", "http://h:8080"),
        ("http://[::1]:80", "http://[::1]"),
        ("https://api.internal/v1", None),
        ("https://me:pw@h", None),
        ("https://h?x=1", None),
        ("https://h#x", None),
        ("*.internal", None),
        ("https://*.internal", None),
        ("https://{label}.internal", None),
        ("api.internal", None),
        ("ftp://h", None),
        ("https://", None),
        ("", None),
    ],
)
def test_an_origin_is_a_scheme_a_host_and_a_port(text, origin, write, pollkit):
    path = write("[mine]\norigins = %s\n" % text)
    code, out, err = pollkit("profiles", "check", path)
    if origin is None:
        with pytest.raises(ConfigError) as caught:
            parse_origin(text)
        assert "pw" not in str(caught.value) and "\n" not in str(caught.value)
        assert code == 2 and "origins" in out + err
    else:
        assert (code, parse_origin(text)) == (0, origin)


def test_printed_origins_parse_back_to_the_same(write, pollkit):
    path = write(
        "[mine]\nurl = http://a/{id}\norigins = https://B:443,\n  http://c:81/\n"
        "redirects = any\ntls_strict = no\n"
    )
    _, out, _ = pollkit("profiles", "show", "mine", "--profiles", path)
    for line in ("origins    = https://b, http://c:81", "redirects  = any", "tls_strict = no"):
        assert line in out
    assert pollkit("profiles", "check", write(out, "again.ini"))[0] == 0


@pytest.mark.parametrize(
    "line", ["redirects = sometimes", "tls_strict = off", "tls_strict = false"]
)
def test_other_values_are_mistakes(line, write, pollkit):
    code, out, err = pollkit("profiles", "check", write("[mine]\nurl = http://a/{id}\n%s\n" % line))
    assert code == 2 and line.split()[0] in out + err


@pytest.mark.parametrize(
    "settings",
    [
        {"redirects": "sometimes"},
        {"redirects": None},
        {"tls_strict": "no"},
        {"origins": None},
        {"origins": ["x"]},
    ],
)
def test_a_profile_from_python_has_the_same_checks(settings):
    with pytest.raises(ConfigError):
        Poller(Profile(**settings))


@pytest.mark.parametrize(
    "template, inside, outside",
    [
        (
            "https://{label}.api.internal/{id}",
            "https://eu.api.internal/1",
            "https://eu.api.internal.evil/1",
        ),
        (
            "https://{label}.api.internal/{id}",
            "https://eu.api.internal/1",
            "http://eu.api.internal/1",
        ),
        (
            "https://{label}.api.internal:8443/{id}",
            "https://eu.api.internal:8443/1",
            "https://eu.api.internal/1",
        ),
        ("http://[::1]:81/{id}", "http://[::1]:81/x", "http://[::1]/x"),
    ],
)
def test_a_placeholder_in_the_host_matches_any_text(template, inside, outside):
    origins = credential_origins(Profile(url=template))
    check_credential_origin(inside, origins)
    with pytest.raises(ConfigError, match="is outside http"):
        check_credential_origin(outside, origins)


@pytest.mark.parametrize(
    "host, expected",
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("x.localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("10.0.0.1", True),
        ("172.16.0.1", True),
        ("172.32.0.1", False),
        ("192.168.1.1", True),
        ("169.254.169.254", True),
        ("100.100.100.200", True),
        ("0.0.0.0", True),
        ("224.0.0.1", True),
        ("255.255.255.255", True),
        ("8.8.8.8", False),
        ("127.1", True),
        ("2130706433", True),
        ("0x7f000001", True),
        ("0177.0.0.1", True),
        ("1.2.3.0x4", True),
        ("::1", True),
        ("::", True),
        ("fe80::1%eth0", True),
        ("fc00::1", True),
        ("fec0::1", True),
        ("ff02::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:8.8.8.8", False),
        ("64:ff9b::7f00:1", True),
        ("64:ff9b::808:808", False),
        ("2002:7f00:1::", True),
        ("2002:808:808::", False),
        ("2606:4700::1111", False),
        ("example.com", False),
        ("1.example.com", False),
        ("7up", False),
        ("redis", False),
    ],
)
def test_internal_hosts_are_recognised_by_their_text(host, expected):
    assert is_internal(host) is expected
