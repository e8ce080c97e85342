"""The interface of the storage: implementations match it, and nothing else is used."""

import ast
import inspect
import os

import pytest

from paths import ROOT
from pollkit.edges.ledger import storage as interface
from pollkit.edges.ledger.storage import Storage

PARTS = ("jobs", "leases", "intents", "outages", "notifications", "statistics", "buckets", "copies")


def methods_of(cls):
    functions = inspect.getmembers(cls, inspect.isfunction)
    return {
        name: str(inspect.signature(function)) for name, function in functions if name[0] != "_"
    }


@pytest.mark.parametrize("part", PARTS)
def test_each_part_has_the_methods_of_the_interface_and_no_others(ledger, part):
    """Nobody can use a method that only one implementation has."""
    implementation = type(getattr(ledger._storage, part))
    declared = getattr(interface, part.capitalize())
    assert issubclass(implementation, declared)
    assert methods_of(implementation) == methods_of(declared)
    functions = inspect.getmembers(implementation, inspect.isfunction)
    assert [name for name, function in functions if is_abstract(function)] == []


def is_abstract(function):
    """Whether it is a method that an implementation must replace."""
    return getattr(function, "__isabstractmethod__", False)


def test_the_interface_has_no_other_parts():
    assert sorted(set(Storage.__annotations__) - {"name", "clock"}) == sorted(PARTS)


def modules_with(word):
    """The modules of pollkit that have this word: path and syntax tree."""
    for folder, _, names in os.walk(os.path.join(ROOT, "pollkit")):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                if word in text:
                    yield os.path.relpath(path, ROOT).replace(os.sep, "/"), ast.parse(text)


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_only_the_storage_itself_uses_sqlite():
    allowed = ("pollkit/edges/ledger/sqlite/", "pollkit/edges/sqlite_file.py")
    users = [
        path
        for path, tree in modules_with("sqlite")
        if any("sqlite" in name for name in imported(tree)) and not path.startswith(allowed)
    ]
    assert users == ["pollkit/edges/ledger/opening.py"]
