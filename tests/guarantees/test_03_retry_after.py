"""Guarantee 3: Retry-After is a floor on any status; absurd values are ignored with a warning."""

import pytest

from pollkit import Poller, Profile
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply

DONE = reply('{"status": "done"}')


def poll(*answers, **options):
    """Poll a server with these answers; the outcome and the instants of the polls."""
    clock = VirtualClock()
    polled_at = []

    def record(connection, request):
        polled_at.append(clock.now())
        connection.send(answers[min(len(polled_at), len(answers)) - 1])

    profile = Profile(pace="fixed 1s", retry="fixed 1s", proxy="none")
    with RawServer(record) as server, Poller(profile, clock=clock, **options) as poller:
        return poller.poll(server.url()), polled_at


DATES = {"Date": "Fri, 31 Dec 1999 23:59:00 GMT", "Retry_After": "Sat, 01 Jan 2000 00:00:00 GMT"}


@pytest.mark.parametrize("status", ["200 OK", "202 Accepted", "429 Slow down", "503 Busy"])
@pytest.mark.parametrize(
    "headers, floor_s", [({"Retry_After": "60"}, 60.0), (DATES, 60.0)], ids=["seconds", "date"]
)
def test_no_poll_comes_before_retry_after(status, headers, floor_s):
    outcome, polled_at = poll(reply('{"status": "running"}', status, **headers), DONE)
    assert outcome.state == "done"
    assert polled_at[0] == 0.0
    assert floor_s <= polled_at[1] < 90.0


def test_a_retry_after_past_the_deadline_ends_the_wait_at_once():
    later = reply('{"status": "running"}', Retry_After="1000")
    outcome, polled_at = poll(later, DONE, timeout=100)
    assert outcome.state == "timed_out"
    assert "Retry-After" in outcome.error.message
    assert (polled_at, outcome.waited_s) == ([0.0], 0.0)


def test_an_absurd_retry_after_is_ignored_with_one_warning():
    events = []
    absurd = reply('{"status": "running"}', Retry_After="99999999999")
    outcome, polled_at = poll(absurd, absurd, absurd, DONE, on_event=events.append)
    assert outcome.state == "done"
    assert polled_at == [0.0, 1.0, 2.0, 3.0]
    assert [event.kind for event in events].count("warning") == 1
