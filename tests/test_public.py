"""What pollkit exports, and that it is documented by examples that run."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys

import pytest

import pollkit
import pollkit.testing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(pollkit.__file__)))
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(pollkit.__path__, "pollkit.")
    if not module.name.endswith("__main__")
)


def test_the_exports_are_what_the_design_names():
    assert set(pollkit.__all__) == set(
        """
        wait Poller BatchPoller Simulation Job Profile Outcome Reply Fault Fixed Backoff Adaptive TokenBucket
        PollkitError ConfigError JobFailed JobTimedOut JobUnreachable Ledger SharedBucket LedgerError""".split()
    )
    assert set(pollkit.__all__) <= set(dir(pollkit))


@pytest.mark.parametrize("name", pollkit.__all__)
def test_every_export_has_a_docstring(name):
    assert getattr(pollkit, name).__doc__.strip()
    assert name in pollkit.__dict__  # looked up once, then an ordinary attribute


def test_a_name_that_is_not_there_says_so():
    with pytest.raises(AttributeError, match="no attribute 'Waiter'"):
        pollkit.Waiter  # noqa: B018


def test_type_checkers_and_python_see_the_same_names():
    with open(os.path.join(ROOT, "pollkit", "__init__.py")) as file:
        typed = re.findall(r"import (\w+) as \w+", file.read())
    assert sorted(typed) == pollkit.__all__


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize(
    "name",
    [
        "Fixed",
        "Backoff",
        "Adaptive",
        "Job",
        "Profile",
        "Reply",
        "Fault",
        "TokenBucket",
        "Poller",
        "BatchPoller",
        "Simulation",
        "wait",
        "Ledger",
        "SharedBucket",
    ],
)
def test_what_users_call_comes_with_an_example(name):
    assert ">>>" in getattr(pollkit, name).__doc__


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name):
    assert importlib.import_module(name).__doc__.strip()


def test_the_version_is_a_literal_and_in_the_changelog():
    """A copied folder has no metadata to ask, and setup.cfg reads it without importing anything."""
    with open(os.path.join(ROOT, "pollkit", "__init__.py"), encoding="utf-8") as file:
        assert '\n__version__ = "%s"\n' % pollkit.__version__ in file.read()
    with open(os.path.join(ROOT, "CHANGELOG.md"), encoding="utf-8") as file:
        assert "## " + pollkit.__version__ in file.read()


@pytest.mark.parametrize(
    "words, code, said",
    [
        ([], 0, "usage: "),
        (["--help"], 0, "usage: "),
        (["--version"], 0, "pollkit " + pollkit.__version__),
        (["frobnicate"], 2, "pollkit: there is no command 'frobnicate'"),
    ],
)
def test_the_module_runs(words, code, said):
    done = subprocess.run(
        [sys.executable, "-m", "pollkit"] + words,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == code and said in done.stdout.decode()
    if code:
        assert done.stdout.count(b"\n") == 1


def readme_examples():
    """The README's Python examples, each with the line it starts at."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        yield pytest.param(match.group(1), id="line %d" % (text.count("\n", 0, match.start()) + 2))


@pytest.mark.parametrize("code", list(readme_examples()))
def test_the_readmes_python_compiles_and_uses_only_what_is_exported(code):
    compile(code, "README.md", "exec")
    for name in re.findall(r"pollkit\.(\w+)", code):
        assert name in pollkit.__all__ + ["testing"], name


def test_the_readmes_console_sessions_show_what_really_happens():
    result = doctest.testfile(
        os.path.join(ROOT, "README.md"), module_relative=False, encoding="utf-8"
    )
    assert result.attempted >= 5 and result.failed == 0


def test_nothing_long():
    """One idea a file: none over 400 lines or so."""
    for name in MODULES:
        with open(importlib.import_module(name).__file__, encoding="utf-8") as file:
            assert sum(1 for _ in file) <= 420, name
