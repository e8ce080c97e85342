"""A real job API on port 0, quick enough for thousands of polls: raw sockets, a thread a connection."""

import json
import re
import socket
import threading
import time

from pollkit import Profile

REQUEST = re.compile(rb"GET (\S+) HTTP/1.1\r\n")


class JobApi:
    """Answers /jobs/ID by what `answer(id, count)` gives: a status word, or (HTTP status, headers, data).

    `count` is how often this job was asked about before. `/many?ids=a,b` answers for several.
    Notes when each request came (`asked`), how many connections were ever opened at once, and what
    each of them was last asked for (`lasts`, by the address of the other end).
    """

    def __init__(self, answer):
        self.answer = answer
        self.asked, self.counts, self.lasts = [], {}, {}
        self.connections, self.most_connections = 0, 0
        self.lock = threading.Lock()
        self.sockets = set()
        self.server = socket.socket()
        self.server.bind(("127.0.0.1", 0))
        self.server.listen(128)
        self.url = "http://127.0.0.1:%d" % self.server.getsockname()[1]
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        with self.lock:
            for connection in self.sockets:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        for thread in self.threads:
            thread.join()

    def accept(self):
        while True:
            try:
                connection, peer = self.server.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.sockets.add(connection)
                self.lasts[peer] = ""
                self.connections += 1
                self.most_connections = max(self.most_connections, len(self.sockets))
            thread = threading.Thread(target=self.serve, args=(connection, peer))
            thread.start()
            self.threads.append(thread)

    def serve(self, connection, peer):
        try:
            while True:
                request = connection.recv(65536)
                if not request:
                    return
                self.lasts[peer] = REQUEST.match(request).group(1).decode()
                reply = self.reply(self.lasts[peer])
                if reply is None:  # a reset connection
                    connection.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0"
                    )
                    return
                connection.sendall(reply)
        except OSError:
            pass
        finally:
            with self.lock:
                self.sockets.discard(connection)
            connection.close()

    def reply(self, path):
        names = (
            path.rpartition("ids=")[2].split(",") if "ids=" in path else [path.rpartition("/")[2]]
        )
        with self.lock:
            self.asked.append((time.monotonic(), path))
            answers = []
            for name in names:
                count = self.counts.get(name, 0)
                self.counts[name] = count + 1
                answers.append((name, self.answer(name, count)))
        if "ids=" in path:
            said = [{"id": name, "status": word} for name, word in answers if isinstance(word, str)]
            return http(200, {}, {"items": said})
        answer = answers[0][1]
        if isinstance(answer, str):
            return http(200, {}, {"id": names[0], "status": answer, "result": names[0]})
        return answer and http(*answer)

    @property
    def times(self):
        return [at for at, _ in self.asked]


def http(status, headers, data):
    body = b"" if data is None else json.dumps(data).encode()
    lines = ["HTTP/1.1 %d X" % status, "Content-Length: %d" % len(body)] + [
        "%s: %s" % h for h in headers.items()
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def done_after(polls):
    """Jobs that are done when asked about for the given time."""
    return lambda name, count: "done" if count >= polls else "running"


def profile(api, **more):
    return Profile(url=api.url + "/jobs/{id}", proxy="none", **more)
