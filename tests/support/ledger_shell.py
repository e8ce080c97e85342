"""Helpers for tests of ledger commands, in the working directory: jobs, pollkit processes."""

import json
import os
import subprocess
import sys

import pytest

from ledger_host import ROOT
from pollkit.cli import main

PLAIN = """
import sys
from pollkit.drivers.ledger import run
run.TURN_S = 0.05
from pollkit.cli import main, processes
processes.PARENT_CHECK_S = 0.05
sys.exit(main(sys.argv[1:]))
"""
posix = pytest.mark.skipif(os.name != "posix", reason="for POSIX only")


def profile(base, more="limit = 1000/s burst 50\n"):
    """Write a profile named fake for the API at `base`, and have POLLKIT_PROFILES name it."""
    with open("mine.ini", "w") as file:
        file.write(
            "[fake]\nurl = %s/jobs/{id}\nresult = result\nerror = error.message\n"
            "pace = fixed 30ms\n"
            "created = created_at\nfinished = finished_at\nproxy = none\n%s"
            "[fake:small]\nup_to = 10\n" % (base, more)
        )
    os.environ["POLLKIT_PROFILES"] = os.path.abspath("mine.ini")


def start(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-c", PLAIN] + list(words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env=dict(os.environ, PYTHONPATH=ROOT),
        **options,
    )


def wait_for_exit(process, timeout=30):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def added(api, count, ledger="jobs.db", **job):
    names = ["job_%d" % i for i in range(count)]
    for name in names:
        api.add(name, **job)
    assert main(["add", ledger, "--profile", "fake", "--quiet"] + names) == 0
    return names


def lines_of(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def script(text, name="notify"):
    with open(name, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(name, 0o755)
    return os.path.abspath(name)
