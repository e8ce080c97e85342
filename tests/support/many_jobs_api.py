"""A job API that can be asked about many jobs at once, and profiles for it."""

from urllib.parse import unquote

from job_api import JobApi, http
from pollkit import Profile, TokenBucket


class ManyApi(JobApi):
    """Answers /many?ids=… with the value of `answer_many(ids, count)`.

    That is (HTTP status, headers, data), or None for a reset.
    """

    def __init__(self, answer_many, answer=lambda name, count: "done"):
        self.answer_many = answer_many
        self.exchanges = []
        super().__init__(answer)

    def reply(self, path):
        if "ids=" not in path:
            return super().reply(path)
        ids = [unquote(part) for part in path.rpartition("ids=")[2].split(",")]
        with self.lock:
            count = len(self.exchanges)
            self.exchanges.append(ids)
        answer = self.answer_many(ids, count)
        return answer and http(*answer)


def listed(*items):
    return 200, {}, {"items": list(items)}


def all_done(ids, count):
    return listed(*({"id": name, "status": "done"} for name in ids))


def one_by_one(api, **more):
    return Profile(url=api.url + "/jobs/{id}", proxy="none", **more)


def together(api, **more):
    return one_by_one(api, batch_url=api.url + "/many?ids={ids}", retry="fixed 10ms", **more)


def plenty():
    return TokenBucket(10000, burst=1000)
