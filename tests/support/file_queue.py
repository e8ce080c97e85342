"""Lets several processes of pytest share a queue of test files: scripts/test.py writes it.

Each process claims one file after the other, so that all of them end at about the same time.
"""

import contextlib
import fcntl
import os

import pytest


def register(config):
    """Run tests from the queue that scripts/test.py names, if it does; children get no queue."""
    path = os.environ.pop("TESTS_QUEUE", None)
    from_end = os.environ.pop("TESTS_QUEUE_FROM_END", "") != ""
    if path:
        config.pluginmanager.register(QueueRunner(path, from_end))


@contextlib.contextmanager
def locked_lines(path):
    """The lines of the queue, locked for other processes; changes are saved."""
    with open(path, "r+") as queue:
        fcntl.flock(queue, fcntl.LOCK_EX)
        lines = queue.read().splitlines()
        yield lines
        queue.seek(0)
        queue.truncate()
        queue.write("\n".join(lines))


class QueueRunner:
    """A plugin of pytest that imports each file of tests when this process has claimed it."""

    def __init__(self, path, from_end):
        self._path = path
        self._position = -1 if from_end else 0
        self._modules = {}  # by the names of their files

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session):
        with locked_lines(self._path) as lines:
            names = " ".join(lines).split()
        for module in session.perform_collect(names, genitems=False):
            self._modules[module.nodeid] = module
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        session.testscollected = 0
        names = self._claim()
        while names:
            self._run(session, names)
            names = self._claim()
        return True

    def _claim(self):
        """Take a line off the queue; the files that it names."""
        with locked_lines(self._path) as lines:
            return lines.pop(self._position).split() if lines else []

    def _run(self, session, names):
        items = [item for name in names for item in session.genitems(self._modules[name])]
        session.testscollected += len(items)
        hook = session.config.hook
        hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
        for item, following in zip(items, items[1:] + [None]):
            hook.pytest_runtest_protocol(item=item, nextitem=following)
