"""A profile, jobs and their states for the tests of ledger runs, in the working directory."""

from pollkit import Ledger
from pollkit.cli import main


def profiles(text):
    with open("mine.ini", "w") as file:
        file.write(text)


def added(api, names, **job):
    for name in names:
        api.add(name, **job)
    assert main(["add", "jobs.db", "--profile", "fake", "--quiet"] + list(names)) == 0


def states():
    with Ledger("jobs.db") as ledger:
        return {state: count for state, count in ledger.summary().states.items() if count}
