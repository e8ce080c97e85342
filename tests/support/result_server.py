"""A job API with results, in another process: `with ResultServer() as server`.

It listens on two ports, which are two origins. Jobs are at /jobs/ID. One whose id begins with r is
running until it is cancelled; any other is done, with links to the files and pages below. GET /log
returns the requests so far.
"""

import gzip
import http.server
import json
import socketserver
import threading
import time

from server_process import ServerProcess

SMALL = bytes(range(256)) * 1200  # 300 KB
LARGE = 50 * 1024 * 1024
ETAG = '"v1"'


class ResultServer(ServerProcess):
    """Each request in `log()` has method, path, range and authorization."""

    SCRIPT = __file__

    def paths(self):
        return [request["path"] for request in self.log()]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests = []
    counts = {}
    cancelled = set()

    def do_GET(self):
        if self.path == "/log":
            self.reply(200, json.dumps(self.requests).encode())
            return
        self.record()
        name = self.path.split("/")[1]
        getattr(self, "get_" + name)()

    def do_POST(self):
        self.record()
        if "silent" in self.path:
            time.sleep(60)
        if "stubborn" in self.path:
            self.reply(409, b'{"error": {"message": "it is too late"}}')
            return
        if "shaky" in self.path and self.counts[self.path] == 1:
            self.reply(503, b"{}")
            return
        self.cancelled.add(self.path.split("/")[2])
        self.reply(202, b'{"status": "cancelled"}')

    do_DELETE = do_POST

    def record(self):
        self.count = self.counts[self.path] = self.counts.get(self.path, 0) + 1
        self.requests.append(
            {
                "method": self.command,
                "path": self.path,
                "range": self.headers.get("Range"),
                "authorization": self.headers.get("Authorization"),
            }
        )

    def get_jobs(self):
        name = self.path.split("/")[2]
        status = "running" if name.startswith("r") else "done"
        if name in self.cancelled:
            if name.startswith("rgone"):
                self.reply(404, b"{}")
                return
            status = "cancelled"
        data = {"id": name, "status": status, "result": {"of": name}}
        for link in ("small", "cut", "stubborn", "large", "stall", "flaky", "secured", "login"):
            data[link] = "/%s/%s" % (link, name)
        data["pages"] = "/pages/1"
        data["elsewhere"] = self.server.other_origin + "/small/" + name
        data["locked"] = self.server.other_origin + "/secured/" + name
        data["redirected"] = "/redirect/" + name
        data["signed"] = "/signed/%d" % self.count
        self.reply(200, json.dumps(data).encode())

    def get_small(self):
        self.send_part(SMALL)

    def get_cut(self):
        """The first two answers are cut."""
        self.send_part(SMALL, cut=self.count <= 2)

    def get_stubborn(self):
        """The first answer is cut, and no answer is a part."""
        self.send_part(SMALL, cut=self.count <= 1, ranges=False)

    def get_stall(self):
        """The first answer stops in the middle and never continues."""
        self.send_part(SMALL, stall=self.count <= 1)

    def get_large(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        block = b"x" * 65536
        for _ in range(LARGE // len(block)):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))
        self.wfile.write(b"0\r\n\r\n")

    def get_bomb(self):
        """40 KB of gzip data that nobody asked for: 40 MB of zeros."""
        packed = gzip.compress(bytes(40 * 1024 * 1024))
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", "%d" % len(packed))
        self.end_headers()
        self.wfile.write(packed)

    def get_steady(self):
        """A body that takes a second, and no parts."""
        self.send_response(200)
        self.send_header("Content-Length", "%d" % len(SMALL))
        self.end_headers()
        tenth = len(SMALL) // 10
        for start in range(0, len(SMALL), tenth):
            self.wfile.write(SMALL[start : start + tenth])
            self.wfile.flush()
            time.sleep(0.1)

    def get_flaky(self):
        if self.count <= 2:
            self.reply(500, b"{}")
        else:
            self.reply(200, b'{"items": [1, 2]}')

    def get_secured(self):
        if self.headers.get("Authorization") is None:
            self.reply(401, b"{}")
        else:
            self.reply(200, b'"secret report"')

    def get_signed(self):
        """Only the third link works: the earlier ones have expired."""
        number = int(self.path.split("/")[2])
        self.reply(*((200, b"[3]") if number >= 3 else (500, b"{}")))

    def get_login(self):
        self.reply(200, b"<html>log in</html>", "text/html")

    def get_redirect(self):
        self.send_response(302)
        self.send_header("Location", self.server.other_origin + "/small/" + self.path.split("/")[2])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def get_pages(self):
        number = int(self.path.split("/")[2])
        data = {"items": [number * 10, number * 10 + 1]}
        if number < 3:
            data["next"] = "/pages/%d" % (number + 1)
        self.reply(200, json.dumps(data).encode())

    def get_linked(self):
        number = int(self.path.split("/")[2])
        link = '</linked/1>; rel="first"'
        if number < 3:
            link = '</linked/%d>; rel="next", %s' % (number + 1, link)
        self.reply(200, json.dumps([number]).encode(), link=link)

    def get_loop(self):
        self.reply(200, json.dumps({"items": [1], "next": self.path}).encode())

    def get_list(self):
        items = [{"id": name, "status": "done", "small": "/small/" + name} for name in "abc"]
        self.reply(200, json.dumps({"items": items}).encode())

    def send_part(self, body, cut=False, ranges=True, stall=False):
        """Send a body, or the part that the request asks for."""
        wanted = self.headers.get("Range") if ranges else None
        start = 0
        if wanted and self.headers.get("If-Range") == ETAG:
            start = int(wanted[len("bytes=") : -1])
            self.send_response(206)
            self.send_header("Content-Range", "bytes %d-%d/%d" % (start, len(body) - 1, len(body)))
        else:
            self.send_response(200)
        self.send_header("ETag", ETAG)
        self.send_header("Content-Length", "%d" % (len(body) - start))
        self.end_headers()
        end = start + (len(body) - start) // 2 if cut or stall else len(body)
        self.wfile.write(body[start:end])
        self.wfile.flush()
        if stall:
            time.sleep(60)
        if cut:
            self.close_connection = True

    def reply(self, status, body, content_type="application/json", link=None):
        self.send_response(status)
        if link is not None:
            self.send_header("Link", link)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", "%d" % len(body))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignore clients that close their connection early."""


def main():
    servers = [Server(("127.0.0.1", 0), Handler) for _ in range(2)]
    for server, other in zip(servers, reversed(servers)):
        server.other_origin = "http://127.0.0.1:%d" % other.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps([server.server_port for server in servers]), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
