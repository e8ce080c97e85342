"""What holds for every test: one that hangs shows where, and none writes into the history of whoever runs them."""
import faulthandler
import itertools
import os
import threading

import pytest

HANGS_S = 300  # all of them together take a fraction of it
_numbers = itertools.count()


def pytest_configure(config):
    # Once for all tests: pytest's own faulthandler_timeout starts a thread for each, a tenth of the time.
    faulthandler.dump_traceback_later(HANGS_S, file=os.dup(2))


@pytest.fixture(autouse=True)
def history_of_its_own(monkeypatch, tmp_path_factory):
    """A folder for each test, made by pollkit if it is used at all. Processes inherit it, or have no HOME."""
    place = tmp_path_factory.getbasetemp() / "histories" / str(next(_numbers))
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
    return place / "pollkit" / "history.json"


@pytest.fixture
def no_thread_is_left():
    """Whatever a test does, after it no thread is left that was not there before."""
    before = threading.enumerate()
    yield
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []
