"""A real nginx on a free port, in front of a job API."""

import os
from contextlib import contextmanager

from programs import running_server

# The log has one status per line.
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
    upstream jobs {
        server %(upstream)s;
        keepalive 32;
    }
    %(servers)s
}
"""
# Without limit_req_status nginx refuses requests with 503.
LIMITED = """
    limit_req_zone $binary_remote_addr zone=api:1m rate=%(rate)s;
    server {
        listen 127.0.0.1:PORT;
        location / {
            limit_req zone=api %(burst)s;
            proxy_pass http://jobs;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
"""


class Nginx:
    """The address of nginx, and the statuses that it answered with."""

    def __init__(self, folder, port):
        self.url = "http://127.0.0.1:%d" % port
        self._port = port
        self._log = os.path.join(folder, "access.log")

    def url_of_name(self, name):
        """Its URL with this scheme and host name."""
        return "%s:%d" % (name, self._port)

    @property
    def statuses(self):
        """The HTTP status of every reply so far."""
        with open(self._log) as file:
            return [int(line) for line in file]


def nginx_before(upstream, folder, rate, burst=""):
    """A running nginx in front of a URL: it forwards `rate` requests (10r/s) and refuses others."""
    return running_nginx(upstream, folder, LIMITED % {"rate": rate, "burst": burst})


@contextmanager
def running_nginx(upstream, folder, servers):
    """A running nginx with these server blocks, whose PORT is replaced, in front of a URL."""

    def command_for(program, port):
        configuration = os.path.join(folder, "nginx.conf")
        with open(configuration, "w") as file:
            file.write(
                CONFIGURATION
                % {
                    "servers": servers.replace("PORT", str(port)),
                    "upstream": upstream.partition("//")[2],
                }
            )
        return [program, "-p", folder, "-c", configuration, "-e", "error.log"]

    with running_server("nginx", command_for) as port:
        yield Nginx(folder, port)
