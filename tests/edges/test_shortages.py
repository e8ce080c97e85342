"""Errors that name a resource that this host lacks are not reported as bugs."""

import errno

import pytest

from pollkit.cli.main import report_failure
from pollkit.edges.shortages import describe_shortage

SHORTAGES = [
    (MemoryError(), "out of memory: is it limited (ulimit -v)?"),
    (RuntimeError("can't start new thread"), "can't start a thread: are processes (ulimit -u)"),
    (OSError(errno.EMFILE, "x"), "too many open files: raise the limit (ulimit -n)"),
    (SystemError("error return"), "Python itself failed (error return): is there enough memory"),
    (ImportError("failed to map segment", name="_ssl"), "this Python can't import _ssl: is it"),
]


@pytest.mark.parametrize("error, expected", SHORTAGES)
def test_a_shortage_is_one_line_with_a_remedy(error, expected, capsys):
    assert describe_shortage(error).startswith(expected)
    assert report_failure(error) == 2
    assert capsys.readouterr().err.startswith("pollkit: " + expected)


@pytest.mark.parametrize("error", [RuntimeError("x"), OSError(errno.EPERM, "x"), ValueError()])
def test_other_errors_are_no_shortage(error):
    assert describe_shortage(error) == ""
