"""The kinds of storage with which the slow tests of ledgers run."""

import pytest

import postgres_server


@pytest.fixture(params=["sqlite", "postgres", "pgbouncer"])
def storage(request):
    if request.param != "sqlite":
        postgres_server.skip_unless_available()
    return request.param
