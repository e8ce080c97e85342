"""A job API whose answers a test chooses per job and poll; real sockets, see raw_server."""

import json
import threading
import time

from pollkit import Profile
from raw_server import RawServer, reply


class JobApi:
    """Answers /jobs/ID with `answer(id, count)`; `count` is the number of earlier polls.

    An answer is a status word, (HTTP status, headers, data), or None to reset the connection.
    `/many?ids=a,b` returns several jobs. The API records the instant and path of each request
    (`asked`), the polls per job (`counts`), and the last path requested on each connection
    (`lasts`, by the client's address).
    """

    def __init__(self, answer):
        self.answer = answer
        self.asked = []
        self.counts = {}
        self.lasts = {}
        self.lock = threading.Lock()
        self._server = RawServer(self._serve, greeting=self._accept)
        self.port = self._server.port
        self.url = self._server.url("")

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self._server.close()

    @property
    def connections(self):
        """The number of connections that were ever opened."""
        return self._server.accepted

    @property
    def open(self):
        """The number of connections that are open."""
        return self._server.open

    @property
    def times(self):
        return [at for at, _ in self.asked]

    def _accept(self, connection, request):
        self.lasts[connection.sock.getpeername()] = ""

    def _serve(self, connection, request):
        self._server.requests.clear()  # thousands of them would fill the memory
        self.lasts[connection.sock.getpeername()] = request.target
        data = self.reply(request.target)
        if data is None:
            connection.reset()
        else:
            connection.send(data)

    def reply(self, path):
        """The reply to a request, as bytes; None resets the connection."""
        _, has_many, ids = path.rpartition("ids=")
        names = ids.split(",") if has_many else [path.rpartition("/")[2]]
        answers = {}
        with self.lock:
            self.asked.append((time.monotonic(), path))
            for name in names:
                count = self.counts.get(name, 0)
                self.counts[name] = count + 1
                answers[name] = self.answer(name, count)
        if has_many:
            statuses = [(name, word) for name, word in answers.items() if isinstance(word, str)]
            items = [{"id": name, "status": status} for name, status in statuses]
            return http(200, {}, {"items": items})
        answer = answers[names[0]]
        if isinstance(answer, str):
            return http(200, {}, {"id": names[0], "status": answer, "result": names[0]})
        return answer and http(*answer)


def http(status, headers, data):
    """A reply as bytes, with a JSON body unless `data` is None."""
    body = b"" if data is None else json.dumps(data)
    return reply(body, "%d X" % status, **headers)


def done_after(polls):
    """An answer for jobs that are done after so many polls."""
    return lambda name, count: "done" if count >= polls else "running"


def profile(api, **more):
    return Profile(url=api.url + "/jobs/{id}", proxy="none", **more)
