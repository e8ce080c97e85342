"""A job API, and a home without settings."""

import os

import pytest

from pollkit.testing import FakeJobApi


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in [
        name for name in os.environ if name.startswith("POLLKIT") or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def api():
    with FakeJobApi() as api:
        yield api
