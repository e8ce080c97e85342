"""A job API in another process: `with JobServer() as server`.

Each path behaves in its own way, listed in `Handler.answers`. The server listens on two ports,
which are two origins. GET /log returns the requests so far.
"""

import gzip
import http.server
import json
import os
import socketserver
import struct
import threading
import time

from server_process import ServerProcess

MANY = 20 * 1024 * 1024  # bytes: more than pollkit reads


class JobServer(ServerProcess):
    """Each request in `log()` has port, method, path, headers and body."""

    SCRIPT = __file__


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers a request by its path; jobs of one behaviour have different numbers: /done/1."""

    protocol_version = "HTTP/1.1"
    log_lines = []
    counts = {}
    ports = []
    lock = threading.Lock()

    def do_GET(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length).decode()
        behaviour = self.path.split("/")[1]
        if behaviour == "log":
            self.reply(Handler.log_lines)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.lock:
            self.count = self.counts.get(self.path, 0)
            self.counts[self.path] = self.count + 1
            Handler.log_lines.append(
                {
                    "port": self.server.server_address[1],
                    "method": self.command,
                    "path": self.path,
                    "headers": headers,
                    "body": body,
                }
            )
        try:
            getattr(self, "answer_" + behaviour)()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_POST = do_GET
    do_HEAD = do_GET

    def reply(self, data, status=200, **headers):
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status not in (204, 304) and self.command != "HEAD":
            self.wfile.write(body)

    def send_raw(self, data):
        self.wfile.write(data)
        self.wfile.flush()
        self.close_connection = True

    def done(self):
        self.reply({"status": "done", "result": 7})

    def other(self, path):
        """The same path at the other origin."""
        (port,) = [port for port in self.ports if port != self.server.server_address[1]]
        return "http://127.0.0.1:%d%s" % (port, path)

    def answer_done(self):
        self.done()

    def answer_running(self):
        self.reply({"status": "running"}) if self.count < 2 else self.done()

    def answer_failed(self):
        self.reply({"status": "failed", "error": {"code": "E1", "message": "no such page"}})

    def answer_limited(self):
        if self.count:
            return self.done()
        return self.reply({"error": "slow down"}, 429, Retry_After="30")

    def answer_busy(self):
        self.reply(b"", 503) if self.count == 0 else self.done()

    def answer_missing(self):
        self.reply({"error": "unknown job"}, 404)

    def answer_html(self):
        self.reply(b"<html>log in</html>", Content_Type="text/html")

    def answer_moved(self):
        self.reply(b"", 302, Location="/done/moved")

    def answer_away(self):
        self.reply(b"", 302, Location=self.other("/done/away"))

    def answer_loop(self):
        self.reply(b"", 307, Location=self.path)

    def answer_chunked(self):
        self.send_raw(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b'9\r\n{"status"\r\n19\r\n: "done",     "result": 7\r\n1\r\n}\r\n0\r\n\r\n'
        )

    def answer_accepted(self):
        self.reply(b"", 202, Location="/running" + self.path)

    def answer_empty(self):
        self.reply(b"", 204) if self.count == 0 else self.done()

    def answer_tagged(self):
        if self.headers.get("If-None-Match") == '"v1"':
            return self.reply(b"", 304, ETag='"v1"') if self.count < 2 else self.done()
        return self.reply({"status": "running"}, ETag='"v1"')

    def answer_gzip(self):
        body = gzip.compress(b'{"status": "done", "result": 7}')
        self.reply(body, Content_Encoding="gzip")

    def answer_bomb(self):
        self.reply(gzip.compress(b" " * MANY), Content_Encoding="gzip")

    def answer_badgzip(self):
        self.reply(b"no gzip data", Content_Encoding="gzip")

    def answer_large(self):
        self.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % MANY)

    def answer_flood(self):
        self.send_raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n%s\r\n" % (b" " * 0x10000)
        for _ in range(MANY // 0x10000):
            self.wfile.write(piece)

    def answer_hang(self):
        time.sleep(60)

    def answer_drip(self):
        self.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.05)

    def answer_slowheaders(self):
        self.send_raw(b"HTTP/1.1 200 OK\r\n")
        for _ in range(1000):
            self.wfile.write(b"X: 1\r\n")
            self.wfile.flush()
            time.sleep(0.05)

    def answer_reset(self):
        option = struct.pack("ii", 1, 0)
        self.connection.setsockopt(1, 13, option)  # SOL_SOCKET, SO_LINGER on Linux
        self.close_connection = True
        self.connection.close()

    def answer_close(self):
        self.close_connection = True

    def answer_truncated(self):
        self.send_raw(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"status": "done"}')

    def answer_nohttp(self):
        self.send_raw(b"SSH-2.0-OpenSSH_9\r\n\r\n")

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


def main():
    servers = [Server(("127.0.0.1", 0), Handler) for _ in range(2)]
    Handler.ports = [server.server_address[1] for server in servers]
    print(json.dumps(Handler.ports), flush=True)
    threading.Thread(target=servers[1].serve_forever, daemon=True).start()
    servers[0].serve_forever()


if __name__ == "__main__":
    os.dup2(os.open(os.devnull, os.O_RDWR), 2)
    main()
