"""The parts of a ledger."""

import pytest


@pytest.fixture
def leases(ledger):
    return ledger._leases


@pytest.fixture
def notifications(ledger):
    return ledger._notifications


@pytest.fixture
def statistics(ledger):
    return ledger.statistics
