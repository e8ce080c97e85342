"""The four transports, for suites that run over all of them."""

import os
import shutil

import pytest

from pollkit.edges.http.adapters.catalog import named_adapter

NAMES = ["builtin", "urllib", "requests", "curl"]


def needs_program(name):
    """Skip the test if a program is not installed; in CI, fail."""
    if shutil.which(name) is None:
        assert os.environ.get("CI") != "true", "CI must have %s: see .ci/run" % name
        pytest.skip("%s is not installed" % name)


def adapter_for(name):
    """The adapter of a transport; None for the built-in one."""
    if name == "curl":
        needs_program("curl")
    return named_adapter(name)
