"""The tests in this folder are about SQLite."""

import pytest


@pytest.fixture
def storage():
    return "sqlite"
