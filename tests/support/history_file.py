"""What the tests of the history have in common: what is taught to a file of it, and found there."""

import itertools
import os

import pytest

from pollkit.core.learning.durations import Completion
from pollkit.edges.history_file import History, Kind

KIND = Kind("knowhere", "small")
BEGINNINGS = itertools.count(10**9, 10**4)  # of jobs that run one after the other
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


def teach(path, durations, kind=KIND):
    """Keep durations as a process of its own would; what it was told of is given back."""
    said = []
    with History(path, said.append, said.append) as history:
        for duration in durations:
            history.record(kind, Completion(duration, duration, next(BEGINNINGS)))
    return said


def steady(number):
    """Durations that look like no drift."""
    return [round(90 + 20 * (i * 0.618 % 1), 3) for i in range(number)]


def known(path, kind=KIND):
    """The durations that a new process finds."""
    return History(path).durations(kind).as_dict()["durations"]


def content(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def in_children(number, work):
    """Let so many processes do it at once; none may fail."""
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
