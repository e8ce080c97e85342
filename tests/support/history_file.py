"""Helpers for tests of the history: save durations to a file, and read them back."""

import itertools
import os

import pytest

from pollkit.core.learning.durations import Completion
from pollkit.edges.history_file import History, Kind

KIND = Kind("knowhere", "small")
STARTS = itertools.count(10**9, 10**4)  # of jobs that run one after the other
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


def save_durations(path, durations, kind=KIND):
    """Save durations as a separate process would; the warnings that it got."""
    warnings = []
    with History(path, warnings.append, warnings.append) as history:
        for duration in durations:
            history.record(kind, Completion(duration, duration, next(STARTS)))
    return warnings


def steady(number):
    """Durations without drift."""
    return [round(90 + 20 * (i * 0.618 % 1), 3) for i in range(number)]


def read_durations(path, kind=KIND):
    """The durations that a new process reads."""
    return History(path).durations(kind).as_dict()["durations"]


def content(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def in_children(number, work):
    """Let several processes do the work at once; none may fail."""
    children = []
    for i in range(number):
        child = os.fork()
        if not child:
            code = 1
            try:
                work(i)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * number
