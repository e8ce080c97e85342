"""scripts/soak.py for a minute: resets, 5xx, pages, hangs, restarts; a squid with a login."""

import os
import subprocess
import sys

from one_python import not_with_the_oldest
from paths import ROOT
from programs import needs_program

SCRIPTS = os.path.join(ROOT, "scripts")


@not_with_the_oldest
def test_every_outcome_is_right_and_everything_is_given_back():
    needs_program("squid")
    script = os.path.join(SCRIPTS, "soak.py")
    done = subprocess.run(
        [sys.executable, script, "--for", "60s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    assert done.returncode == 0, done.stdout
    assert "nothing is wrong" in done.stdout
    assert "soak-user" not in done.stdout and "soak-password" not in done.stdout


CHECK = """
import logging
import sys
sys.path.insert(0, %r)
import soak
from pollkit import Outcome, State
from pollkit.core.model import Error, Slept

def outcome(id, state, result=None, message=None, ended_at=6.0):
    error = message and Error(None, message)
    return Outcome(id, None, None, None, None, State(state), None, result, error, None, 1, 0, 1.0,
                   Slept(), None, 0.0, ended_at)

assert not soak.is_wrong(outcome("7-5000-done", "done", {"number": 7}))
assert not soak.is_wrong(outcome("7-5000-failed", "failed", message="page 7"))
assert soak.is_wrong(outcome("7-5000-done", "failed", message="page 7"))
assert soak.is_wrong(outcome("7-5000-done", "done", {"number": 8}))
assert soak.is_wrong(outcome("7-5000-done", "done", {"number": 7}, ended_at=4.0))
assert soak.is_wrong(outcome("7-5000-failed", "failed", message="page 8"))
assert soak.is_wrong(outcome("7-5000-done", "unreachable"))
before = soak.Resources()
files = [open(__import__("os").devnull) for _ in range(3)]
assert "open files" in soak.Resources().excess_over(before)[0]
logins = soak.LoginSearch()
logging.getLogger("pollkit").addHandler(logins)
logging.getLogger("pollkit").warning("no reply from 127.0.0.1:3128")
assert (logins.count, logins.problems) == (1, [])
logging.getLogger("pollkit").warning("no reply from %%s", "http://" + soak.PASSWORD + "@127.0.0.1")
assert "is in a log" in logins.problems[0]
"""


def test_a_wrong_outcome_and_a_leak_are_noticed():
    subprocess.check_call([sys.executable, "-c", CHECK % SCRIPTS])
