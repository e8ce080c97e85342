"""Every transport behind a real squid that asks for a user name and password."""

import contextlib
import os
import shutil
import socket
import tempfile

import pytest

from pollkit import Profile
from pollkit.core.model import FaultCode
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from programs import running_server
from raw_server import RawServer, redirect, reply
from tls_servers import CA, tls_server
from transports import NAMES, adapter_for

DONE = reply('{"status": "done"}')
SETTINGS = """
http_port 127.0.0.1:{port}
auth_param basic program {folder}/check
auth_param basic children 1
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
cache deny all
access_log none
cache_log {folder}/log
pid_filename {folder}/pid
coredump_dir {folder}
shutdown_lifetime 0 seconds
visible_hostname localhost
max_filedescriptors 1024
"""
CHECK = """#!/bin/sh
while read user password rest; do
    if [ "$user $password" = "user pass" ]; then echo OK; else echo ERR; fi
done
"""


@pytest.fixture(scope="module")
def squid():
    """The authority of a running squid that wants user:pass."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o777)  # squid gives up its rights if it is started by root
    with open(os.path.join(folder, "check"), "w") as file:
        file.write(CHECK)
    os.chmod(file.name, 0o755)

    def command_for(program, port):
        path = os.path.join(folder, "conf")
        with open(path, "w") as file:
            file.write(SETTINGS.format(port=port, folder=folder))
        return [program, "-N", "-f", path]

    try:
        with running_server("squid", command_for) as port:
            yield "127.0.0.1:%d" % port
    finally:
        shutil.rmtree(folder)


@pytest.fixture(params=NAMES)
def fetch(request, environment):
    """A function that sends one request through a proxy, with each transport in turn."""
    adapter = adapter_for(request.param)

    def fetch(url, proxy, headers=None):
        profile = Profile(proxy=proxy, ca_file=CA, request_timeout=10.0)
        transport = Transport(profile, headers, adapter)
        return transport.fetch(Request(url, transport.check(url)))

    return fetch


@pytest.mark.parametrize("start", [RawServer, tls_server])
def test_squid_forwards_and_tunnels(start, squid, fetch):
    with start(redirect("/there"), DONE) as server:
        got = fetch(server.url(), "http://user:pass@" + squid, {"X-API-Key": "k"})
    assert (got.status, got.body) == (200, b'{"status": "done"}')
    for request in server.requests:
        assert request.headers["x-api-key"] == "k"
        assert "proxy-authorization" not in request.headers
    assert server.targets == ["/jobs/1", "/there"]


@pytest.mark.parametrize("start", [RawServer, tls_server])
@pytest.mark.parametrize("login", ["", "user:wrong@"])
def test_squid_refuses_a_wrong_login(start, login, squid, fetch):
    with start(DONE) as server:
        fault = fetch(server.url(), "http://" + login + squid)
    assert (fault.code, fault.final) == (FaultCode.PROXY, True), fault
    assert fault.message == "the proxy at %s refused: 407" % squid
    assert "wrong" not in str(fault)
    assert not server.requests


def test_squid_cannot_reach_the_origin(squid, fetch):
    with contextlib.closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        url = "https://127.0.0.1:%d/jobs/1" % unused.getsockname()[1]
        fault = fetch(url, "http://user:pass@" + squid)
    assert fault.code is FaultCode.PROXY
    assert "refused a tunnel to 127.0.0.1" in fault.message
