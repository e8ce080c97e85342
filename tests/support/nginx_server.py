"""A real nginx on a free port, with limit_req, in front of a job API."""

import os
from contextlib import contextmanager

from programs import running_server

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

    def command_for(program, port):
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
        return [program, "-p", folder, "-c", configuration, "-e", "error.log"]

    with running_server("nginx", command_for) as port:
        yield Nginx(folder, port)
