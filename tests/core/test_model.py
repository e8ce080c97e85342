"""Jobs, replies and outcomes as values."""

from datetime import timedelta

import pytest

from pollkit import ConfigError, Job, Outcome, Profile, Reply
from pollkit.core.model import NO_TIMEOUT, Error, Slept, State, iso_text, one_line


@pytest.mark.parametrize(
    "value, job",
    [
        ("job_1", Job("job_1")),
        ("https://a/1", Job("https://a/1", url="https://a/1")),
        (Job("a", timeout="10m"), Job("a", timeout=600.0)),
        (Job("a", timeout=timedelta(minutes=10)), Job("a", timeout=600.0)),
        (Job("a", timeout=" Never"), Job("a", timeout=NO_TIMEOUT)),
    ],
)
def test_a_job_may_be_a_job_a_url_or_an_id(value, job):
    assert Job.from_any(value) == job


@pytest.mark.parametrize(
    "value, message",
    [
        (5, "a job must be a Job, a URL or an id, not 5"),
        (Job(5), "a job's id must be text, not 5"),
        (Job("a", url=5), "a job's URL must be text, not 5"),
        (
            Job("a", profile=Profile()),
            "a job's profile must be a name, not Profile: pass a Profile",
        ),
        (
            Job("a", metadata=5),
            "a job's metadata must be a mapping such as {'customer': 7}, not 5$",
        ),
        (Job("a", timeout=True), "a job's timeout must be seconds or text such as '5s', not True"),
        (Job("a", timeout=timedelta(-1)), "a job's timeout -86400.0 is out of range"),
        (Job("a", timeout="soon"), "a job's timeout 'soon' is not a duration"),
    ],
)
def test_a_bad_job_is_one_clear_line(value, message):
    with pytest.raises(ConfigError, match="^" + message):
        Job.from_any(value)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"status": "200"}, "a reply's status must be a number such as 200, not '200'"),
        ({"body": {"a": 1}}, "a reply's body must be bytes or text, not dict: return decoded data"),
    ],
)
def test_a_bad_reply_is_one_clear_line(fields, message):
    with pytest.raises(ConfigError, match="^" + message):
        Reply(**fields)


def test_a_state_is_shown_as_its_value_on_every_python():
    assert ["%s" % State.TIMED_OUT, "{}".format(State.TIMED_OUT)] == ["timed_out"] * 2
    assert "{:>10}".format(State.DONE) == "      done"


def test_an_outcome_in_one_line_and_as_json_data():
    error = Error("E7", "out of\ndisk")
    slept = Slept(pace=1.23456)
    times = {"waited_s": 2.5, "slept_s": slept, "started_at": 0.0, "ended_at": 2.5}
    outcome = Outcome(
        "a",
        None,
        "p",
        None,
        {"order": 7},
        State.FAILED,
        "failed",
        None,
        error,
        0.5,
        1,
        0,
        **times,
        notice_delay_s=None,
    )
    assert outcome.summary() == "a: failed after 2.5 s and 1 poll: out of disk"
    done = outcome._replace(state=State.DONE, error=None, polls=2, notice_delay_s=0.12345)
    assert done.summary() == "a: done after 2.5 s and 2 polls"
    data = outcome.as_dict()
    assert list(data)[:6] == ["id", "url", "profile", "label", "metadata", "state"]
    assert (data["metadata"], done._replace(metadata=None).as_dict()["metadata"]) == (
        {"order": 7},
        None,
    )
    assert (data["state"], data["error"]) == ("failed", {"code": "E7", "message": "out of\ndisk"})
    assert data["slept_s"] == {"pace": 1.235, "limit": 0.0, "retry_after": 0.0, "fault": 0.0}
    assert (data["notice_delay_s"], done.as_dict()["notice_delay_s"]) == (None, 0.123)
    assert data["ended_at"] == iso_text(2.5) == "1970-01-01T00:00:02.500Z"
    # In the C locale, Python 3.6 has the bytes of a path as surrogates; Windows has others.
    for path, text in [("/\udcc3\udca9", "/é"), ("/\ud800", "/\ud800"), (None, None)]:
        assert done._replace(saved_to=path).as_dict()["saved_to"] == text


def test_a_text_is_flattened_to_one_line_and_truncated():
    assert one_line("a " * 1000000, 9) == "a a a ..."
    assert one_line(" " * 1000000 + "a", 9) == "..."
    assert one_line("a\nb" + " " * 50, 9) == "a b"


TRACEBACK = """Traceback (most recent call last):
  File "/srv/worker.py", line 12, in render
    raise ValueError("page %d is blank" % number)
"""


@pytest.mark.parametrize(
    "text, shown",
    [
        (TRACEBACK + "ValueError: page 3 is blank\n", "ValueError: page 3 is blank"),
        (
            "task 7 failed:\n" + TRACEBACK + "ValueError: page 3",
            "task 7 failed: ValueError: page 3",
        ),
        (TRACEBACK + "a.Invalid: 2 fields:\n  page\n  size\n", "a.Invalid: 2 fields: page size"),
        (
            TRACEBACK + "KeyError: 3\n\nDuring handling another exception occurred:\n\n"
            "Traceback (most recent call last):\n  File x\n\nLookupError: page",
            "LookupError: page",
        ),
        ("Traceback (most recent call last):\n  cut off", "Traceback (most recent call... cut off"),
    ],
    ids=range(5),
)
def test_a_traceback_in_one_line_is_its_exception(text, shown):
    assert one_line(text, 38) == shown


def test_a_truncated_text_of_several_lines_keeps_its_last_line():
    assert one_line("begin\n" + "more\n" * 99 + "disk full\n", 28) == "begin more more... disk full"
    assert one_line("begin\nand more\n" + "x" * 99, 20) == "begin ... xxxxxxx..."
    assert one_line("begin\nand more\n" + "x" * 10**7, 20) == "begin and more xx..."
    assert len(one_line("a\n" * 10**7, 20)) <= 20
