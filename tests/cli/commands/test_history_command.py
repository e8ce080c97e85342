"""The command `pollkit history`, and the history as durations of a simulation."""

import itertools
import json
import os
import re

import pytest

import history_file
from finished_ledger import make_ledger
from history_file import save_durations
from pollkit import Job, Ledger, Simulation
from pollkit.cli.inputs.duration_lists import read_durations
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.edges.history_file import Kind, default_path, read_history

SMALL = Kind("knowhere", "small")
LARGE = Kind("knowhere", "large")
ORIGIN = Kind("https://api.internal:443")


@pytest.fixture
def history(monkeypatch):
    """The usual history file, with three kinds of jobs."""
    monkeypatch.setattr(history_file, "STARTS", itertools.count(10**9, 1000))
    path = default_path()
    save_durations(path, [50, 90, 10, 60, 100, 30, 70, 20, 80, 40], SMALL)
    save_durations(path, [5], LARGE)
    save_durations(path, [7200, 3600], ORIGIN)
    return path


def test_each_kind_has_a_row(history, pollkit):
    code, out, err = pollkit("history")
    rows = [re.split("  +", line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert rows[0] == ["PROFILE", "LABEL", "JOBS", "MEDIAN", "P90", "LAST"]
    assert [row[:5] for row in rows[1:]] == [
        ["knowhere", "small", "10", "50s", "1m30s"],
        ["knowhere", "large", "1", "5s", "5s"],
        ["https://api.internal:443", "-", "2", "1h", "2h"],
    ]
    assert all(row[5].endswith(" ago") for row in rows[1:])
    assert pollkit("history", "show") == (code, out, err)


def test_the_history_as_json(history, pollkit):
    code, out, err = pollkit("history", "--label", "small", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "kinds": [
            {
                "profile": "knowhere",
                "label": "small",
                "jobs": 10,
                "median_s": 50.0,
                "p90_s": 90.0,
                "last_at": "2001-09-09T04:17:20.000Z",
            }
        ]
    }


def test_another_file_can_be_shown(tmp_path, pollkit):
    path = str(tmp_path / "other.json")
    save_durations(path, [5], LARGE)
    assert "large" in pollkit("history", "--history", path)[1]


def test_a_ledger_can_be_shown(tmp_path, pollkit):
    done = Reading(Verdict.DONE, "done", duration_s=12.0)
    make_ledger(tmp_path / "jobs.db", [("p", "small", done, 20.0)] * 6)
    code, out, err = pollkit("history", "--ledger", str(tmp_path / "jobs.db"), "--json")
    (kind,) = json.loads(out)["kinds"]
    assert (code, err, kind["profile"], kind["label"]) == (0, "", "p", "small")
    assert (kind["jobs"], kind["median_s"], kind["last_at"]) == (6, 12.0, None)


def test_clear_removes_only_what_is_chosen(history, pollkit):
    assert pollkit("history", "clear", "--profile", "knowhere", "--label", "small") == (
        0,
        "removed the durations of knowhere, label small\n",
        "",
    )
    assert list(read_history(history)) == [LARGE, ORIGIN]
    assert pollkit("history", "clear", "--profile", ORIGIN.profile)[0] == 0
    assert list(read_history(history)) == [LARGE]
    assert pollkit("history", "clear")[0] == 0
    assert pollkit("history") == (0, "%s has no durations\n" % history, "")
    assert pollkit("history", "clear") == (0, "%s has no durations\n" % history, "")
    assert json.loads(pollkit("history", "--json")[1]) == {"kinds": []}


def test_without_a_history_nothing_is_created(pollkit):
    for words in (["history"], ["history", "clear"]):
        assert pollkit(*words)[0] == 0
    assert not os.path.exists(default_path())


@pytest.mark.parametrize(
    "words, message",
    [
        (["clear", "--profile", "nope"], "has no durations of profile nope: see pollkit history"),
        (["clear", "--label", "nope"], "has no durations of label nope"),
        (["clear", "--ledger", "x"], "a ledger keeps its durations"),
        (["clear", "--json"], "leave --json out"),
        (["--ledger", "x", "--history", "y"], "give one"),
        (["--history", "/nowhere/x"], "/nowhere/x: there is no such file"),
        (["--ledger", "/nowhere/x"], "there is no such directory"),
        (["--history", __file__], "it is not a history"),
        (["clear", "--history", __file__], "it is not a history"),
        (["forget"], "invalid choice"),
    ],
)
def test_bad_arguments_are_one_line_and_change_nothing(history, pollkit, words, message):
    with open(__file__, "rb") as file:
        before = file.read()
    code, out, err = pollkit("history", *words)
    assert (code, out, err.count("\n")) == (2, "", 1) and message in err, err
    assert len(read_history(history)) == 3
    with open(__file__, "rb") as file:
        assert file.read() == before


def test_a_ledger_named_as_history_is_refused_unchanged(tmp_path, pollkit):
    path = str(tmp_path / "jobs.db")
    with Ledger(path) as ledger:
        ledger.add([Job("a")])
    code, _, err = pollkit("history", "clear", "--history", path)
    assert code == 2 and "it is a database" in err
    with Ledger(path) as ledger:
        assert [row.job.id for row in ledger.jobs()] == ["a"]


def test_a_host_without_a_home_needs_a_file(pollkit, monkeypatch):
    for name in ("XDG_STATE_HOME", "HOME", "USERPROFILE"):
        monkeypatch.delenv(name, raising=False)
    for words in (["history"], ["simulate", "--durations", "history:"]):
        code, _, err = pollkit(*words)
        assert code == 2 and "no home directory" in err
        assert "name its file with --history FILE, or history:FILE" in err


def test_a_simulation_uses_the_durations_of_the_history(history, pollkit):
    code, out, err = pollkit(
        "simulate", "--durations", "history:" + history, "--pace", "fixed 5s", "--json"
    )
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["scenario"] == "history:%s, 3 kinds of jobs" % history
    assert document["jobs"] == 13
    simulation = Simulation(durations=read_durations("history:"))
    assert simulation.distributions["knowhere:large"].durations == (5.0,)
    assert simulation.distributions[ORIGIN.profile].durations == (7200.0, 3600.0)


@pytest.mark.parametrize(
    "source, message",
    [("history:", "has no durations yet"), ("history:/nowhere/x", "/nowhere/x: there is no such")],
)
def test_a_simulation_without_durations_is_one_line(pollkit, source, message):
    code, out, err = pollkit("simulate", "--durations", source)
    assert (code, out, err.count("\n")) == (2, "", 1) and message in err
