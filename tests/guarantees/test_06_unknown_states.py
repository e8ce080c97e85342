"""Guarantee 6: every status ends the wait or is polled again; an envelope is not the job."""

from pollkit import Poller, Profile
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply


def poll(*bodies):
    """Poll a server with these bodies; the outcome and the kinds of its events."""
    kinds = []
    profile = Profile(pace="fixed 1s", proxy="none")
    with RawServer(*map(reply, bodies)) as server, Poller(
        profile, clock=VirtualClock(), on_event=lambda event: kinds.append(event.kind)
    ) as poller:
        return poller.poll(server.url()), kinds


def test_an_unknown_status_counts_as_pending_and_is_reported_once():
    unknown = '{"status": "frobnicating"}'
    outcome, kinds = poll(unknown, unknown, unknown, '{"status": "done"}')
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 4, 0)
    assert kinds.count("warning") == 1


def test_a_job_inside_an_envelope_is_not_done_before_its_own_state_is():
    running = '{"status": "success", "data": {"status": "running"}}'
    done = '{"status": "success", "data": {"status": "done"}}'
    outcome, _ = poll(running, running, done)
    assert (outcome.state, outcome.polls) == ("done", 3)
