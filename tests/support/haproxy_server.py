"""A real haproxy on a free port, with a stick table that counts requests, before a job API."""

import contextlib
import os

from programs import running_server

# A client that sends over `most` requests within `period` gets 429, and each refused request
# counts, too: a client that does not slow down is never served again.
CONFIGURATION = """
global
    maxconn 500
    stats socket {folder}/socket mode 600
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    timeout http-keep-alive 10s
frontend api
    bind 127.0.0.1:{port}
    stick-table type ip size 100 expire 1h store http_req_rate({period}),http_req_cnt,gpc0
    http-request track-sc0 src
    acl is_over sc0_http_req_rate gt {most}
    http-request sc-inc-gpc0(0) if is_over
    http-request return status 429 content-type text/html string "<html><title>Slow down</title>" \
hdr Retry-After "{retry_after}" if is_over
    default_backend jobs
backend jobs
    server one {upstream}
"""


class Haproxy:
    """The address of haproxy, and its count of refused requests."""

    def __init__(self, folder, port):
        self.url = "http://127.0.0.1:%d" % port
        self._socket = os.path.join(folder, "socket")

    def counts(self):
        """The number of requests, and of those it refused, from the stick table."""
        import socket

        with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
            client.connect(self._socket)
            client.sendall(b"show table api\n")
            text = b""
            while True:
                more = client.recv(65536)
                if not more:
                    break
                text += more
        fields = dict(word.split("=") for word in text.decode("ascii").split() if "=" in word)
        return int(fields["http_req_cnt"]), int(fields["gpc0"])


@contextlib.contextmanager
def haproxy_before(upstream, folder, most, period, retry_after):
    """A running haproxy before a URL; `retry_after` may be a log format of haproxy."""

    def command_for(program, port):
        path = os.path.join(folder, "haproxy.cfg")
        with open(path, "w") as file:
            file.write(
                CONFIGURATION.format(
                    folder=folder,
                    port=port,
                    most=most,
                    period=period,
                    retry_after=retry_after,
                    upstream=upstream.partition("//")[2],
                )
            )
        return [program, "-f", path, "-db"]

    with running_server("haproxy", command_for) as port:
        yield Haproxy(folder, port)
