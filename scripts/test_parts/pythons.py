"""The Pythons to test on: find them, and make a virtual environment for each."""

import os
import re
import shutil
import sys
import threading
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from .common import ROOT, Failure, run_command

SUPPORTED = [(3, minor) for minor in range(6, 14)]
REQUIREMENTS = ["pytest", "responses", "psycopg[binary]", "psycopg2-binary", "pg8000"]
# The last releases for Python 3.6; the pip 18.1 that comes with it is too old to install them.
REQUIREMENTS_36 = ["pytest==7.0.1", "responses==0.17.0", "psycopg2-binary==2.9.5", "pg8000==1.26.0"]
PIP_36 = "pip==21.3.1"
TOOLS = ["coverage", "mypy", "ruff", "atheris"]

Version = Tuple[int, ...]

_one_at_a_time = threading.Lock()


class Python(NamedTuple):
    """An interpreter."""

    path: str
    prefix: str  # identifies the installation, which may have several paths
    version: Version


def version_text(version: Version) -> str:
    """A version with dots."""
    return ".".join(map(str, version))


def current_python() -> Python:
    """The Python that runs this script."""
    return Python(sys.executable, sys.base_prefix, tuple(sys.version_info[:3]))


def find_pythons(versions: List[Version]) -> Dict[Version, Python]:
    """The installed Pythons among these versions."""
    root = _pyenv_root()
    found = {}
    for version in versions:
        for path in _candidate_paths(root, version):
            python = _inspect(path)
            if python and python.version[:2] == version:
                found[version] = python
                break
    return found


def _pyenv_root() -> str:
    if os.environ.get("PYENV_ROOT"):
        return os.environ["PYENV_ROOT"]
    if shutil.which("pyenv"):
        code, output = run_command(["pyenv", "root"])
        if code == 0:
            return os.fsdecode(output.strip())
    return os.path.expanduser("~/.pyenv")


def _candidate_paths(root: str, version: Version) -> Iterator[str]:
    """Paths of this Python, best first: from pyenv, newest patch first, then from PATH."""
    versions = os.path.join(root, "versions")
    release = re.compile(re.escape(version_text(version)) + r"\.(\d+)")
    names = os.listdir(versions) if os.path.isdir(versions) else []
    matches = filter(None, map(release.fullmatch, names))
    for match in sorted(matches, key=lambda match: -int(match.group(1))):
        yield os.path.join(versions, match.group(), "bin", "python3")
    on_path = shutil.which("python" + version_text(version))
    if on_path:
        yield on_path


def _inspect(path: str) -> Optional[Python]:
    """The CPython at this path; None for a broken build or a pyenv shim without a target."""
    program = (
        "import platform, sys; print(platform.python_implementation(), *sys.version_info[:3]);"
        "print(sys.base_prefix)"
    )
    try:
        code, output = run_command([path, "-c", program])
    except Failure:
        return None
    lines = os.fsdecode(output).splitlines()
    if code != 0 or len(lines) != 2 or not lines[0].startswith("CPython "):
        return None
    return Python(path, lines[1], tuple(map(int, lines[0].split()[1:])))


def prepare(python: Python, needs_tools: bool = False) -> str:
    """The interpreter of a virtual environment for the tests, which is created if necessary."""
    with _one_at_a_time:
        return _prepare(python, needs_tools)


def _prepare(python: Python, needs_tools: bool) -> str:
    name = version_text(python.version[:2]) + ("-tools" if needs_tools else "")
    venv = os.path.join(ROOT, ".venvs", name)
    inner = os.path.join(venv, "Scripts\\python.exe" if os.name == "nt" else "bin/python")
    is_36 = python.version < (3, 7)
    requirements = REQUIREMENTS_36 if is_36 else REQUIREMENTS
    if needs_tools:
        requirements = requirements + TOOLS

    # This file is written last, so an incomplete environment has none.
    stamp = os.path.join(venv, "installed.txt")
    content = os.fsencode("\n".join([python.prefix, version_text(python.version)] + requirements))
    if os.access(inner, os.X_OK) and _read(stamp) == content:
        return inner

    print("test.py: creating .venvs/" + name, file=sys.stderr, flush=True)
    install = [inner, "-m", "pip", "install", "--disable-pip-version-check"]
    _run_or_fail([python.path, "-m", "venv", "--clear", venv])
    if is_36:
        _run_or_fail(install + [PIP_36])
    _run_or_fail(install + requirements)
    with open(stamp, "wb") as file:
        file.write(content)
    return inner


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _run_or_fail(command: List[str]) -> None:
    code, output = run_command(command)
    if code != 0:
        raise Failure("failed: " + " ".join(command), output)
