"""The loops in `help migrate` and their replacements, run against the same scripted server.

pytest -s prints both as a table.
"""

import re
from functools import partial
from types import SimpleNamespace

import pytest
import requests

import pollkit
from polling_libraries import (
    BotocoreClient,
    TaskPoller,
    VirtualLoop,
    polling2,
    promise_poll,
    tenacity,
)
from pollkit.cli.commands.program.help import text_of
from pollkit.testing import FakeJobApi, VirtualClock

SECTIONS = dict(
    re.findall(r"\n\n\n([A-Z0-9 .-]+)\n\n(.*?)(?=\n\n\n|\Z)", text_of("migrate"), re.DOTALL)
)
LOOPS = [name for name, text in SECTIONS.items() if "\n\nbecomes\n\n" in text]
DURATIONS = {"job_1": 100.0}
MANY = {"job_%d" % number: 60.0 + 10 * number for number in range(30)}
LIMITS = {  # of the servers that have one; the original loop exceeds it
    "REQUESTS WITH BACKOFF": "5/m",
    "ASYNCIO.GATHER": "60/m",
    "TASK POLLER WITH CALLBACKS": "60/m",
}
MODELS = ("flux-2", "sora-2")


def code_blocks(name):
    """The loop of a section, and its replacement."""
    before, after = SECTIONS[name].split("\n\nbecomes\n\n")
    after = after.partition("\n\n" + re.search(r"\n\n(\S)", after).group(1))[0]
    return [re.sub("^    ", "", block, flags=re.MULTILINE) for block in (before, after)]


class Run:
    """A block of the topic, executed in virtual time; its results and its cost."""

    def __init__(self, name, code):
        durations = DURATIONS
        if name in ("ASYNCIO.GATHER", "TASK POLLER WITH CALLBACKS"):
            durations = MANY
        self.clock = VirtualClock()
        with FakeJobApi(LIMITS.get(name), self.clock) as api, requests.Session() as session:
            session.trust_env = False
            for job_id, lasts in durations.items():
                fails = "bad input" if job_id == "job_7" else None
                api.add(job_id, lasts, result=job_id.upper(), fails=fails)
            names = self._names(api, session, list(durations))
            exec(compile(code, name, "exec"), names)  # the code under test
            self.results = self._results(names)
            self.polls = len(api.requests)
            self.refused = sum(request.status == 429 for request in api.requests)
        self.took_s = self.clock.now()

    def _names(self, api, session, ids):
        """The names that the blocks use."""
        clock = self.clock
        self.called = []

        def get(job_id):
            return session.get(api.url(job_id))

        async def fetch(job_id):
            response = get(job_id)
            return response.status_code, response.json()

        def callback(error, result):
            if error is not None:
                error = error["message"] if isinstance(error, dict) else error.message
            self.called.append((error, result))

        return {
            "pollkit": self._pollkit(),
            "requests": SimpleNamespace(
                get=session.get, RequestException=requests.RequestException
            ),
            "time": SimpleNamespace(sleep=clock.sleep, monotonic=clock.now),
            "asyncio": __import__("asyncio"),
            "polling2": polling2(clock),
            "tenacity": tenacity(clock),
            "client": BotocoreClient(lambda job_id: get(job_id).json(), clock),
            "TaskPoller": lambda: TaskPoller(get, clock),
            "poll": promise_poll(clock),
            "session": session,
            "profile": api.profile,
            "url": api.url("job_1"),
            "ids": ids,
            "tasks": [(MODELS[at % 2], job_id) for at, job_id in enumerate(ids)],
            "fetch": fetch,
            "callback": callback,
            "get_job": lambda: get("job_1").json(),
            "is_finished": lambda job: job["status"] in ("done", "failed"),
            "on_job": self.called.append,
        }

    def _pollkit(self):
        """The module, with a virtual clock as default."""
        options = {"clock": self.clock, "rng": lambda: 0.5}
        return SimpleNamespace(
            wait=partial(pollkit.wait, **options),
            BatchPoller=partial(pollkit.BatchPoller, **options),
            Job=pollkit.Job,
        )

    def _results(self, names):
        if "wait_for_all" in names:
            loop = VirtualLoop(self.clock)
            try:
                return loop.run_until_complete(names["wait_for_all"]())
            finally:
                loop.close()
        return names.get("result") or sorted(self.called, key=str)


@pytest.fixture(scope="module", autouse=True)
def table():
    """Prints a line for each loop, after all tests."""
    lines = []
    yield lines
    print("\n\n%-28s %15s %15s %18s" % ("loop -> pollkit", "requests", "429s", "seconds"))
    for name, before, after in lines:
        values = [
            "%d -> %d" % (before.polls, after.polls),
            "%d -> %d" % (before.refused, after.refused),
            "%.0f -> %.0f" % (before.took_s, after.took_s),
        ]
        print("%-28s %15s %15s %18s" % (name.lower(), *values))


@pytest.mark.parametrize("name", LOOPS)
def test_the_replacement_has_the_same_results_with_no_more_requests_and_no_429(name, table):
    before, after = [Run(name, code) for code in code_blocks(name)]
    table.append((name, before, after))
    assert before.results and after.results == before.results
    assert after.polls <= before.polls
    assert after.refused == 0
    assert (before.refused > 0) == (name in LIMITS)


def test_the_topic_has_all_loops_of_the_list():
    assert LOOPS == [
        "FIXED SLEEP",
        "REQUESTS WITH BACKOFF",
        "ASYNCIO.GATHER",
        "TASK POLLER WITH CALLBACKS",
        "PROMISE-STYLE POLL FUNCTION",
        "BOTOCORE-STYLE WAITER",
        "POLLING2",
        "TENACITY",
    ]
