"""The corporate chain at once: a proxy with a login, CONNECT, a private CA, a client certificate.

squid and nginx are real, pollkit runs as a real process, and no secret may be seen anywhere: not in
its output, its files, or the command lines of its processes, which every user of the host can read.
"""

import base64
import json
import os
import subprocess
import sys

import pytest

from job_api import JobApi, done_after
from nginx_server import running_nginx
from paths import DATA, ROOT
from squid_proxy import running_squid
from tls_servers import CA, CLIENT_CERT, CLIENT_KEY

TOKEN = "t0ken-7f3a91"
PASSWORD = "n3trc-55e0b2"
PROXY_PASSWORD = "pr0xy-c81d44"
BASIC = base64.b64encode(("me:" + PASSWORD).encode()).decode()
SECRETS = [TOKEN, PASSWORD, PROXY_PASSWORD, BASIC]
SECRETS += [base64.b64encode(("corp:" + PROXY_PASSWORD).encode()).decode()]
SERVER = """
    map $http_authorization $is_known { "Bearer %s" 1; "Basic %s" 1; default 0; }
    server {
        listen 127.0.0.1:PORT ssl;
        ssl_certificate DATA/localhost.pem;
        ssl_certificate_key DATA/localhost.key;
        ssl_client_certificate DATA/ca.pem;
        ssl_verify_client on;
        location / {
            if ($is_known = 0) { return 401; }
            proxy_pass http://jobs;
        }
    }
""" % (TOKEN, BASIC)
SOURCES = {"environment": "bearer env:MY_TOKEN", "file": "bearer file:~/token", "netrc": "netrc"}
COMMANDS = {
    "wait": ["wait", "one"],
    "batch": ["batch", "one", "two", "three"],
    "run": ["run", "jobs.db", "--outbox", "outbox.jsonl"],
}


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """The URL of the API, and that of the proxy that leads to it."""
    folder = str(tmp_path_factory.mktemp("nginx"))
    with JobApi(done_after(2)) as api, running_nginx(
        api.url, folder, SERVER.replace("DATA", DATA)
    ) as nginx, running_squid("corp:" + PROXY_PASSWORD) as squid:
        api.url = nginx.url_of_name("https://localhost")
        yield api, "http://corp:%s@%s" % (PROXY_PASSWORD, squid)


@pytest.fixture
def corporate(chain, tmp_path):
    """A function that runs a command behind the chain: its exit code, stdout and stderr."""
    api, proxy = chain
    api.counts.clear()
    home = tmp_path / "home"
    home.mkdir()
    folder = tmp_path / "work"
    folder.mkdir()
    for name, text in (
        ("token", TOKEN),
        (".netrc", "machine localhost login me password %s" % PASSWORD),
    ):
        (home / name).write_text(text)
        (home / name).chmod(0o600)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": ROOT}
    env.update(https_proxy=proxy, MY_TOKEN=TOKEN, POLLKIT_PROFILES="mine.ini")

    def run(auth, *words, **settings):
        lines = {"ca_file": CA, "client_cert": CLIENT_CERT, "client_key": CLIENT_KEY}
        lines.update(url=api.url + "/jobs/{id}", auth=auth, pace="fixed 50ms", **settings)
        profile = "[corp]\n" + "".join("%s = %s\n" % line for line in lines.items())
        (folder / "mine.ini").write_text(profile)
        process = subprocess.Popen(
            [sys.executable, "-m", "pollkit"] + list(words),
            cwd=str(folder),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        seen = b""
        while process.poll() is None:
            seen += command_lines(process.pid)
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                pass
        out, err = process.communicate()
        written = b"".join(read(str(path)) for path in folder.iterdir())
        assert b"pollkit" in seen
        for secret in SECRETS:
            assert secret.encode() not in seen + out + err + written, secret
        return process.returncode, out.decode(), err.decode()

    return run


def command_lines(pid):
    """The command lines of a process and its children."""
    children = read("/proc/%d/task/%d/children" % (pid, pid)).split()
    return b"\n".join(read("/proc/%d/cmdline" % int(each)) for each in [pid] + children)


def read(path):
    """The content of a file; empty if it has gone, like that of a process that has ended."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


@pytest.mark.parametrize("command", list(COMMANDS))
@pytest.mark.parametrize("source", list(SOURCES))
def test_jobs_are_done_and_no_secret_is_seen(corporate, source, command):
    if command == "run":
        code, out, err = corporate(
            SOURCES[source], "add", "jobs.db", "one", "two", "--profile", "corp"
        )
        assert code == 0, err
    words = COMMANDS[command] + ["-vv", "--progress", "log"]
    if command != "run":
        words += ["--profile", "corp"]
    code, out, err = corporate(SOURCES[source], *words)
    assert code == 0, err
    assert all(json.loads(line)["state"] == "done" for line in out.splitlines())
    assert "poll 3" in err


@pytest.mark.parametrize("transport", ["builtin", "urllib", "curl"])
def test_every_transport_that_needs_no_installation_works(corporate, transport):
    words = ["wait", "one", "--profile", "corp", "-vv"]
    code, out, err = corporate("bearer file:~/token", *words, transport=transport)
    assert code == 0, err


def test_a_refused_credential_is_named_and_not_shown(corporate):
    code, out, err = corporate("basic file:~/token", "wait", "one", "--profile", "corp")
    assert code == 4
    assert "401: not authorised" in out
