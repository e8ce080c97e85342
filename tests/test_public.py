"""The public names of pollkit, and their documentation with examples that run."""

import doctest
import importlib.util
import inspect
import linecache
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


def has_examples(name):
    with open(importlib.util.find_spec(name).origin, encoding="utf-8") as file:
        return ">>> " in file.read()


EXPORTS = """
    wait submit Poller BatchPoller Ledger LedgerRunner Simulation Job Profile Outcome State Event
    Reply Fault Fixed Backoff Adaptive TokenBucket SharedBucket History PollkitError ConfigError
    JobError JobFailed JobTimedOut JobUnreachable LedgerError adapters
""".split()
RECEIVED = ["Outcome", "State", "Event"]  # values that users receive but don't create
CALLED = [getattr(pollkit, name) for name in EXPORTS if name not in RECEIVED + ["adapters"]]
CALLED += [getattr(pollkit.adapters, name) for name in pollkit.adapters.__all__]
CALLED.remove(pollkit.adapters.HttpRequest)  # received, too


def test_the_package_exports_these_names_and_no_others():
    assert pollkit.__all__ == sorted(EXPORTS)
    assert set(EXPORTS) <= set(dir(pollkit))


@pytest.mark.parametrize("name", pollkit.__all__)
def test_every_export_has_a_docstring(name):
    assert getattr(pollkit, name).__doc__.strip()
    assert name in pollkit.__dict__  # imported once, then an ordinary attribute


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Waiter'"):
        pollkit.Waiter  # noqa: B018


def test_type_checkers_and_python_see_the_same_names():
    with open(os.path.join(ROOT, "pollkit", "__init__.py")) as file:
        typed = re.findall(r"import (\w+) as \w+", file.read())
    assert sorted(typed) == pollkit.__all__


@pytest.mark.parametrize("name", list(filter(has_examples, MODULES)))
def test_the_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    linecache.clearcache()  # for each docstring, doctest checks whether a file in it has changed
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize("called", CALLED)
def test_the_docstring_of_every_name_that_users_call_or_catch_has_an_example(called):
    assert ">>>" in called.__doc__


@pytest.mark.parametrize(
    "function",
    [pollkit.wait, pollkit.submit, pollkit.Poller, pollkit.BatchPoller, pollkit.LedgerRunner],
)
def test_parameters_are_spelled_out(function):
    kinds = {each.kind for each in inspect.signature(function).parameters.values()}
    assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


def test_wait_has_the_parameters_of_poller():
    own = inspect.signature(pollkit.wait).parameters
    poller = inspect.signature(pollkit.Poller).parameters
    assert set(own) - {"job"} == set(poller)
    assert all(own[name].default == poller[name].default for name in poller)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_has_a_docstring(name):
    assert importlib.import_module(name).__doc__.strip()


def test_the_version_is_a_literal_and_in_the_changelog():
    """A copied folder has no metadata, and setup.cfg reads it without importing anything."""
    with open(os.path.join(ROOT, "pollkit", "__init__.py"), encoding="utf-8") as file:
        assert '\n__version__ = "%s"\n' % pollkit.__version__ in file.read()
    with open(os.path.join(ROOT, "CHANGELOG.md"), encoding="utf-8") as file:
        assert "## " + pollkit.__version__ in file.read()


@pytest.mark.parametrize(
    "words, code, text",
    [
        ([], 0, "usage: "),
        (["--help"], 0, "usage: "),
        (["--version"], 0, "pollkit " + pollkit.__version__),
        (["frobnicate"], 2, "pollkit: there is no command 'frobnicate'"),
    ],
)
def test_the_module_runs(words, code, text):
    done = subprocess.run(
        [sys.executable, "-m", "pollkit"] + words,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == code
    assert text in done.stdout.decode()
    if code:
        assert done.stdout.count(b"\n") == 1


def readme_examples():
    """The README's Python examples, each with the line it starts at."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        yield pytest.param(match.group(1), id="line %d" % (text.count("\n", 0, match.start()) + 2))


@pytest.mark.parametrize("code", list(readme_examples()))
def test_the_readmes_python_compiles_and_uses_only_public_names(code):
    compile(code, "README.md", "exec")
    for name in re.findall(r"pollkit\.(\w+)", code):
        assert name in pollkit.__all__ + ["testing"], name


def test_the_readmes_console_sessions_show_the_real_output():
    result = doctest.testfile(
        os.path.join(ROOT, "README.md"), module_relative=False, encoding="utf-8"
    )
    assert result.attempted >= 5 and result.failed == 0


def test_no_module_is_much_longer_than_400_lines():
    for name in MODULES:
        with open(importlib.import_module(name).__file__, encoding="utf-8") as file:
            assert sum(1 for _ in file) <= 420, name
