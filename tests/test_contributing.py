"""The paths and functions in CONTRIBUTING.md and in the README's layout exist."""

import os
import re

import pytest

from paths import ROOT

FOLDERS = ["", "pollkit", "pollkit/core", "pollkit/edges", "pollkit/drivers", "pollkit/cli"]
PATH = re.compile(r"[\w./-]*(?:\.(?:py|ini|txt|md|toml|yaml|cfg)\b|\w/(?!\w))")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


CONTRIBUTING = read(".github/CONTRIBUTING.md")
README_LAYOUT = read("README.md").partition("\n## Layout\n")[2].partition("\n## ")[0]


def find_paths():
    yield from PATH.findall(README_LAYOUT)
    for code in re.findall(r"`([^`\n]+)`", CONTRIBUTING):
        yield from PATH.findall(code)
    for word in CONTRIBUTING.split():
        if word.startswith(("scripts/", "tests/")):
            yield word


def exists(path):
    return any(os.path.exists(os.path.join(ROOT, folder, path)) for folder in FOLDERS)


def test_paths_are_found():
    paths = set(find_paths())
    assert len(paths) > 50
    assert {
        "waiting/machine.py",
        "pollkit/core/",
        "reading/",
        "scripts/bench.py",
        "tests/slow",
    } <= paths
    assert exists("waiting/machine.py") and not exists("core/nonesuch.py")


@pytest.mark.parametrize("path", sorted(set(find_paths())))
def test_every_path_exists(path):
    assert exists(path)


FUNCTIONS = re.findall(r"`([\w/]+\.py): (?:\w+\.)?(\w+)`", CONTRIBUTING)


def test_functions_are_found():
    assert len(FUNCTIONS) >= 12


@pytest.mark.parametrize("path, name", FUNCTIONS)
def test_every_function_exists(path, name):
    assert re.search(r"^ *(?:def|class) %s\b" % name, read(path), re.MULTILINE)


@pytest.mark.parametrize(
    "name",
    ["COMMANDS", "TRANSITIONS", "Verdict", "parse_quota", "RELEVANT_HEADERS", "_QUOTA_HEADERS"],
)
def test_other_names_exist(name):
    """They are in the file that the same paragraph of CONTRIBUTING.md names."""
    paragraphs = [part for part in CONTRIBUTING.split("\n\n") if "`%s`" % name in part]
    paths = {path for part in paragraphs for path in re.findall(r"`(pollkit/[\w/]+\.py)", part)}
    assert any(re.search(r"\b%s\b" % name, read(path)) for path in paths)
