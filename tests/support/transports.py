"""The four transports, for suites that run over all of them."""

import os
import shutil

import pytest

from pollkit.edges.http.adapters.catalog import named_adapter

NAMES = ["builtin", "urllib", "requests", "curl"]


def needs_program(name):
    """The path of a program; skip the test if it is not installed, or fail in CI."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if path is None:
        assert os.environ.get("CI") != "true", "CI must have %s: see .ci/run" % name
        pytest.skip("%s is not installed" % name)
    return path


def adapter_for(name):
    """The adapter of a transport; None for the built-in one."""
    if name == "curl":
        needs_program("curl")
    return named_adapter(name)
