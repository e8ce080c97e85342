"""502, 503 and 504: when they mean "too many requests", a broken job, or an outage."""

import random
from collections import Counter

import pytest

from exchanges import Finished
from job_api import JobApi
from pollkit import BatchPoller, Job, Profile, Reply
from pollkit.core.limits import overload
from pollkit.core.limits.overload import Overloads
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.wait_state import RetryState, WaitState
from pollkit.drivers.engine.dispatch import next_work
from pollkit.drivers.engine.polls_in_flight import PollInFlight
from pollkit.drivers.ledger.runner import LedgerRunner
from pollkit.testing import VirtualClock
from raw_server import wait_for
from readings import GUESS

HERE = "https://api.internal:443"
GOOD = GUESS.read({"status": "running"})
ERROR = GUESS.read(Reply(503))


# The decision


class Feed:
    """Feeds replies to Overloads, by default one second apart."""

    def __init__(self):
        self.overloads = Overloads()
        self.now = 1000.0

    def __call__(self, job_id, reading=ERROR, errors_before=0, after_s=1.0, origin=HERE):
        self.now += after_s
        state = WaitState(
            Job(job_id),
            "u",
            started_at=0.0,
            deadline=1e9,
            next_at=0.0,
            wait_from=0.0,
            retry=RetryState(steps=errors_before),
        )
        return self.overloads.review(origin, state, reading, self.now).verdict

    def goods(self, count, **more):
        for i in range(count):
            assert self("good_%d" % i, GOOD, **more) is Verdict.PENDING


@pytest.fixture
def feed():
    return Feed()


@pytest.mark.parametrize("status", [502, 503, 504])
def test_errors_of_several_jobs_between_good_replies_are_a_rate_limit(feed, status):
    error = GUESS.read(Reply(status))
    assert feed("a", error) is Verdict.FAULT
    feed.goods(1)
    assert feed("b", error) is Verdict.FAULT
    assert feed("c", error) is Verdict.LIMITED
    feed.goods(1)
    assert feed("a", error, errors_before=1) is Verdict.LIMITED


@pytest.mark.parametrize(
    "reading",
    [
        GUESS.read(Reply(500)),
        GUESS.read(Reply(501)),
        GUESS.read(Reply(200, {}, b"<html>")),
        Reading(Verdict.FAULT, "connection refused"),
    ],
)
def test_other_faults_stay_faults(feed, reading):
    for job_id in "abcdef":
        assert feed(job_id, reading) is Verdict.FAULT
        feed.goods(1)


def test_errors_without_a_good_reply_in_between_are_an_outage(feed):
    feed.goods(10)
    assert {feed("job_%d" % (i % 20)) for i in range(100)} == {Verdict.FAULT}


def test_replies_that_were_in_flight_when_an_outage_began_do_not_hide_it(feed):
    """One good reply arrives late. Slowing down is tried for a few seconds, then faults count."""
    feed("a")
    feed.goods(1)
    verdicts = [feed("job_%d" % (i % 20), after_s=0.5) for i in range(40)]
    assert verdicts[1] is Verdict.LIMITED
    assert verdicts.index(Verdict.FAULT, 2) <= 8
    assert set(verdicts[8:]) == {Verdict.FAULT}


def test_a_job_that_fails_alone_is_no_sign_of_a_rate_limit(feed):
    for errors in range(30):
        feed.goods(3)
        assert feed("broken", errors_before=errors) is Verdict.FAULT


def test_the_errors_of_a_lonely_job_do_not_turn_those_of_others_into_a_rate_limit(feed):
    for errors in range(10):
        feed.goods(3)
        feed("broken", errors_before=errors)
    assert feed("x") is Verdict.FAULT and feed("y") is Verdict.FAULT


def test_a_job_that_fails_again_and_again_counts_its_faults_even_if_others_fail_now_and_then(feed):
    for i in range(8):
        feed.goods(3)
        feed("other_%d" % i)
    assert feed("other_9") is Verdict.LIMITED
    assert feed("broken", errors_before=5) is Verdict.FAULT


def test_a_few_errors_among_many_good_replies_are_faults(feed):
    for i in range(10):
        assert feed("job_%d" % i) is Verdict.FAULT
        feed.goods(10)


def test_a_few_failing_jobs_among_many_are_faults_even_if_they_are_polled_most(feed):
    for errors in range(2):
        for job_id in "abc":
            feed.goods(15, after_s=0.1)
            assert feed(job_id, errors_before=errors) is Verdict.FAULT


def test_origins_are_judged_one_by_one(feed):
    for i in range(10):
        assert feed("job_%d" % i) is Verdict.FAULT
        assert feed("other_%d" % i, GOOD, origin="https://other.internal:443") is Verdict.PENDING


def test_old_errors_are_forgotten(feed):
    feed("a")
    feed.goods(1)
    feed("b")
    assert feed("c", after_s=overload.WINDOW_S + 1) is Verdict.FAULT
    feed.now += overload.WINDOW_S + 1
    feed.goods(1)
    assert not feed.overloads._origins


def test_memory_is_bounded(feed):
    for i in range(1000):
        feed("job_%d" % i)
        feed("job_%d" % i, GOOD)
    (origin,) = feed.overloads._origins.values()
    assert len(origin.replies) == overload.MOST_REPLIES


# A server with a limit, in virtual time


class Server:
    """Replies 503 if `is_refused(now, name)`, else "running", and "done" to a job's last poll."""

    def __init__(self, clock, is_refused, polls=3):
        self.clock = clock
        self.is_refused = is_refused
        self.polls = polls
        self.goods = Counter()
        self.asked = []

    def __call__(self, name, count):
        now = self.clock.now()
        is_refused = self.is_refused(now, name)
        self.asked.append((now, name, is_refused))
        if is_refused:
            return 503, {}, None
        self.goods[name] += 1
        return "done" if self.goods[name] >= self.polls else "running"

    @property
    def refused_share(self):
        return sum(refused for _, _, refused in self.asked) / len(self.asked)


def at_most(rate):
    """Like nginx's limit_req without a burst."""
    free_at = [0.0]

    def is_refused(now, name):
        if now < free_at[0]:
            return True
        free_at[0] = now + 1 / rate
        return False

    return is_refused


def run(is_refused, names, polls=3, limit=None, **settings):
    clock = VirtualClock()
    server = Server(clock, is_refused, polls)
    with JobApi(server) as api:
        mine = Profile(url=api.url + "/jobs/{id}", proxy="none", limit=limit)
        rng = random.Random(1).random
        with BatchPoller(mine, workers=1, clock=clock, rng=rng, timeout="1h", **settings) as batch:
            outcomes = {outcome.id: outcome for outcome in batch.run(names)}
    return server, outcomes, batch.stats


JOBS = ["job_%d" % i for i in range(180)]
NEVER_DONE = 10**6


def test_a_batch_behind_a_limit_that_refuses_with_503_finishes_with_few_refusals():
    server, outcomes, stats = run(at_most(5), JOBS, pace="fixed 1s")
    assert {outcome.state for outcome in outcomes.values()} == {"done"}
    assert server.refused_share < 0.15
    assert max(outcome.faults for outcome in outcomes.values()) <= 3
    assert stats.rate_limited > 0


def test_with_a_known_limit_every_poll_pauses_as_after_a_429():
    server, outcomes, stats = run(at_most(5), JOBS[:30], limit="50/s", pace="fixed 1s")
    assert {outcome.state for outcome in outcomes.values()} == {"done"}
    assert max(outcome.faults for outcome in outcomes.values()) <= 1
    refused = [i for i, (_, _, is_refused) in enumerate(server.asked[:-1]) if is_refused]
    pauses = [server.asked[i + 1][0] - server.asked[i][0] for i in refused]
    assert stats.rate_limited > 10
    # One more: the first three 503s in a row are an outage until the next reply.
    assert sum(pause >= 0.5 for pause in pauses) == stats.rate_limited + 1


def test_a_job_that_fails_alone_ends_as_unreachable_and_slows_down_no_other():
    def is_refused(now, name):
        return name == "job_7"

    server, outcomes, stats = run(is_refused, JOBS[:20], polls=60, pace="fixed 2s")
    broken = outcomes.pop("job_7")
    assert (broken.state, broken.faults) == ("unreachable", 10)
    assert {outcome.state for outcome in outcomes.values()} == {"done"}
    assert max(outcome.waited_s for outcome in outcomes.values()) < 60 * 2 + 5
    assert stats.rate_limited == 0


def test_an_outage_counts_faults_until_every_job_is_unreachable():
    def is_refused(now, name):
        return now > 30

    server, outcomes, stats = run(is_refused, JOBS[:20], polls=NEVER_DONE, pace="fixed 2s")
    assert {outcome.state for outcome in outcomes.values()} == {"unreachable"}
    assert {outcome.faults for outcome in outcomes.values()} == {10}
    assert stats.rate_limited == 0


def test_an_outage_that_follows_an_overload_ends_as_unreachable():
    limit = at_most(5)

    def is_refused(now, name):
        return now > 30 or limit(now, name)

    server, outcomes, stats = run(is_refused, JOBS, polls=NEVER_DONE, pace="fixed 2s")
    assert {outcome.state for outcome in outcomes.values()} == {"unreachable"}
    assert max(now for now, _, _ in server.asked) < 30 + 20 * 60


def test_a_ledger_slows_down_its_shared_bucket_and_counts_few_faults(clock, ledger):
    """On a clock that is moved by hand: the test takes the place of the engine's thread."""
    ledger.add(JOBS[:40])
    server = Server(clock, at_most(2), polls=1)
    mine = Profile("mine", url="http://127.0.0.1:9/{id}")
    runner = LedgerRunner(ledger, mine, "fixed 1s", workers=1, on_unpollable=pytest.fail)
    run = runner._new_run(ledger)
    engine = run.jobs.engine
    engine.wake = lambda: None  # starts no thread
    while ledger._leases.next_due() is not None:
        run._poll_probes()  # the first three 503s in a row are an outage until the next reply
        run._put_on_agenda(ledger._leases.claim(50, lease_s=600))
        work = next_work(engine.agenda, clock.now(), engine.lock)
        if not work.entries:
            next_at = min(work.next_at, ledger._leases.next_due())
            clock.pass_s(max(0.0, next_at - clock.now()) + 0.001)
            continue
        answer = server(work.entries[0].state.job.id, 0)
        seen = Reply(503) if isinstance(answer, tuple) else {"status": answer}
        poll = PollInFlight.from_work(work, clock.now(), 0.0)
        engine._finish_exchange(Finished(poll, seen), 0.0)
        wait_for(lambda: engine._reporter.is_idle)  # it writes to the ledger in its own thread
    run.__exit__(None)
    assert {row.state for row in ledger.jobs()} == {"done"}
    assert server.refused_share < 0.3
    assert max(row.outcome["faults"] for row in ledger.jobs()) <= 2
    assert ledger.bucket(name="mine").pause_count > 0
