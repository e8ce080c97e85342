"""Errors that a command shows in one line: a traceback, a fault with -v, a job that is gone."""

import json

import pytest

from job_api import JobApi

TRACEBACK = "Traceback (most recent call last):\n%sValueError: page 7 is blank\n" % (
    '  File "/srv/render/worker.py", line 120, in render\n    self.draw(page)\n' * 12
)
FLAGS = ["--pace", "fixed 10ms", "--proxy", "none"]


def test_the_log_has_the_exception_and_the_outcome_the_whole_traceback(pollkit):
    answer = {"status": "failed", "error": TRACEBACK}
    with JobApi(lambda name, count: (200, {}, answer)) as api:
        code, out, err = pollkit("wait", api.url + "/jobs/1", *FLAGS)
    assert code == 1 and json.loads(out)["error"]["message"] == TRACEBACK
    assert ": failed: ValueError: page 7 is blank (" in err and "worker.py" not in err


def test_a_traceback_in_the_reply_to_an_http_error_is_its_exception(pollkit):
    with JobApi(lambda name, count: (400, {}, {"error": TRACEBACK})) as api:
        _, out, _ = pollkit("wait", api.url + "/jobs/1", *FLAGS)
    message = json.loads(out)["error"]["message"]
    assert message == "the server refused: 400, 'ValueError: page 7 is blank'"


def test_verbose_prints_each_fault_once(pollkit):
    with JobApi(lambda name, count: "done" if count else (500, {}, {"error": "disk full"})) as api:
        code, _, err = pollkit("wait", api.url + "/jobs/1", "-v", *FLAGS)
    assert code == 0
    assert err.count("the server answered 500, 'disk full'") == 1


@pytest.mark.parametrize("known", [0, 2])
def test_a_job_that_is_gone_is_reported_as_such_only_if_it_was_known(pollkit, write, known):
    def answer(name, count):
        return "running" if count < known else (404, {}, {"error": "no such job"})

    with JobApi(answer) as api:
        path = write("[mine]\nurl = %s/jobs/{id}\nnot_found_grace = 50ms\n" % api.url)
        code, out, _ = pollkit("wait", "1", "--profile", "mine", "--profiles", path, *FLAGS)
        assert api.counts["1"] > known + 1  # the 404 was retried
    message = json.loads(out)["error"]["message"]
    assert code == 4 and message.startswith("404: not found, 'no such job'")
    assert message.endswith("; the server no longer knows it: expired or deleted?") == bool(known)
