"""A home with a job API for ledger runs, and `pollkit` as a function."""

import os

import pytest

from ledger_host import home
from ledger_runs import profiles
from pollkit.cli import main
from pollkit.testing import FakeJobApi


@pytest.fixture(autouse=True)
def place(monkeypatch):
    with home(monkeypatch) as path:
        monkeypatch.setenv("POLLKIT_PROFILES", os.path.join(path, "mine.ini"))
        yield path


@pytest.fixture
def api():
    with FakeJobApi() as served:
        profiles("[fake]\nurl = %s/jobs/{id}\nproxy = none\nlimit = 1000/s burst 50" % served.base)
        yield served


@pytest.fixture
def pollkit(capsys):
    def runs(*words):
        code = main(list(words))
        out, err = capsys.readouterr()
        assert out == ""
        return code, err

    return runs
