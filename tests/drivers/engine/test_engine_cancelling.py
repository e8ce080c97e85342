"""A job that is cancelled at any instant of its poll disturbs no other job."""

import json

import pytest

from agenda_calls import ENDLESS, LOCK, Tokens, ids
from engine_server import JobServer
from pollkit import BatchPoller, Job, Profile, TokenBucket
from pollkit.core.limits.bucket import Bucket
from pollkit.core.scheduling.agenda import Agenda
from pollkit.core.scheduling.lane import Lane
from pollkit.core.units import NEVER
from pollkit.drivers.engine import engine as engine_module
from pollkit.drivers.engine.dispatch import next_work
from raw_server import RawServer, reply, wait_for

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
DONE = reply('{"status": "done"}')


class ListServer(RawServer):
    """Lists the job `listed` as done; `before(target)` is called before each reply."""

    def __init__(self, before):
        def answer(connection, request):
            before(request.target)
            data = {"status": "done"}
            if request.target == "/jobs":
                data = {"items": [{"id": "listed", "status": "done"}]}
            connection.send(reply(json.dumps(data)))

        super().__init__(answer)

    def new_batch(self, bucket=None):
        return BatchPoller(
            Profile(url=self.url("/jobs/{id}"), batch_url=self.url("/jobs"), proxy="none"),
            pace="fixed 20ms",
            bucket=bucket,
            timeout=20,
        )


def polls_and_faults(outcomes):
    return [(outcome.state.value, outcome.polls, outcome.faults) for outcome in outcomes]


def test_a_job_that_is_cancelled_while_a_list_is_fetched_leaves_the_list_to_the_others():
    def cancel_absent(target):
        if target == "/jobs":
            batch.cancel("absent")

    with ListServer(cancel_absent) as server, server.new_batch() as batch:
        outcomes = batch.run(["listed", "absent"])
        assert server.targets == ["/jobs"]
    assert polls_and_faults(outcomes) == [("done", 1, 0), ("cancelled", 0, 0)]


class CountingBucket(TokenBucket):
    """Counts the tokens that it grants."""

    granted = 0

    def reserve(self, now, latest=NEVER, is_final=False):
        ready_at = super().reserve(now, latest, is_final)
        self.granted += ready_at <= latest
        return ready_at


def test_a_job_that_is_cancelled_before_its_turn_leaves_its_token_to_the_next_absent_one():
    bucket = CountingBucket(1, per=0.3)
    with ListServer(lambda target: None) as server, server.new_batch(bucket) as batch:
        bucket.reserve(batch._clock.now())  # so that the list is asked about all jobs, in 0.3 s
        futures = [batch.submit(name) for name in ("absent1", "absent2", "listed")]
        wait_for(lambda: bucket.granted == 3)  # the third one is for an absent job, in 0.3 s
        assert futures[0].cancel()
        outcomes = [future.result(timeout=10) for future in futures[1:]]
        assert server.targets == ["/jobs", "/jobs/absent2"]
    assert polls_and_faults(outcomes) == [("done", 1, 0), ("done", 1, 0)]
    assert bucket.granted == 3


def test_a_job_that_is_cancelled_just_before_its_poll_begins_stops_no_other(monkeypatch):
    def choose_and_cancel(*arguments):
        work = next_work(*arguments)
        if "a" in ids(work.entries):
            batch.cancel("a")
        return work

    monkeypatch.setattr(engine_module, "next_work", choose_and_cancel)
    with JobServer(lambda job, polls: DONE) as server, server.new_batch() as batch:
        outcomes = batch.run(["a", "b"])
    assert [outcome.state.value for outcome in outcomes] == ["cancelled", "done"]


def test_the_token_for_a_job_that_is_cancelled_meanwhile_goes_to_the_next_one():
    class CancellingTokens(Tokens):
        def reserve(self, now, latest, is_final_poll=False):
            agenda.cancel("a", now)
            return super().reserve(now, latest, is_final_poll)

    agenda = Agenda(8)
    lane = Lane(CancellingTokens(Bucket(0.01, 1)))
    for name in "ab":
        agenda.add(Job(name), "u", ENDLESS, lane, 0.0)
    assert ids(next_work(agenda, 0.0, LOCK).entries) == ["b"]
    assert lane.bucket.granted == [0.0]
