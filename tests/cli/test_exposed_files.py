"""Every command warns of secrets that others can read, and of profiles that others can change."""

import os
import shutil

import pytest

from ledger_shell import added, posix, profile, start, wait_for_exit
from tls_servers import CLIENT_CERT, CLIENT_KEY

READ = "others on this host can read "
CHANGE = "others on this host can change "
COMMANDS = {
    "wait": ["wait", "job_0", "--profile", "fake"],
    "batch": ["batch", "job_0", "job_1", "--profile", "fake"],
    "add": ["add", "other.db", "job_0", "--profile", "fake"],
    "run": ["run", "jobs.db"],
    "run --dry-run": ["run", "jobs.db", "--dry-run"],
    "status": ["status", "jobs.db"],
    "profiles": ["profiles"],
    "profiles show": ["profiles", "show", "fake"],
    "profiles check": ["profiles", "check", "mine.ini"],
    "doctor": ["doctor", "job_0", "--profile", "fake"],
}

pytestmark = posix


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_warns_once_of_a_profile_that_others_can_change(api, pollkit, command):
    added(api, 2, lasts=0)
    pollkit()  # discards the output
    assert CHANGE not in "".join(pollkit(*COMMANDS[command])[1:])
    os.chmod("mine.ini", 0o646)
    os.unlink("jobs.db")
    added(api, 2, lasts=0)
    pollkit()
    out, err = pollkit(*COMMANDS[command])[1:]
    where = out if command == "doctor" else err
    assert where.count(CHANGE) == 1
    assert "chmod go-w " in where


def test_several_processes_warn_once_together(api):
    added(api, 2, lasts=0)
    os.chmod("mine.ini", 0o646)
    code, out, err = wait_for_exit(start("run", "jobs.db", "--processes", "3"))
    assert (code, err.count(CHANGE)) == (0, 1)


@pytest.mark.parametrize("command", ["wait", "batch", "run", "doctor"])
@pytest.mark.parametrize("source", ["file", "netrc", "client key"])
def test_commands_that_poll_warn_once_of_a_secret_that_others_can_read(
    api, pollkit, monkeypatch, command, source
):
    secret = os.path.abspath("secret")
    shutil.copyfile(CLIENT_KEY, secret)
    lines = {
        "file": "auth = bearer file:secret\n",
        "netrc": "auth = netrc\n",
        "client key": "client_cert = %s\nclient_key = %s\n" % (CLIENT_CERT, secret),
    }
    if source != "client key":
        with open(secret, "w") as file:
            file.write("machine 127.0.0.1 login me password s3cr3t")
    monkeypatch.setenv("NETRC", secret)
    profile(api.base, lines[source])
    os.chmod(secret, 0o600)
    added(api, 2, lasts=0)
    assert READ not in "".join(pollkit(*COMMANDS[command])[1:])
    os.chmod(secret, 0o644)
    os.unlink("jobs.db")
    added(api, 2, lasts=0)
    code, out, err = pollkit(*COMMANDS[command])
    where = out if command == "doctor" else err
    assert (code, where.count(READ)) == (0, 1)
    assert "chmod 600 " in where and "s3cr3t" not in out + err


def test_a_profile_that_only_ones_own_group_can_change_is_not_warned_of(api, pollkit):
    """Hosts with a umask of 002 give each user a group of the same name."""
    os.chmod("mine.ini", 0o664)
    is_private = os.stat("mine.ini").st_gid == 0 and os.geteuid() == 0
    if not is_private:
        pytest.skip("needs root, whose group is its own")
    assert CHANGE not in pollkit("profiles")[2]
    os.chown("mine.ini", -1, 65534)
    assert CHANGE in pollkit("profiles")[2]
