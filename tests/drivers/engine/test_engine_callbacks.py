"""Callbacks of the engine hold up no exchange, and a bug in one job harms no other."""

import collections
import threading
import time

import pytest

from engine_server import RUNNING, JobServer, wait_for_polls
from pollkit import LedgerError, PollkitError, TokenBucket
from pollkit.core.reading.reader import Reader
from pollkit.core.scheduling.agenda import Agenda
from pollkit.drivers.engine import engine as engine_module
from pollkit.drivers.engine.reporter import Reporter
from raw_server import reply, wait_for

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
DONE = reply('{"status": "done"}')


# Callbacks


@pytest.mark.parametrize("kind", ["on_event", "on_done", "future"])
def test_a_slow_callback_holds_up_no_exchange(kind):
    is_called = threading.Event()
    may_return = threading.Event()

    def slow(_):
        is_called.set()
        assert may_return.wait(20)

    on_event = slow if kind == "on_event" else None
    with JobServer(lambda job, polls: DONE if job == "quick" else RUNNING) as server:
        batch = server.new_batch(on_event=on_event)
        try:
            for job in "abc":
                batch.submit(job)
            quick = batch.submit("quick", on_done=slow if kind == "on_done" else None)
            if kind == "future":
                quick.add_done_callback(slow)
            assert is_called.wait(10)
            wait_for_polls(server, "abc", 20)
        finally:
            may_return.set()
            batch.close(wait=False)


def test_events_and_outcomes_of_a_job_come_in_order_however_slow_the_callbacks_are():
    reported = collections.defaultdict(list)

    def on_event(event):
        reported[event.id].append(event.kind)
        time.sleep(0.0002)

    with JobServer(lambda job, polls: DONE if polls == 3 else RUNNING) as server:
        with server.new_batch(on_event=on_event) as batch:
            for i in range(60):
                batch.submit(str(i), on_done=lambda outcome: reported[outcome.id].append("outcome"))
    in_order = ["poll", "status", "poll", "poll", "status", "end", "outcome"]
    assert dict(reported) == {str(i): in_order for i in range(60)}


def test_nothing_is_reported_of_a_job_after_its_cancellation(monkeypatch):
    """Not even if it is cancelled at the instant at which its poll has finished."""
    reported = []
    apply_feedback = engine_module.apply_feedback

    def cancel_first(*arguments):
        canceller = threading.Thread(target=batch.cancel, args=("a",))
        canceller.start()
        canceller.join(10)
        return apply_feedback(*arguments)

    monkeypatch.setattr(engine_module, "apply_feedback", cancel_first)
    with JobServer() as server:
        with server.new_batch(on_event=lambda event: reported.append(event.kind)) as batch:
            future = batch.submit("a", on_done=lambda outcome: reported.append(outcome.state.value))
            assert future.result(timeout=10).state == "cancelled"
    assert reported == ["poll", "status", "end", "cancelled"]


def test_no_poll_begins_while_too_many_reports_wait_and_polling_resumes_afterwards(monkeypatch):
    monkeypatch.setattr(engine_module, "MAX_BACKLOG", 5)
    may_return = threading.Event()
    with JobServer() as server:
        batch = server.new_batch(workers=2, on_event=lambda event: may_return.wait(20))
        try:
            for job in "abcd":
                batch.submit(job)
            wait_for(lambda: batch._engine._reporter.backlog >= 5)
            time.sleep(0.2)  # time for 100 polls, if any began
            # One report is being handled; polls in flight still finish.
            assert sum(server.polls.values()) <= 1 + 5 + 2
            may_return.set()
            wait_for_polls(server, "abcd", 10)
        finally:
            batch.close(wait=False)


@pytest.mark.parametrize("repetition", range(100))
def test_the_reporter_makes_every_call_even_one_that_is_put_while_it_stops(repetition):
    made = []
    reporter = Reporter(on_idle=lambda: None)
    reporter.put(lambda: made.append(1))
    reporter.deliver()
    closing = threading.Thread(target=reporter.close)
    closing.start()
    reporter.put(lambda: made.append(2))
    reporter.deliver()
    closing.join()
    wait_for(lambda: made == [1, 2])


# Errors


@pytest.mark.parametrize("part", ["candidate", "apply_readings"])
def test_a_bug_in_the_agenda_is_raised_and_no_caller_waits_for_ever(part, monkeypatch, caplog):
    def broken(self, *arguments):
        raise KeyError("a bug")

    monkeypatch.setattr(Agenda, part, broken)
    with JobServer(lambda job, polls: DONE) as server, server.new_batch(workers=2) as batch:
        future = batch.submit("a")
        with pytest.raises(PollkitError, match="pollkit failed: KeyError: 'a bug'"):
            batch.run(["b", "c"])
        assert future.result(timeout=10).state == "cancelled"
        with pytest.raises(PollkitError, match="pollkit failed"):
            batch.run(["d"])
    assert "a bug" in caplog.text


def test_a_bug_in_reading_is_a_fault_of_that_job_and_of_no_other(monkeypatch, caplog):
    read = Reader.read

    def broken(self, seen, *arguments):
        if b"broken" in seen.body:
            raise KeyError("a bug")
        return read(self, seen, *arguments)

    monkeypatch.setattr(Reader, "read", broken)
    answers = {"bad": reply('{"status": "broken"}')}
    with JobServer(lambda job, polls: answers.get(job, DONE)) as server:
        with server.new_batch(max_faults=2, retry="fixed 5ms") as batch:
            bad, good = batch.run(["bad", "good"])
    assert good.state == "done"
    assert bad.state == "unreachable" and "pollkit failed: KeyError" in bad.error.message
    assert "a bug" in caplog.text


def test_a_job_gets_its_outcome_even_if_a_shared_limit_fails_with_its_last_reply():
    class Broken(TokenBucket):
        def apply_feedback(self, *arguments):
            raise LedgerError("the file is gone")

    done = reply(
        '{"status": "done"}', RateLimit_Limit="10", RateLimit_Remaining="9", RateLimit_Reset="1"
    )
    with JobServer(lambda job, polls: done if job == "a" else RUNNING) as server:
        with server.new_batch(bucket=Broken(100000)) as batch:
            other = batch.submit("b")
            wait_for_polls(server, "b", 1)
            assert batch.submit("a").result(timeout=10).state == "done"
            assert other.result(timeout=10).state == "cancelled"
            with pytest.raises(LedgerError, match="the file is gone"):
                batch.run(["c"])
