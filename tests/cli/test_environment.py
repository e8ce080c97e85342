"""Defaults from environment variables: a flag, then the variable, then the built-in default."""

import io
import json
import os
import re
import sys

import pytest

from paths import read_sources
from pollkit.cli.arguments.parser import FromEnvironment
from pollkit.cli.commands.program.help import text_of
from pollkit.cli.main import COMMANDS, build_parser

QUIET = ["--quiet", "--history", "none"]


@pytest.fixture
def named(api, monkeypatch):
    """POLLKIT_PROFILE names the profile of an API that has one job."""
    api.add("1", result={"n": 1})
    monkeypatch.setenv("POLLKIT_PROFILE", "fake")
    return api


def test_the_profile_comes_from_the_environment(named, pollkit):
    code, out, _ = pollkit("wait", "1", *QUIET)
    assert (code, json.loads(out)["profile"]) == (0, "fake")


def test_a_flag_takes_precedence_over_the_variable(named, pollkit, monkeypatch):
    monkeypatch.setenv("POLLKIT_PROFILE", "nonesuch")
    assert pollkit("wait", "1", "--profile", "fake", *QUIET)[0] == 0


def test_a_jobs_own_profile_takes_precedence_over_the_variable(named, pollkit, monkeypatch):
    monkeypatch.setenv("POLLKIT_PROFILE", "knowhere")
    monkeypatch.setenv("KNOWHERE_API_KEY", "k")
    line = io.BytesIO(b'{"id": "1", "profile": "fake"}\n')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(line))
    code, out, _ = pollkit("batch", "-", *QUIET)
    assert (code, json.loads(out)["profile"]) == (0, "fake")


def test_add_stores_the_profile_of_the_variable(named, pollkit):
    assert pollkit("add", "jobs.db", "1", "--quiet")[0] == 0
    (job,) = json.loads(pollkit("status", "jobs.db", "--json")[1])["jobs"]
    assert job["profile"] == "fake"


def test_the_filter_of_status_is_not_set_by_the_variable(named, pollkit, monkeypatch):
    pollkit("add", "jobs.db", "1", "--quiet")
    monkeypatch.setenv("POLLKIT_PROFILE", "knowhere")
    assert pollkit("status", "jobs.db")[0] == 5


def test_output_and_progress_come_from_the_environment(named, pollkit, monkeypatch):
    monkeypatch.setenv("POLLKIT_OUTPUT", "text")
    monkeypatch.setenv("POLLKIT_PROGRESS", "none")
    code, out, err = pollkit("wait", "1")
    assert (code, err) == (0, "") and "\nstate     done\n" in out
    assert json.loads(pollkit("wait", "1", "--output", "json")[1])["state"] == "done"
    assert "done" in pollkit("wait", "1", "--progress", "log")[2]


def test_the_history_file_comes_from_the_environment(named, pollkit, monkeypatch):
    monkeypatch.setenv("POLLKIT_HISTORY", os.path.abspath("mine.json"))
    named.add("2", lasts=0.1)
    assert pollkit("wait", "2", "--quiet", "--pace", "fixed 20ms")[0] == 0
    assert os.path.exists("mine.json")


def test_an_empty_variable_counts_as_not_set(named, pollkit, monkeypatch):
    for variable in ("POLLKIT_PROFILE", "POLLKIT_OUTPUT", "POLLKIT_PROGRESS", "POLLKIT_HISTORY"):
        monkeypatch.setenv(variable, " ")
    code, out, _ = pollkit("wait", named.url("1"), "--quiet")
    assert (code, json.loads(out)["profile"]) == (0, None)


@pytest.mark.parametrize(
    "variable, value, message",
    [
        ("POLLKIT_PROFILE", "fakee", r"there is no profile 'fakee' \(did you mean fake\?\)"),
        ("POLLKIT_OUTPUT", "xml", "invalid choice: 'xml'"),
        ("POLLKIT_PROGRESS", "fancy", "invalid choice: 'fancy'"),
    ],
)
def test_an_error_names_the_variable(named, pollkit, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    code, out, err = pollkit("wait", "1")
    assert (code, out) == (2, "") and re.match("pollkit: %s: %s" % (variable, message), err)
    assert not named.requests


def test_every_variable_is_in_the_topic_and_no_other():
    used = set(re.findall(r'"(POLLKIT_\w+)"', read_sources()))
    topic = set(re.findall(r"^  (POLLKIT_\w+)", text_of("environment"), re.MULTILINE))
    of_programs = {name for name in used if name in text_of("cron")}
    assert topic == used - of_programs and len(topic) == 6


def test_the_help_of_a_flag_names_its_variable():
    for command in COMMANDS:
        for action in build_parser(command)._actions:
            if isinstance(action.default, FromEnvironment):
                assert "$" + action.default.variable in action.help, (command, action.dest)
