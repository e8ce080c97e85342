"""The command batch: exit codes, and which jobs it polls."""

import json
import re

import pytest

from raw_server import RawServer, reply
from wait_commands import KEYS, QUICK, profile_file, put_on_stdin, run


@pytest.mark.parametrize(
    "kinds, expected",
    [
        ("done", 0),
        ("done failed", 1),
        ("done late", 3),
        ("done gone", 4),
        ("late gone", 4),
        ("late failed gone", 1),
        ("failed late", 1),
    ],
)
def test_a_failed_job_counts_before_an_unreachable_and_that_before_a_timed_out_one(
    api, capsys, monkeypatch, kinds, expected
):
    api.add("done")
    api.add("late", lasts=60)
    api.add("failed", fails="no")
    for _ in range(9):
        api.fault(400, "gone")
    put_on_stdin(monkeypatch, *kinds.split())
    code, out, err = run(capsys, ["batch", "-", "--timeout", "500ms"] + profile_file(api) + QUICK)
    outcomes = [json.loads(line) for line in out.splitlines()]
    assert code == expected and sorted(o["id"] for o in outcomes) == sorted(kinds.split())
    assert all(list(outcome) == KEYS for outcome in outcomes)
    assert re.search(r"^%d jobs?: .*; \d+ polls?$" % len(outcomes), err, re.MULTILINE)


def test_a_job_that_is_listed_twice_is_polled_once(api, capsys, monkeypatch):
    api.add("a")
    put_on_stdin(monkeypatch, "a", "# a comment", "", '{"id": "a"}', "  a  ")
    code, out, _ = run(capsys, ["batch", "-"] + profile_file(api))
    assert (code, out.count("\n"), len(api.requests)) == (0, 1, 1)


def test_urls_that_differ_in_a_secret_are_two_jobs(capsys, monkeypatch):
    """Both are shown as the same URL, but count as two."""

    def act(connection, request):
        connection.send(
            reply('{"status": "%s"}' % ("failed" if "first" in request.target else "done"))
        )

    with RawServer(act) as server:
        put_on_stdin(monkeypatch, server.url("/1?token=first"), server.url("/1?token=second"))
        code, out, err = run(capsys, ["batch", "-", "--workers", "1"])
    assert code == 1 and out.count("token=***") == 4 and "2 jobs: 1 done, 1 failed" in err


def test_a_batch_of_hundreds_of_jobs_prints_each_outcome_once(api, capsys, monkeypatch):
    for number in range(200):
        api.add("job_%d" % number, result=number)
    put_on_stdin(monkeypatch, *["job_%d" % number for number in range(200)])
    code, out, err = run(
        capsys, ["batch", "-", "--quiet", "--limit", "100000/s burst 1000"] + profile_file(api)
    )
    outcomes = [json.loads(line) for line in out.splitlines()]
    expected = {"job_%d" % number: number for number in range(200)}
    assert (code, err, len(outcomes)) == (0, "", 200)
    assert {outcome["id"]: outcome["result"] for outcome in outcomes} == expected


def test_flags_override_the_profile_that_a_job_names(api, capsys, monkeypatch):
    api.add("a", lasts=60)
    api.add("b")
    put_on_stdin(
        monkeypatch,
        '{"id": "a", "profile": "other", "metadata": {"n": 1}}',
        '{"id": "b", "size": 2}',
    )
    more = "[fake:small]\nup_to = 5\n[other]\nurl = %s/jobs/{id}\ntimeout = 1h\n" % api.base
    code, out, _ = run(
        capsys, ["batch", "-", "--timeout", "100ms"] + profile_file(api, more) + QUICK
    )
    fields = ("state", "profile", "label", "metadata")
    found = {o["id"]: tuple(map(o.get, fields)) for o in map(json.loads, out.splitlines())}
    assert code == 3 and found == {
        "a": ("timed_out", "other", None, {"n": 1}),
        "b": ("done", "fake", "small", None),
    }
