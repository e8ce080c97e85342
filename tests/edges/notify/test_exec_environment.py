"""Programs of --exec inherit the environment, but not the variables that credentials come from."""

import pytest

from ledger_shell import added, posix, script
from pollkit import Job, Ledger, Profile
from pollkit.edges.ledger.records import Notification
from pollkit.edges.notify.environment import CredentialVariables

pytestmark = [pytest.mark.usefixtures("place"), posix]
VARIABLES = {
    "FAKE_TOKEN": "t1",
    "SMALL_TOKEN": "t2",
    "OTHER_TOKEN": "t3",
    "FLAG_TOKEN": "t4",
    "HARMLESS": "h",
}
FAKE = "auth = bearer env:FAKE_TOKEN\n"  # in [fake]
SMALL = "auth = basic env:SMALL_TOKEN\n"  # in [fake:small], the last section
OTHER = "[other]\nurl = http://127.0.0.1:9/{id}\nauth = header X-API-Key env:OTHER_TOKEN\n"


@pytest.fixture
def run(api, monkeypatch, pollkit):
    """Runs a ledger with one finished job; the variables that the program inherited."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with open("mine.ini") as file:
        text = file.read()

    with open("mine.ini", "w") as file:
        file.write(text.replace("proxy = none\n", "proxy = none\n" + FAKE) + SMALL + OTHER)
    added(api, 1, lasts=0)

    def run(*flags):
        flags += ("--exec", script("env > env.txt\n"))
        code, _, err = pollkit("run", "jobs.db", "--once", *flags)
        assert (code, err) == (0, "")
        with open("env.txt") as file:
            got = dict(line.rstrip("\n").partition("=")[::2] for line in file)
        assert got["POLLKIT_STATE"] == "done" and got["HARMLESS"] == "h"
        return {name for name in VARIABLES if name in got} - {"HARMLESS"}

    return run


def test_variables_of_the_profiles_in_use_are_not_inherited(run):
    """Nor those of its labels; a profile that no job has is not in use."""
    assert run() == {"OTHER_TOKEN", "FLAG_TOKEN"}


def test_neither_the_variable_of_token_env_nor_the_one_it_replaces_is_inherited(run):
    assert run("--profile", "fake", "--token-env", "FLAG_TOKEN") == {"OTHER_TOKEN"}
    assert run("--profile", "fake", "--auth", "basic env:FLAG_TOKEN") == {"OTHER_TOKEN"}


def test_variables_named_by_exec_env_are_inherited(run):
    kept = run("--exec-env", "FAKE_TOKEN", "--exec-env", "SMALL_TOKEN")
    assert kept == {"FAKE_TOKEN", "SMALL_TOKEN", "OTHER_TOKEN", "FLAG_TOKEN"}


def test_a_profile_of_another_job_in_the_ledger_is_in_use(run):
    """Even if that job still waits, and the program is run for a job of another profile."""
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("later", profile="other")])
    assert run() == {"FLAG_TOKEN"}


def test_a_profile_of_a_job_that_was_added_since_is_in_use(run):
    variables = CredentialVariables(Profile(), [None, "gone"], None, [])
    notification = Notification(1, "a", 0.0, 1, None, {"profile": "other"})
    assert variables.hidden_for(notification._replace(outcome={"profile": None})) == set()
    assert variables.hidden_for(notification) == {"OTHER_TOKEN"}


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--exec-env", "NAME"], "--exec-env needs --exec PROGRAM"),
        (
            ["--exec-env", "sk-abc=def", "--exec", "true"],
            "give only the name of an environment variable",
        ),
        (["--exec-env", "", "--exec", "true"], "give only the name of an environment variable"),
    ],
)
def test_a_flag_that_makes_no_sense_is_a_one_line_error(flags, message, api, pollkit):
    added(api, 1)
    code, _, err = pollkit("run", "jobs.db", *flags)
    assert (code, err.count("\n")) == (2, 1) and message in err and "abc" not in err
