"""Results to fetch and jobs to cancel, among many jobs."""

from agenda_calls import DONE, ENDLESS, PENDING, ids, make_lane, reply, take
from pollkit import Adaptive, Job
from pollkit.core.scheduling.agenda import Agenda
from pollkit.core.scheduling.lane import READY
from pollkit.core.waiting.machine import start

FETCHED = ENDLESS._replace(result_url="http://files/{id}")


def test_a_result_is_fetched_next_and_from_the_lane_of_its_origin():
    agenda = Agenda(8)
    entry = agenda.add(Job("a"), "http://api/a", FETCHED, make_lane(), 0.0)
    (step,) = reply(agenda, take(agenda, 0.0), DONE, 0.5)
    assert step.after.ending is None and entry.origin == "http://files"
    assert ids(take(agenda, 0.5)) == ["a"]


def test_a_single_poll_gets_the_time_for_its_result():
    agenda = Agenda(8)
    settings = FETCHED._replace(timeout=0.0)
    state = start(Job("a"), "http://api/a", settings, 0.0)
    entry = agenda.adopt(state, settings, make_lane(), is_late=True)
    reply(agenda, take(agenda, 3.0), DONE, 3.0)
    assert not entry.is_late and entry.state.deadline == 3.0 + settings.result_timeout


def test_a_cancel_request_comes_first_in_every_phase():
    agenda = Agenda(1)
    free = make_lane()
    scheduled = agenda.add(Job("a"), "http://api/a", ENDLESS, free, 0.0)
    reply(agenda, take(agenda, 0.0), PENDING, 0.0)
    agenda.request_cancel(scheduled, 1.0)
    assert ids(take(agenda, 1.0)) == ["a"]  # it is in flight now
    agenda.request_cancel(scheduled, 1.5)
    scheduled.state = scheduled.state._replace(cancel=None)
    agenda.request_cancel(scheduled, 1.5)  # while a poll is in flight
    ready = agenda.add(Job("b"), "http://api/b", ENDLESS, free, 1.5)
    assert agenda.candidate(1.5) is None  # it is due, and waits for the only slot
    agenda.request_cancel(ready, 1.6)
    assert ready.state.cancel == "due" and ready.phase is READY
    (step,) = reply(agenda, [scheduled], PENDING, 2.0)
    assert step.after.next_at == 2.0 and step.after.cancel == "due"


def test_neither_a_result_nor_a_cancel_request_is_postponed():
    """An adaptive pace postpones polls that are not worth their price."""
    agenda = Agenda(8)
    settings = FETCHED._replace(pace=Adaptive())
    entry = agenda.add(Job("a"), "http://api/a", settings, make_lane(), 0.0)
    entry.start = 1.0
    reply(agenda, take(agenda, 0.0), DONE, 0.0)
    assert ids(take(agenda, 0.0)) == ["a"]
