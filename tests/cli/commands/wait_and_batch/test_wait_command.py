"""The command wait: output and exit codes."""

import json
import re

import pytest

from wait_commands import KEYS, QUICK, profile_file, put_on_stdin, run

INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def test_an_outcome_has_its_keys_in_order(api, capsys):
    api.add("1", lasts=0.3, pages=4, result={"words": 9})
    code, out, _ = run(capsys, ["wait", api.url("1")] + QUICK)
    outcome = json.loads(out)
    assert code == 0 and out.count("\n") == 1 and list(outcome) == KEYS
    assert list(outcome["slept_s"]) == ["pace", "limit", "retry_after", "fault"]
    assert (outcome["state"], outcome["result"], outcome["error"]) == ("done", {"words": 9}, None)
    assert re.fullmatch(INSTANT, outcome["started_at"])
    assert re.fullmatch(INSTANT, outcome["ended_at"])


def test_a_failed_job_has_a_code_and_a_message(api, capsys):
    api.add("1", fails="bad page", code="E7")
    code, out, _ = run(capsys, ["wait", api.url("1")])
    assert code == 1 and json.loads(out)["error"] == {"code": "E7", "message": "bad page"}


@pytest.mark.parametrize(
    "prepare, flags, code, state",
    [
        (lambda api: api.add("1"), [], 0, "done"),
        (lambda api: api.add("1", fails="no"), [], 1, "failed"),
        (lambda api: api.add("1", lasts=60), ["--timeout", "100ms"], 3, "timed_out"),
        (lambda api: api.add("1", lasts=60), ["--timeout", "0"], 3, "timed_out"),
        (lambda api: api.fault(400), [], 4, "unreachable"),
        (lambda api: api.fault(500), ["--max-faults", "1"], 4, "unreachable"),
        (lambda api: api.add("1", lasts=0.3), ["--timeout", "never"], 0, "done"),
    ],
)
def test_exit_codes(api, capsys, prepare, flags, code, state):
    prepare(api)
    found, out, _ = run(capsys, ["wait", api.url("1")] + QUICK + flags)
    assert (found, json.loads(out)["state"]) == (code, state)
    if flags == ["--timeout", "0"]:
        assert len(api.requests) == 1


@pytest.mark.parametrize(
    "result, expected",
    [
        ("text as it is", "text as it is\n"),
        ("", "\n"),
        ("two\nlines", "two\nlines\n"),
        (None, "null\n"),
        (7, "7\n"),
        ({"a": ["é", 1]}, '{"a": ["é", 1]}\n'),
        ([], "[]\n"),
        ("lone \ud800 surrogate", "lone \\ud800 surrogate\n"),
    ],
)
def test_result_prints_only_the_result(api, capsys, result, expected):
    api.add("1", result=result)
    code, out, err = run(capsys, ["wait", "1", "--result", "--quiet"] + profile_file(api))
    assert (code, out, err) == (0, expected, "")


def test_without_a_result_stdout_is_empty_and_stderr_has_the_error(api, capsys):
    api.add("1", fails="bad page")
    code, out, err = run(capsys, ["wait", api.url("1"), "--result", "--quiet"])
    assert (code, out) == (1, "") and re.fullmatch(
        r"pollkit: \S+: failed after .*: bad page\n", err
    )


@pytest.mark.parametrize(
    "flags, label",
    [
        ([], None),
        (["--label", "small"], "small"),
        (["--size", "3"], "small"),
        (["--size", "10"], "small"),
        (["--size", "11"], "large"),
        (["--size", "1e9"], None),
        (["--label", "large", "--size", "3"], "large"),
    ],
)
def test_label_and_size_choose_the_label(api, capsys, flags, label):
    api.add("1")
    more = "[fake:small]\nup_to = 10\n[fake:large]\nup_to = 100\n"
    code, out, _ = run(capsys, ["wait", "1"] + profile_file(api, more) + flags)
    assert code == 0 and (json.loads(out)["label"], json.loads(out)["profile"]) == (label, "fake")


def test_without_a_terminal_changes_are_logged_but_not_every_poll(api, capsys):
    api.add("1", lasts=0.5, queued=0.3)
    code, out, err = run(capsys, ["wait", "1"] + profile_file(api) + QUICK)
    lines = err.splitlines()
    assert code == 0 and "\x1b" not in out + err and len(api.requests) > 4
    assert [re.sub(r"^\d\d:\d\d:\d\d 1: ", "", line).split(" (")[0] for line in lines] == [
        'status "pending"',
        'status "running"',
        "done",
    ]


@pytest.mark.parametrize("flag", ["-v", "-vv", "-vvv", "--verbose"])
def test_verbose_logs_every_poll_and_the_reason_for_the_delay(api, capsys, flag):
    api.add("1", lasts=0.3)
    code, _, err = run(capsys, ["wait", "1", flag] + profile_file(api) + QUICK)
    polls = re.findall(r"1: poll \d+: .*", err)
    assert code == 0 and len(polls) == len(api.requests) > 2
    assert all("(pace)" in poll for poll in polls[:-1]) and "done" in polls[-1]


def test_log_json_writes_one_object_per_line(api, capsys):
    api.add("1", lasts=0.3)
    code, _, err = run(capsys, ["wait", "1", "--log-json", "-v"] + profile_file(api) + QUICK)
    lines = [json.loads(line) for line in err.splitlines()]
    assert code == 0 and {"poll", "status", "end"} <= {line["event"] for line in lines}
    assert all(
        re.fullmatch(INSTANT, line["at"]) and line["id"] == "1" and line["text"] for line in lines
    )


def test_quiet_writes_nothing_to_stderr(api, capsys, monkeypatch):
    api.add("1", lasts=0.3)
    api.fault(500)
    assert run(capsys, ["wait", api.url("1"), "--quiet", "-v"] + QUICK)[::2] == (0, "")
    put_on_stdin(monkeypatch, api.url("1"))
    assert run(capsys, ["batch", "-", "--quiet"])[::2] == (0, "")
