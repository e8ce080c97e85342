"""A ledger in a folder, and notifiers for it."""

import os

import pytest

from ledger_host import folder
from pollkit import Ledger
from pollkit.drivers.ledger.notifier import Notifier


@pytest.fixture
def place():
    with folder() as path:
        yield path


@pytest.fixture
def outbox(place):
    return os.path.join(place, "out.jsonl")


@pytest.fixture
def ledger(place):
    with Ledger(os.path.join(place, "jobs.db")) as found:
        yield found


@pytest.fixture
def failures():
    """The failures that were passed to on_failure."""
    return []


@pytest.fixture
def start_notifier(ledger, failures):
    started = []

    def start(program=None, outbox=None, **options):
        notifier = Notifier(ledger, program, outbox, failures.append, **options)
        notifier.start()
        started.append(notifier)
        return notifier

    yield start
    for notifier in started:
        notifier.stop()
