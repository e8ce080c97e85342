"""Bugs in the agenda, and a job whose deadline comes while no token does."""

import pytest

from agenda_calls import take
from pollkit import BatchPoller, Job, PollkitError
from pollkit.core.agenda import Agenda, Lane
from pollkit.core.machine import Rules
from pollkit.core.pace import Fixed
from raw_server import RawServer, reply

DONE = reply('{"status": "done"}')


@pytest.mark.parametrize("part", ["candidate", "give_back"])
def test_a_bug_in_the_agenda_is_raised_and_nobody_waits_for_ever(part, monkeypatch, caplog):
    def broken(self, *arguments):
        raise KeyError("a bug")

    monkeypatch.setattr(Agenda, part, broken)
    with RawServer(DONE) as server, BatchPoller(workers=2) as batch:
        with pytest.raises(PollkitError, match="pollkit failed: KeyError: 'a bug'"):
            batch.run([server.url("/1"), server.url("/2")])
        with pytest.raises(PollkitError, match="pollkit failed"):
            batch.run([server.url("/3")])
    assert "a bug" in caplog.text


# The agenda

class Closed:
    """A bucket that is paused for a long time."""

    interval = spacing = 0.0

    def reserve(self, now, latest, last_look=False):
        return 5000.0


def test_a_nudged_job_ends_at_its_deadline_though_no_token_comes():
    agenda, lane = Agenda(4), Lane(Closed())
    for name, timeout in (("a", 10.0), ("b", 5.0)):
        agenda.add(Job(name), "http://x/" + name, Rules(pace=Fixed(1), timeout=timeout), lane, 0.0)
    assert take(agenda, 0.5) == 5.0
    assert agenda.nudge("a", 0.6) and agenda.nudge("b", 0.7)
    assert take(agenda, 0.8) == 5.0
    assert take(agenda, 5.0) == 10.0 and [step.entry.progress.job.id for step in agenda.expired()] == ["b"]
    take(agenda, 10.0)
    assert [step.entry.progress.job.id for step in agenda.expired()] == ["a"] and not len(agenda)
