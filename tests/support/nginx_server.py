"""A real nginx on a free port, with limit_req, in front of a job API."""

import os
import shutil
import socket
import subprocess
import time
from contextlib import closing, contextmanager

import pytest

# Without limit_req_status nginx refuses requests with 503. The log has one status per line.
CONFIGURATION = """
daemon off;
master_process off;
error_log error.log crit;
pid nginx.pid;
events { worker_connections 512; }
http {
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    log_format status "$status";
    access_log access.log status;
    limit_req_zone $binary_remote_addr zone=api:1m rate=%(rate)s;
    upstream jobs {
        server %(upstream)s;
        keepalive 32;
    }
    server {
        listen 127.0.0.1:%(port)d;
        location / {
            limit_req zone=api %(burst)s;
            proxy_pass http://jobs;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
"""


class Nginx:
    """The address of nginx, and the statuses that it answered with."""

    def __init__(self, folder, port):
        self.url = "http://127.0.0.1:%d" % port
        self._log = os.path.join(folder, "access.log")

    @property
    def statuses(self):
        """The HTTP status of every reply so far."""
        with open(self._log) as file:
            return [int(line) for line in file]


@contextmanager
def nginx_before(upstream, folder, rate, burst=""):
    """A running nginx in front of a URL: it forwards `rate` requests (10r/s) and refuses others."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        assert os.environ.get("CI") != "true", "CI must have nginx: see .ci/run"
        pytest.skip("nginx is not installed")
    for _ in range(5):  # another process may take the free port before nginx does
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        configuration = os.path.join(folder, "nginx.conf")
        with open(configuration, "w") as file:
            file.write(
                CONFIGURATION
                % {
                    "rate": rate,
                    "burst": burst,
                    "port": port,
                    "upstream": upstream.partition("//")[2],
                }
            )
        command = [program, "-p", folder, "-c", configuration, "-e", "error.log"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            if _listens(port, process):
                yield Nginx(folder, port)
                return
        finally:
            process.terminate()
            process.wait(10)
    pytest.fail("nginx does not start")


def _listens(port, process):
    """Whether nginx accepts connections, once it has had time to start."""
    for _ in range(1000):
        if process.poll() is not None:
            return False
        try:
            socket.create_connection(("127.0.0.1", port), 10).close()
            return True
        except OSError:
            time.sleep(0.01)
    return False
