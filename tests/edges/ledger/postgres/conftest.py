"""The tests in this folder are about PostgreSQL."""

import pytest

import postgres_server


@pytest.fixture
def storage():
    postgres_server.skip_unless_available()
    return "postgres"


@pytest.fixture
def server():
    """A server that the test may stop and restart."""
    postgres_server.skip_unless_available()
    made = postgres_server.PostgresServer()
    yield made
    made.remove()
