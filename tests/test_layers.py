"""Imports point one way: errors <- core <- edges <- drivers <- cli, and to the standard library.

The top level has nothing but the files and folders of the design.
"""

import ast
import os
import shutil
import subprocess

import pytest

import pollkit
from stdlib_names import STDLIB

PACKAGE = os.path.dirname(os.path.abspath(pollkit.__file__))
ROOT = os.path.dirname(PACKAGE)
TOP_LEVEL = set(
    "CHANGELOG.md LICENSE README.md pollkit pyproject.toml scripts setup.cfg tests".split()
)
LAYERS = ["errors", "core", "edges", "drivers", "cli"]
# Packages besides the standard library, each with the one module that may import it, late
OTHER_PACKAGES = [("edges/http/adapters/requests_transport.py", "requests")]
# Modules that core may not import
IMPURE = set(
    "http io logging os random select signal socket sqlite3 ssl subprocess sys threading "
    "time".split()
)


def modules():
    for folder, _, files in os.walk(PACKAGE):
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                yield os.path.relpath(path, PACKAGE).replace(os.sep, "/")


def statements(tree):
    """All statements of a module; ast.walk takes three times as long for the expressions, too."""
    remaining = [tree]
    while remaining:
        node = remaining.pop()
        yield node
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            remaining += getattr(node, name, [])


def imports(relative):
    """Every module that a file imports, as (dotted name, whether it is pollkit's own)."""
    with open(os.path.join(PACKAGE, relative), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    parts = relative[:-3].split("/")
    here = parts[:-1]
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, alias.name.split(".")[0] == "pollkit"
        elif isinstance(node, ast.ImportFrom):
            if not node.level:
                is_intern = node.module == "sys" and [alias.name for alias in node.names] == [
                    "intern"
                ]
                yield (
                    "sys.intern" if is_intern else node.module,
                    node.module.split(".")[0] == "pollkit",
                )
                continue
            base = here[: len(here) - node.level + 1] + (
                node.module.split(".") if node.module else []
            )
            for alias in node.names:
                yield ".".join(["pollkit"] + base + ([] if node.module else [alias.name])), True


def layer(parts):
    return LAYERS.index(parts[0]) if parts and parts[0] in LAYERS else None


def wrong_imports(relative, found):
    """The forbidden imports of a file."""
    own = layer(relative[:-3].split("/"))
    for name, ours in found:
        if not ours:
            is_allowed = (relative, name) in OTHER_PACKAGES
            if name.split(".")[0] not in STDLIB and not is_allowed:
                yield "%s imports %s, which is not in the standard library" % (relative, name)
            elif (
                own == LAYERS.index("core")
                and name.split(".")[0] in IMPURE
                and name != "sys.intern"
            ):
                yield "%s is pure and imports %s" % (relative, name)
            continue
        target = layer(name.split(".")[1:])
        if own is not None and target is not None and target > own:
            yield "%s imports %s, from a layer above its own" % (relative, name)


def type_only(relative):
    """errors.py names Outcome for type checkers only."""
    return relative == "errors.py"


@pytest.mark.parametrize("relative", list(modules()))
def test_imports_point_one_way_and_to_the_standard_library(relative):
    if type_only(relative):
        assert set(imports(relative)) == {("typing", False), ("pollkit.core.model", True)}
    else:
        assert list(wrong_imports(relative, imports(relative))) == []


@pytest.mark.parametrize(
    "relative, found",
    [
        ("core/waiting/pace.py", [("time", False)]),
        ("core/waiting/pace.py", [("pollkit.edges.clock", True)]),
        ("edges/http/transport.py", [("requests", False)]),
        ("edges/http/adapters/requests_transport.py", [("httpx", False)]),
        ("edges/http/transport.py", [("pollkit.drivers.single", True)]),
        ("drivers/single.py", [("pollkit.cli", True)]),
    ],
)
def test_the_check_itself_sees_a_wrong_import(relative, found):
    assert len(list(wrong_imports(relative, found))) == 1


def test_every_layer_is_there():
    assert {name.split("/")[0] for name in modules()} >= {
        "core",
        "edges",
        "drivers",
        "cli",
        "errors.py",
    }


def test_no_module_is_named_after_one_of_the_standard_library():
    """A script beside such a module would import it instead of the real one."""
    names = {os.path.basename(name)[:-3] for name in modules()} - {"__init__", "__main__"}
    assert not names & STDLIB


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.skipif(not os.path.exists(ROOT + "/.git"), reason="needs a clone")
def test_nothing_else_is_at_the_top_level():
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, universal_newlines=True)
    names = {path.partition("/")[0] for path in tracked.splitlines()}
    assert {name for name in names if not name.startswith(".")} == TOP_LEVEL
