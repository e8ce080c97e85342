"""A real HTTP server on port 0 that answers from a script, and notes when it was asked."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn


class ScriptedApi:
    """Answers each request with the next (status, headers, body) of its script; the last one repeats.

    `asked` holds (clock.now(), path, headers) of every request.
    """

    def __init__(self, script, clock=None):
        self.script, self.clock, self.asked = list(script), clock, []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                status, headers, body = api.script[min(len(api.asked), len(api.script) - 1)]
                api.asked.append(
                    (api.clock.now() if api.clock else None, self.path, dict(self.headers))
                )
                raw = (
                    body
                    if isinstance(body, bytes)
                    else b""
                    if body is None
                    else json.dumps(body).encode()
                )
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name, value.replace("HOST", "127.0.0.1:%d" % api.port))
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *args):
                pass

        class Server(ThreadingMixIn, HTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = "http://127.0.0.1:%d" % self.port

    def __enter__(self):
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self.thread.start()
        return self

    def __exit__(self, *exc_info):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def times(self):
        return [at for at, _, _ in self.asked]

    @property
    def paths(self):
        return [path for _, path, _ in self.asked]
