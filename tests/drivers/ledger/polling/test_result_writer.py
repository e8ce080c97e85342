"""Results of polls are written together, never wait for long, and are reported afterwards."""

import threading

import pytest

from pollkit import LedgerRunner
from pollkit.drivers.engine.unwritten_polls import UnwrittenPolls
from pollkit.drivers.ledger.polling.result_writer import ResultWriter
from pollkit.edges.clock import Clock
from pollkit.errors import LedgerError
from pollkit.testing import FakeJobApi


class Leases:
    """Records the saved results; the lease of 'lost' is lost."""

    longest_delay_s = 1.0

    def __init__(self):
        self.saved = []

    def save(self, results):
        self.saved.append(list(results))
        return [result != "lost" for result in results]


@pytest.fixture
def now():
    """The time, which a test changes."""
    return [100.0]


@pytest.fixture
def saving():
    return Leases()


@pytest.fixture
def writer(saving, now):
    return ResultWriter(saving, lambda: now[0])


@pytest.fixture
def clock():
    return Clock()


def test_results_wait_for_others_for_a_second(writer, saving, now):
    reported = []
    writer.add("a", reported.append, longest_wait_s=60.0)
    now[0] += 0.6
    writer.add("lost", reported.append, longest_wait_s=60.0)
    assert writer.write(can_wait=True) == pytest.approx(0.4)
    assert saving.saved == [] and reported == []
    now[0] += 0.4
    assert writer.write(can_wait=True) is None
    assert saving.saved == [["a", "lost"]] and reported == [True, False]


def test_results_are_written_at_once_if_waiting_is_of_no_use(writer, saving):
    writer.add("a", lambda is_ours: None, longest_wait_s=60.0)
    assert writer.write() is None
    assert saving.saved == [["a"]]


def test_a_result_is_written_before_its_job_is_due_again(writer, saving, now):
    writer.add("a", lambda is_ours: None, longest_wait_s=60.0)
    writer.add("b", lambda is_ours: None, longest_wait_s=0.25)
    assert writer.write(can_wait=True) == pytest.approx(0.25)
    writer.add("c", lambda is_ours: None, longest_wait_s=-3.0)
    assert writer.write(can_wait=True) is None
    assert saving.saved == [["a", "b", "c"]]


def test_100_results_are_written_at_once(writer, saving, now):
    for number in range(100):
        writer.add(number, lambda is_ours: None, longest_wait_s=60.0)
    assert saving.saved == [list(range(100))]
    assert writer.write(can_wait=True) is None


def test_results_that_could_not_be_written_are_not_written_later(writer, saving, now):
    """The run ends: their leases expire, and another run repeats the polls."""
    writer.add("a", lambda is_ours: pytest.fail("it was not written"), longest_wait_s=60.0)
    saving.save = lambda results: (_ for _ in ()).throw(LedgerError("down"))
    with pytest.raises(LedgerError):
        writer.write()
    assert writer.write() is None


class Slots:
    """The slots of an agenda."""

    def __init__(self, in_flight, slots):
        self.in_flight = in_flight
        self._slots = slots

    @property
    def has_free_slot(self):
        return self.in_flight < self._slots

    def release_slot(self):
        self.in_flight -= 1


class Sink:
    """Waits if it may."""

    def __init__(self):
        self.error = None

    def write(self, can_wait):
        if self.error is not None:
            raise self.error
        return 0.5 if can_wait else None


def unwritten_polls(in_flight, slots, unwritten):
    agenda = Slots(in_flight, slots)
    errors = []
    polls = UnwrittenPolls(agenda, threading.Lock(), Sink(), errors.append)
    for _ in range(unwritten):
        polls.add()
    return polls, agenda, errors


@pytest.mark.parametrize(
    "in_flight, slots, waits",
    [(3, 8, True), (2, 8, False), (8, 8, False)],
    ids=["others are in flight", "no other poll is in flight", "no slot is free"],
)
def test_results_wait_only_while_that_costs_no_poll(in_flight, slots, waits):
    polls, agenda, _ = unwritten_polls(in_flight, slots, unwritten=2)
    assert polls.block_others is (in_flight == slots)
    assert polls.write() == (0.5 if waits else None)
    assert agenda.in_flight == in_flight - (0 if waits else 2)
    assert not polls.block_others


def test_results_do_not_wait_when_the_engine_stops():
    polls, agenda, _ = unwritten_polls(3, 8, unwritten=1)
    polls.may_wait = False
    assert polls.write() is None and agenda.in_flight == 2


def test_slots_are_released_even_if_the_results_can_not_be_written():
    polls, agenda, errors = unwritten_polls(1, 8, unwritten=1)
    polls._sink.error = LedgerError("down")
    assert polls.write() is None
    assert errors == [polls._sink.error] and agenda.in_flight == 0


def test_an_outcome_is_reported_when_it_is_in_the_ledger(ledger, monkeypatch):
    sizes = []
    save = type(ledger._leases).save

    def counted(leases, results):
        sizes.append(len(results))
        return save(leases, results)

    monkeypatch.setattr(type(ledger._leases), "save", counted)
    names = ["job_%d" % i for i in range(40)]
    found = []
    with FakeJobApi(clock=ledger.clock) as api:
        for name in names:
            api.add(name, lasts=0.0)
        ledger.add(names)
        runner = LedgerRunner(
            ledger,
            api.profile._replace(limit="1000/s"),
            workers=60,
            on_finished=lambda outcome: found.extend(ledger.jobs(ids=[outcome.id])),
        )
        assert runner.run() == ["done"] * 40
    assert sorted(row.job.id for row in found) == sorted(names)
    assert {row.state for row in found} == {"done"}
    assert sum(sizes) == 40
    if ledger._leases.longest_delay_s:  # SQLite writes each result as soon as it can
        assert len(sizes) < 40
