"""The sources in pollkit.pyz: without comments, docstrings and the annotations of functions."""

import ast
import importlib.util
import os

import pytest

from paths import ROOT


def load_stripping():
    path = os.path.join(ROOT, "scripts", "stripping.py")
    specification = importlib.util.spec_from_file_location("stripping", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


strip_source = load_stripping().strip_source


def sources():
    for folder, _, names in os.walk(os.path.join(ROOT, "pollkit")):
        for name in names:
            if name.endswith(".py"):
                yield os.path.join(folder, name)


def statements_with_lines(source):
    """The statements, each with its line, without docstrings and the zeros in their place."""
    return [
        (node.lineno, type(node).__name__)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and not is_constant(node)
    ]


def is_constant(node):
    return isinstance(node, ast.Expr) and type(node.value).__name__ in ("Constant", "Str", "Num")


def test_the_statements_of_every_module_and_their_lines_stay():
    for path in sources():
        with open(path, "rb") as file:
            source = file.read()
        assert statements_with_lines(strip_source(source)) == statements_with_lines(source), path


@pytest.mark.parametrize(
    "source, stripped",
    [
        ("def f(a: int) -> str: 0\n", "def f(a): 0\n"),
        ("def f() -> Dict[str, int]: 0\n", "def f(): 0\n"),
        ("def f() -> (Dict[str, int]): 0\n", "def f(): 0\n"),
        ("def f(a: int = 1, *b: int, c: int, **d: T): 0\n", "def f(a = 1, *b, c, **d): 0\n"),
        ("def f(a: D[str, int] = {1: 2}, b: T = x): g[1:]\n", "def f(a = {1: 2}, b = x): g[1:]\n"),
        ("def f(a=lambda b: b, c: int=0): 0\n", "def f(a=lambda b: b, c=0): 0\n"),
        ("def f(\n    a: int,  # one\n) -> A: 0\n", "def f(\n    a,\n): 0\n"),
        ("def f() -> Dict[\n    a, b\n]: 0\n", "def f() -> Dict[\n    a, b\n]: 0\n"),
        ("class A(N):\n    a: int = 1\n", "class A(N):\n    a: int = 1\n"),
    ],
)
def test_annotations_of_functions_are_left_out(source, stripped):
    assert strip_source(source.encode()).decode() == stripped


@pytest.mark.parametrize(
    "source, stripped",
    [
        ("x = 1  # one\n", "x = 1\n"),
        ('"""Doc."""\nx = "#"\n', '0\nx = "#"\n'),
        ('def f():\n    """Doc\n    more."""\n    return 1\n', "def f():\n    0\n\n    return 1\n"),
        ('class E(Exception):\n    """Doc."""\n', "class E(Exception):\n    0\n"),
        ('try:\n    "a".encode(b)\n', 'try:\n    "a".encode(b)\n'),
        ("# only\n\nf('''a\n# b''')\n", "\n\nf('''a\n# b''')\n"),
    ],
)
def test_comments_and_docstrings_are_left_out(source, stripped):
    assert strip_source(source.encode()).decode() == stripped


def test_a_module_docstring_can_be_kept():
    source = b'# why\n"""Help."""\n\ndef f():\n    """Doc."""\n'
    assert strip_source(source, True) == b'\n"""Help."""\n\ndef f():\n    0\n'
