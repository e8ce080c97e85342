"""Two processes on one ledger, and a real server that is stopped and started again."""

import http.server
import json
import signal
import socket
import socketserver
import threading

import pytest

from ledger_shell import lines_of, posix, profile, start, wait_for_exit
from pollkit import Ledger
from pollkit.cli import main
from raw_server import wait_for

pytestmark = [pytest.mark.usefixtures("place"), posix]
JOBS = ["job_%d" % i for i in range(60)]


class Server:
    """A job API on one port, which can be stopped and started again.

    It breaks off only after the last reply has been read: a late reply to a poll in flight would
    rightly end the outage that other polls have begun.
    """

    def __init__(self):
        self.status = "running"
        self.polls = 0
        self.port = 0
        self._one_reply = threading.Lock()
        self.start()

    def start(self):
        self._is_up = True
        self._is_closed = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                with outer._one_reply:
                    if outer._is_up:
                        self.reply()
                        return
                outer._is_closed.wait()

            def reply(self):
                outer.polls += 1
                body = json.dumps({"status": outer.status}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.connection.shutdown(socket.SHUT_WR)
                self.connection.recv(1)  # until the client has read the reply, and closes

            def log_message(self, *words):
                pass

        class Listener(socketserver.ThreadingMixIn, socketserver.TCPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 64

        self._server = Listener(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        with self._one_reply:
            self._is_up = False
        self._server.shutdown()
        self._server.server_close()
        self._is_closed.set()


@pytest.fixture
def server():
    server = Server()
    profile("http://127.0.0.1:%d" % server.port)
    assert main(["add", "jobs.db", "--profile", "fake", "--quiet"] + JOBS) == 0
    yield server
    server.stop()


def faults_in(ledger):
    return sum(counts.faults for counts in ledger.statistics.totals().values())


@pytest.mark.parametrize("is_killed", [False, True], ids=["both live", "one is killed"])
def test_processes_share_an_outage_and_resume_when_the_server_is_back(server, is_killed):
    runs = [start("run", "jobs.db", "--quiet", "--outbox", "out.jsonl") for _ in range(2)]
    with Ledger("jobs.db") as ledger:
        wait_for(lambda: server.polls > 200)
        assert faults_in(ledger) == 0
        server.stop()
        wait_for(lambda: ledger._outages.current())
        if is_killed:
            runs[0].kill()
            assert wait_for_exit(runs.pop(0))[0] == -signal.SIGKILL
        wait_for(lambda: ledger._outages.current()[0].failed_probes >= 3)
        assert faults_in(ledger) <= 2 * 8 + 5  # those in flight, and the probes
        server.status = "done"
        server.start()
        for run in runs:
            assert wait_for_exit(run)[0] == 0
        assert ledger._outages.current() == [] and len(ledger.outages(since=0.0)) == 1
    finished = [(line["id"], line["state"]) for line in lines_of("out.jsonl")]
    assert sorted(finished) == sorted((name, "done") for name in JOBS)


def test_runs_report_an_outage_once_and_once_more_when_it_is_over(server):
    """cron mails each line: not one per minute."""
    words = ["run", "jobs.db", "--outbox", "out.jsonl"]
    server.stop()
    code, _, err = wait_for_exit(start(*words, "--for", "3s"))
    origin = "http://127.0.0.1:%d" % server.port
    assert code == 0 and err.startswith("pollkit: %s has been down since " % origin)
    assert "127.0.0.1:%d refused the connection" % server.port in err
    assert err.endswith("; 60 jobs wait\n") and err.count("\n") == 1
    assert wait_for_exit(start(*words, "--for", "3s")) == (0, "", "")
    server.status = "done"
    server.start()
    code, _, err = wait_for_exit(start(*words), timeout=90)
    assert code == 0 and err.count("\n") == 1
    assert err.startswith("pollkit: %s is up again; it was down for " % origin)
    assert wait_for_exit(start(*words)) == (0, "", "")
    assert len(lines_of("out.jsonl")) == len(JOBS)
