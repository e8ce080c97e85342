"""A job API in a separate process, which can be killed and started again at any time.

It stores nothing: the id of a job says how it ends and when, as in done_12.5_7 (done 12.5 s after
the start of the test) or failed_3_8.

usage: timed_jobs_server.py PORT STARTED_AT
"""

import json
import socketserver
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


class Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        name = self.path.rpartition("/")[2]
        ending, lasts_s = name.split("_")[:2]
        is_over = time.time() >= STARTED_AT + float(lasts_s)
        reply = {"status": ending if is_over else "running"}
        if reply["status"] == "done":
            reply["result"] = name
        if reply["status"] == "failed":
            reply["error"] = {"message": "made to fail"}
        body = json.dumps(reply).encode("ascii")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    STARTED_AT = float(sys.argv[2])
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
