"""A job API in another process that holds requests: `with HoldingServer() as server`.

The id of a job says when it is done, in seconds since the first request about it, as in done_2.5_1.
Each first part of a path is an API with its own way to hold; see `Handler.APIS`. GET
/log returns the requests so far, and GET /reset forgets them and the jobs.
"""

import http.server
import json
import re
import socketserver
import time

from server_process import ServerProcess

CUT_S = 1.5  # after which the gateways cut a request; what takes less than 1 s was not held


class HoldingServer(ServerProcess):
    """Each request in `log()` has at, method, path, prefer, body and how long it was held."""

    SCRIPT = __file__

    def finished_log(self):
        """The requests, once all were answered: the server notes that after its last byte."""
        give_up_at = time.monotonic() + 10
        log = self.log()
        while any(one["held_s"] is None for one in log) and time.monotonic() < give_up_at:
            time.sleep(0.01)
            log = self.log()
        return log


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    started_at = time.monotonic()
    log_lines = []
    first_asked_at = {}  # by the id of a job

    def do_GET(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == "/log":
            self.reply(200, self.log_lines)
            return
        if self.path == "/reset":
            self.log_lines.clear()
            self.first_asked_at.clear()
            self.reply(200, [])
            return
        line = {
            "at": time.monotonic() - self.started_at,
            "method": self.command,
            "path": self.path,
            "prefer": self.headers.get("Prefer"),
            "body": self.body,
            "held_s": None,  # while it is held
        }
        self.log_lines.append(line)
        began_at = time.monotonic()
        self.APIS[self.path.split("/")[1]](self)
        line["held_s"] = time.monotonic() - began_at

    do_POST = do_GET

    # How the jobs are

    def seconds_left(self):
        job_id, lasts_s = re.search(r"(done_([0-9.]+)_[0-9]+)", self.path).groups()
        began_at = self.first_asked_at.setdefault(job_id, time.monotonic())
        return began_at + float(lasts_s) - time.monotonic()

    def hold(self, seconds):
        """Hold the request until the job is done, or for some seconds."""
        time.sleep(max(0.0, min(seconds, self.seconds_left())))

    def preferred_s(self):
        match = re.search("wait=([0-9]+)", self.headers.get("Prefer") or "")
        return float(match.group(1)) if match else 0.0

    def reply_status(self, headers=()):
        is_done = self.seconds_left() <= 0
        data = {"status": "done", "result": 42} if is_done else {"status": "running"}
        self.reply(200, data, headers)

    def reply(self, status, data, headers=()):
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    # The APIs

    def prefer(self):
        """RFC 7240: Prefer: wait=25."""
        self.hold(self.preferred_s())
        self.reply_status()

    def consul(self):
        """Holds a request that has the current index; without a time, or with 0s, for minutes."""
        index = "8" if self.seconds_left() <= 0 else "7"
        has_index = re.search(r"index=([0-9]+)", self.path)
        if has_index and has_index.group(1) == index:
            asked = re.search(r"wait=([0-9]+)s", self.path)
            self.hold(float(asked.group(1) if asked else 0) or 300.0)
        index = "8" if self.seconds_left() <= 0 else "7"
        self.reply_status([("X-Consul-Index", index)])

    def google(self):
        """POST .../operations/ID:wait?timeout=25s."""
        if ":wait" in self.path:
            assert self.command == "POST"
            self.hold(float(re.search(r"timeout=([0-9]+)s", self.path).group(1)))
        data = {"name": "operations/1", "metadata": {}}
        if self.seconds_left() <= 0:
            data.update(done=True, response={"answer": 42})
        self.reply(200, data)

    def body_api(self):
        """POST with the time in a JSON body."""
        self.hold(json.loads(self.body)["wait_ms"] / 1000)
        self.reply_status()

    def ignoring(self):
        """Never holds a request."""
        self.reply_status()

    def gateway(self):
        """Holds requests, but a gateway replies 504 in its place."""
        self.hold(min(self.preferred_s(), CUT_S))
        if self.preferred_s() > CUT_S and self.seconds_left() > 0:
            self.reply(504, {"error": "gateway timeout"})
        else:
            self.reply_status()

    def cutting(self):
        """Holds requests, but a gateway cuts the connection."""
        self.hold(min(self.preferred_s(), CUT_S))
        if self.preferred_s() > CUT_S and self.seconds_left() > 0:
            self.close_connection = True
        else:
            self.reply_status()

    def unsupported(self):
        """Has no :wait, as some of Google's services."""
        if ":wait" in self.path:
            self.reply(501, {"error": {"status": "UNIMPLEMENTED"}})
        else:
            self.reply_status()

    def endless(self):
        """Holds requests for longer than asked."""
        if self.preferred_s():
            self.hold(300.0)
        self.reply_status()

    APIS = {
        "prefer": prefer,
        "consul": consul,
        "google": google,
        "body": body_api,
        "ignoring": ignoring,
        "gateway": gateway,
        "cutting": cutting,
        "unsupported": unsupported,
        "endless": endless,
    }

    def log_message(self, *arguments):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print([server.server_address[1]], flush=True)
    server.serve_forever()
