"""Errors that name a resource that this host lacks are not reported as bugs."""

import errno
import os
import resource
import sqlite3

import pytest

from commands import run_pollkit
from descriptors import needs_proc, open_descriptors
from pollkit.cli.main import report_failure
from pollkit.edges.shortages import can_open_files, describe_shortage
from pollkit.edges.sqlite_file import explain_error

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


@needs_proc
@pytest.mark.parametrize("free, cause", [(2, "too many open files"), (9, "check its directory")])
def test_a_ledger_needs_several_files_at_once(monkeypatch, free, cause):
    """SQLite reports any shortage of descriptors as a file that it can't open."""
    before = open_descriptors()
    really_open = os.open

    def open_if_free(path, flags):
        if len(open_descriptors()) >= len(before) + free:
            raise OSError(errno.EMFILE, "Too many open files")
        return really_open(path, flags)

    monkeypatch.setattr(os, "open", open_if_free)
    error = sqlite3.OperationalError("unable to open database file")
    assert cause in str(explain_error("jobs.db", error))
    assert can_open_files(2)
    assert open_descriptors() == before


def limit_files(count):
    """A preexec_fn after which the process may have so many files open."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def test_add_names_the_limit_on_open_files_and_does_not_blame_the_file_system(tmp_path):
    """With a few files more, SQLite opens the ledger, but not its write-ahead log."""
    errors = []
    code = 0
    limit = 12
    while code == 0:
        folder = tmp_path / str(limit)
        folder.mkdir()
        words = ["add", "jobs.db", "http://127.0.0.1:9/1"]
        code, _, err = run_pollkit(folder, *words, preexec_fn=limit_files(limit))
        assert "file system" not in err
        errors.append(err)
        limit -= 1
    assert code == 2 and "too many open files: raise the limit (ulimit -n)" in errors[-1]


def test_the_demo_names_the_limit_on_open_files_at_once(tmp_path):
    code, out, err = run_pollkit(tmp_path, "demo", "--quick", preexec_fn=limit_files(9))
    assert (code, out) == (2, "")
    assert err == "pollkit: the demo needs 12 more open files: raise the limit (ulimit -n)\n"
