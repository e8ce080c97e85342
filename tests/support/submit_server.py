"""A job API in another process that counts submissions: `with SubmitServer() as server`.

POST /submit creates a job, unless its Idempotency-Key is known. The query chooses how it answers:

    how=ok|drop|503|html|noid|location|operation|see|done|failed|refuse|conflict|limit|early|...
    delay=S     answers so many seconds after the job was created
    before=S    creates the job so many seconds after the request has come

A job is done as soon as it is polled. GET /find?key=K lists the jobs with this key; GET /log
returns {"jobs": [[id, key, body], ...], "requests": [{...}, ...]}.
"""

import http.server
import json
import socketserver
import threading
import time
from urllib.parse import parse_qs, urlsplit

from server_process import ServerProcess


class SubmitServer(ServerProcess):
    """`log()` has the jobs and the requests."""

    SCRIPT = __file__

    def jobs(self):
        """The jobs that were created: [id, key, body] each."""
        return self.log()["jobs"]

    def count(self, body):
        """How many jobs were created with this body."""
        return sum(job[2] == body for job in self.jobs())

    def requests(self, method):
        return [each for each in self.log()["requests"] if each["method"] == method]

    def profile(self, how="ok", more=""):
        """A profile of this API as INI text."""
        return (
            "[counted]\nurl = {0}/jobs/{{id}}\nsubmit_url = {0}/submit?how={1}\nstatus = status\n"
            "result = result\nproxy = none\npace = fixed 20ms\nretry = fixed 20ms\n{2}\n"
        ).format(self.origin, how, more)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    jobs = []
    requests = []
    counts = {}
    ports = []

    def do_GET(self):
        body = self.note()
        path = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(path.query).items()}
        if path.path == "/log":
            self.reply({"jobs": self.jobs, "requests": self.requests})
        elif path.path == "/find":
            found = [job for job in self.jobs if job[1] == query["key"]]
            self.reply({"items": [{"id": job[0]} for job in found]})
        elif path.path.startswith("/jobs/"):
            name = path.path.rpartition("/")[2]
            known = [job for job in self.jobs if job[0] == name]
            if known:
                self.reply({"status": "done", "result": known[0][2]})
            else:
                self.reply({"error": "there is no such job"}, 404)
        elif path.path == "/broken":
            self.reply({"error": "out of order"}, 500)
        else:
            self.submit(body, query)

    do_POST = do_GET
    do_PUT = do_GET

    def note(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path != "/log":
            headers = {name.lower(): value for name, value in self.headers.items()}
            line = {
                "port": self.server.server_address[1],
                "method": self.command,
                "path": self.path,
                "headers": headers,
                "body": body,
            }
            with self.lock:
                self.requests.append(line)
        return body

    def submit(self, body, query):
        how = query.get("how", "ok")
        with self.lock:
            count = self.counts[self.path] = self.counts.get(self.path, 0) + 1
        early = {
            "refuse": (422, {"error": {"code": "bad-pages", "message": "pages must be a number"}}),
            "unauthorised": (401, {"error": "bad token"}),
            "early": (425, {"error": "too early"}),
            "limit": (429, {"error": "slow down"}),
        }
        is_first = count == 1
        if how in early and (is_first or how in ("refuse", "unauthorised")):
            status, data = early[how]
            self.reply(data, status, **({"Retry-After": "1"} if status == 429 else {}))
            return
        if how in ("307", "302"):
            self.reply({}, int(how), Location="http://127.0.0.1:%d/submit" % self.ports[1])
            return
        time.sleep(float(query.get("before", 0)))
        name = self.create(self.headers.get("Idempotency-Key") or query.get("key", ""), body)
        time.sleep(float(query.get("delay", 0)))
        self.answer(how, name, is_first)

    def create(self, key, body):
        """A new job, or the one that has the key already."""
        is_lookup_only = "lookup" in self.path
        with self.lock:
            for name, known_key, _ in self.jobs:
                if key and known_key == key and not is_lookup_only:
                    return name
            name = "job_%d" % (len(self.jobs) + 1)
            self.jobs.append([name, key, json.loads(body) if body else None])
            return name

    def answer(self, how, name, is_first):
        link = "http://127.0.0.1:%d/jobs/%s" % (self.ports[0], name)
        if how in ("drop", "drop-once") and (is_first or how == "drop"):
            self.close_connection = True
        elif how in ("503", "503-once") and (is_first or how == "503"):
            self.reply({"error": "overloaded"}, 503, **{"Retry-After": "1"})
        elif how == "html":
            self.reply("<html>please log in</html>", content_type="text/html")
        elif how == "noid":
            self.reply({"message": "thank you", "queue": 7})
        elif how == "location":
            self.reply(None, 202, Location="/jobs/" + name)
        elif how == "operation":
            self.reply({}, 202, **{"Operation-Location": link})
        elif how == "see":
            self.reply(None, 303, Location=link)
        elif how == "elsewhere":
            self.reply(None, 202, Location=link.replace(str(self.ports[0]), str(self.ports[1])))
        elif how == "link":
            self.reply({"urls": {"get": link}}, 201)
        elif how == "done":
            self.reply({"id": name, "status": "done", "result": "at once"})
        elif how == "failed":
            self.reply({"id": name, "status": "failed", "error": {"message": "no pages"}})
        elif how == "result":
            self.reply({"area": 12})
        else:
            self.reply({"id": name, "status": "queued"}, 202)

    def reply(self, data, status=200, content_type="application/json", **headers):
        body = b"" if data is None else json.dumps(data).encode()
        if isinstance(data, str):
            body = data.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Clients are killed."""


def main():
    servers = [Server(("127.0.0.1", 0), Handler) for _ in range(2)]
    Handler.ports[:] = [server.server_address[1] for server in servers]
    threading.Thread(target=servers[1].serve_forever, daemon=True).start()
    print(json.dumps(Handler.ports), flush=True)
    servers[0].serve_forever()


if __name__ == "__main__":
    main()
