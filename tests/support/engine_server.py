"""A server for many jobs, whose answers a test chooses per job and poll."""

import collections
import threading

from pollkit import BatchPoller, Profile, TokenBucket
from raw_server import RawServer, reply, wait_for

RUNNING = reply('{"status": "running"}')
HEADERS = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"


def no_limit():
    return TokenBucket(100000, burst=10000)


class JobServer(RawServer):
    """Answers what `answer(job, polls)` returns: bytes, or a callable for the connection.

    `polls` is the number of polls of this job so far, the present one included.
    """

    def __init__(self, answer=lambda job, polls: RUNNING):
        self._answer = answer
        self.polls = collections.Counter()
        super().__init__(self._serve_job)

    def _serve_job(self, connection, request):
        job = request.target[1:]
        self.polls[job] += 1  # safe without a lock: a job has one poll in flight at a time
        answer = self._answer(job, self.polls[job])
        for step in answer if isinstance(answer, list) else [answer]:
            if callable(step):
                step(connection, request)
            else:
                connection.send(step)

    def profile(self, **more):
        return Profile(url=self.url("/{id}"), proxy="none", **more)

    def new_batch(
        self, workers=8, pace="fixed 5ms", on_event=None, bucket=None, timeout=60, **profile
    ):
        return BatchPoller(
            self.profile(**profile),
            pace=pace,
            workers=workers,
            timeout=timeout,
            bucket=bucket or no_limit(),
            on_event=on_event,
        )


def wait_for_polls(server, jobs, more):
    """Wait until each of these jobs has been polled `more` times."""
    wanted = {job: server.polls[job] + more for job in jobs}
    wait_for(lambda: all(server.polls[job] >= polls for job, polls in wanted.items()))


def own_threads():
    return [each.name for each in threading.enumerate() if each.name.startswith("pollkit-")]
