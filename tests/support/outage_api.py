"""A job API that is down for a while, on the clock that it is given."""

from pollkit.testing import Answer, FakeJobApi, Request

RESET = Answer(0, {}, None)


class OutageApi(FakeJobApi):
    """Answers every request with `answer` from `down_from` until `down_until`."""

    def __init__(self, clock, down_from=0.0, down_until=0.0, answer=RESET):
        super().__init__(clock=clock)
        self.down_from = down_from
        self.down_until = down_until
        self._answer_when_down = answer

    def is_down(self, at):
        return self.down_from <= at < self.down_until

    def _answer(self, path, headers):
        now = self._clock.now()
        if not self.is_down(now):
            return super()._answer(path, headers)
        self.requests.append(Request(now, path, (path.rsplit("/", 1)[-1],), headers, 0))
        return self._answer_when_down

    def requests_when_down(self):
        return [each for each in self.requests if self.is_down(each.at)]

    def add_jobs(self, count, lasts):
        """Add jobs, and return their ids."""
        names = ["job_%d" % i for i in range(count)]
        for name in names:
            self.add(name, lasts=lasts)
        return names


class FlappingApi(OutageApi):
    """Is up for 40 s, down for 20 s, and so on."""

    def is_down(self, at):
        return at % 60.0 >= 40.0
