"""--output: a short text for people on a terminal, JSON lines otherwise."""

import json

import pytest

from pollkit import Outcome, State
from pollkit.cli.output import outcome_text
from pollkit.cli.output.outcome_text import outcome_line, outcome_summary
from pollkit.cli.progress.terminal import width_of
from pollkit.core.model import Error, Slept
from pollkit.testing import FakeJobApi

OUTCOME = Outcome(
    id="job_1",
    url="https://api.internal/v1/jobs/job_1",
    profile=None,
    label=None,
    metadata=None,
    state=State.DONE,
    status="success",
    result={"words": 9},
    error=None,
    progress=1.0,
    polls=4,
    faults=0,
    waited_s=9.561,
    slept_s=Slept(),
    notice_delay_s=0.4,
    started_at=0.0,
    ended_at=9.561,
)
FAILED = OUTCOME._replace(
    state=State.FAILED,
    status="FAILED",
    result=None,
    error=Error("E7", "out of\ndisk"),
    progress=0.44,
    faults=1,
    notice_delay_s=None,
)
HOSTILE = "\x1b[2J\x07\r\u202e\x9b1mtext\ud800\n\x00"


@pytest.fixture
def tty(monkeypatch):
    """A stdout that counts as a terminal of 60 columns; tests/slow has real ones."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(outcome_text, "is_terminal", lambda stream: True)


@pytest.fixture
def job():
    with FakeJobApi() as api:
        api.add("1", result={"words": 9})
        yield api.url("1")


def test_a_done_job_in_aligned_lines():
    assert outcome_summary(OUTCOME) == (
        "job       job_1\n"
        "state     done\n"
        "status    success\n"
        'result    {"words": 9}\n'
        "polls     4\n"
        "time      9.6s (noticed 400ms after its end)\n"
    )


def test_a_failed_job_in_aligned_lines():
    assert outcome_summary(FAILED) == (
        "job       job_1\n"
        "state     failed\n"
        "error     E7: out of disk\n"
        "progress  44%\n"
        "polls     4, with 1 fault\n"
        "time      9.6s\n"
    )


@pytest.mark.usefixtures("tty")
def test_a_long_result_is_shortened_to_the_terminal_and_says_how_to_get_all_of_it():
    text = outcome_summary(OUTCOME._replace(result="x" * 5000))
    (line,) = [line for line in text.splitlines() if line.startswith("result")]
    assert line.endswith("xxx.. (--result prints all of it)") and len(line) == 59


@pytest.mark.usefixtures("tty")
def test_a_long_error_is_wrapped_because_its_end_matters(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    text = outcome_summary(FAILED._replace(error=Error(None, "page seven of nine can't be read")))
    assert "error     page seven of nine\n          can't be read\nprogress" in text


@pytest.mark.usefixtures("tty")
@pytest.mark.parametrize("columns", ["1", "20", "40"])
def test_narrow_terminals_get_shorter_lines(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert len(outcome_line(FAILED, 5, int(columns) - 1)) < int(columns)
    assert outcome_summary(FAILED).startswith("job")


def test_an_outcome_of_a_batch_is_one_aligned_line():
    lines = [
        outcome_line(OUTCOME, 7, 200),
        outcome_line(FAILED._replace(id="job_100", waited_s=3725.0, polls=1), 7, 200),
        outcome_line(OUTCOME._replace(id="日本", result=None), 7, 200),
    ]
    assert lines == [
        'job_1    done           9.6s  4 polls    {"words": 9}',
        "job_100  failed         1h2m  1 poll     E7: out of disk",
        "日本     done           9.6s  4 polls",
    ]


@pytest.mark.parametrize("field", ["id", "status", "result"])
def test_hostile_characters_are_never_shown(field):
    outcome = OUTCOME._replace(**{field: HOSTILE})
    failed = FAILED._replace(error=Error(HOSTILE, HOSTILE))
    for text in (
        outcome_line(outcome, 40, 200),
        outcome_line(failed, 40, 200),
        outcome_summary(outcome).replace("\n", ""),
        outcome_summary(failed).replace("\n", ""),
    ):
        assert text.isprintable(), text


def test_text_inside_a_json_result_is_escaped_or_replaced():
    assert outcome_line(OUTCOME._replace(result={"a": [HOSTILE]}), 5, 200).isprintable()


def test_an_id_that_is_very_long_is_shortened():
    line = outcome_line(OUTCOME._replace(id="x" * 500), 40, 200)
    assert line.startswith("x" * 38 + "..  done") and width_of(line) < 90


def test_a_long_url_keeps_its_end_where_urls_differ():
    url = "https://api.internal/v1/projects/north/jobs/%d"
    lines = [outcome_line(OUTCOME._replace(id=url % number), 45, 80) for number in (41, 42)]
    assert [line.split()[0][-8:] for line in lines] == ["/jobs/41", "/jobs/42"]
    assert all(line.startswith("..") and line.split()[1] == "done" for line in lines)


@pytest.mark.parametrize("columns", [25, 39])
def test_a_narrow_terminal_shortens_the_id_and_not_the_state(columns):
    url = "http://127.0.0.1:8811/jobs/fail-3"
    line = outcome_line(FAILED._replace(id=url), len(url), columns)
    assert len(line) <= columns
    assert line.split()[0].endswith("/fail-3") and line.split()[1] == "failed"


# The option


@pytest.mark.usefixtures("tty")
def test_a_wait_on_a_terminal_prints_aligned_lines(job, pollkit):
    code, out, _ = pollkit("wait", job, "--quiet")
    assert code == 0 and "\nstate     done\n" in out and len(out.splitlines()) <= 8


@pytest.mark.usefixtures("tty")
def test_a_batch_on_a_terminal_prints_one_short_line_per_job(job, pollkit):
    code, out, _ = pollkit("batch", job, "--quiet")
    (line,) = out.splitlines()
    assert code == 0 and line.startswith(job) and len(line) < 60


@pytest.mark.usefixtures("tty")
@pytest.mark.parametrize("command", ["wait", "batch"])
def test_json_on_a_terminal_if_asked_for(job, pollkit, command):
    code, out, _ = pollkit(command, job, "--quiet", "--output", "json")
    assert (code, json.loads(out)["state"]) == (0, "done")


@pytest.mark.parametrize("command", ["wait", "batch"])
def test_json_in_a_pipe_and_text_if_asked_for(job, pollkit, command):
    assert json.loads(pollkit(command, job, "--quiet")[1])["state"] == "done"
    code, out, _ = pollkit(command, job, "--quiet", "--output", "text")
    assert code == 0 and "done" in out and not out.startswith("{")


@pytest.mark.usefixtures("tty")
def test_the_result_alone_is_printed_whole_on_a_terminal(pollkit):
    with FakeJobApi() as api:
        api.add("1", result="x" * 5000)
        result = pollkit("wait", api.url("1"), "--quiet", "--result", "--output", "text")[1]
    assert result == "x" * 5000 + "\n"


@pytest.mark.usefixtures("tty")
def test_a_result_that_is_text_can_not_control_the_terminal(pollkit):
    with FakeJobApi() as api:
        api.add("1", result="a\tb\n" + HOSTILE)
        out = pollkit("wait", api.url("1"), "--quiet", "--result")[1]
    assert out.startswith("a\tb\n?[2J???")
    assert out.replace("\t", "").replace("\n", "").isprintable()


def test_a_result_that_is_text_is_exact_in_a_pipe(pollkit):
    with FakeJobApi() as api:
        api.add("1", result="\x1b[1m\u202e\x9b")
        out = pollkit("wait", api.url("1"), "--quiet", "--result")[1]
    assert out == "\x1b[1m\u202e\x9b\n"


@pytest.mark.parametrize("command", ["wait", "batch"])
def test_json_escapes_the_characters_that_a_terminal_may_obey(pollkit, command):
    result = {"a": "日本 \x7f\x85\x9b1m\u2028\u202e\u2066 é"}
    with FakeJobApi() as api:
        api.add("1", result=result)
        out = pollkit(command, api.url("1"), "--quiet", "--output", "json")[1]
    assert json.loads(out)["result"] == result
    assert "日本" in out and "\\u009b1m" in out
    assert out.rstrip("\n").isprintable()
