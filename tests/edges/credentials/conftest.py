"""The tests in this folder find no credential but their own."""

import os

import pytest


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """No credential, netrc or proxy but those of the test."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in ("TOKEN", "NETRC"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch
