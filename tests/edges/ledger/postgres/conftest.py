"""The tests in this folder are about PostgreSQL."""

import pytest

import postgres_server


@pytest.fixture
def storage():
    postgres_server.skip_unless_available()
    return "postgres"


@pytest.fixture(scope="module")
def own_server():
    """A server for the tests of one file."""
    postgres_server.skip_unless_available()
    made = postgres_server.PostgresServer()
    yield made
    made.remove()


@pytest.fixture
def server(own_server):
    """A server that the test may stop and restart."""
    yield own_server
    if own_server.process.poll() is not None:
        own_server.start()
