"""An outage in a batch: few requests, a fault of every job, and a spread resumption."""

import collections
import logging
import re
import threading

import pytest

from outage_api import FlappingApi, OutageApi
from pollkit import BatchPoller, Poller, TokenBucket
from pollkit.testing import Answer, VirtualClock
from raw_server import wait_for

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
MINUTE = 60.0


def batch_for(api, clock, **options):
    options.setdefault("pace", "fixed 2m")
    options.setdefault("timeout", "2h")
    return BatchPoller(api.profile, clock=clock, **options)


@pytest.mark.parametrize(
    "answer", [Answer(0, {}, None), Answer(503, {}, None)], ids=["reset", "503"]
)
def test_jobs_survive_an_outage_of_30_minutes_with_few_requests(answer):
    count = 100
    clock = VirtualClock()
    warnings = []

    def on_event(event):
        if event.kind == "warning":
            warnings.append(event)

    with OutageApi(clock, 1 * MINUTE, 31 * MINUTE, answer) as api:
        names = api.add_jobs(count, lasts=32 * MINUTE)
        with batch_for(api, clock, max_faults=1000, on_event=on_event) as batch:
            outcomes = batch.run(names)
        assert {outcome.state.value for outcome in outcomes} == {"done"}
        assert 20 < len(api.requests_when_down()) < 60
        back_at = warnings[-1].at
        assert 31 * MINUTE <= back_at <= 32.1 * MINUTE
        resumed = {each.ids[0] for each in api.requests if back_at <= each.at <= back_at + 15}
        assert len(resumed) == count
        per_second = collections.Counter(int(each.at - back_at) for each in api.requests)
        assert max(per_second[i] for i in range(20)) < count / 4  # spread over ten seconds
    begin, end = warnings
    assert begin.id == end.id == api.base
    assert begin.text.startswith("the server is down: the ")
    assert begin.text.endswith("; one request at a time until it replies")
    assert re.match("the server is back after (29|30)m", end.text)  # the first poll was at 2m


def test_a_batch_gives_up_after_max_faults_failed_probes():
    clock = VirtualClock()
    with OutageApi(clock, 0.0, 1e9) as api:
        with batch_for(api, clock) as batch:
            outcomes = batch.run(api.add_jobs(50, lasts=60))
        assert {outcome.state.value for outcome in outcomes} == {"unreachable"}
        assert {outcome.faults for outcome in outcomes} <= {10, 11}
        assert outcomes[-1].polls == 0
        assert "10 faults in a row, the last: " in outcomes[-1].error.message
        assert len(api.requests) < 25 and clock.now() < 10 * MINUTE


def test_no_wait_in_an_outage_lasts_longer_than_its_timeout():
    clock = VirtualClock()
    with OutageApi(clock, 10.0, 1e9) as api:
        with batch_for(api, clock, pace="fixed 5s", timeout=90, max_faults=1000) as batch:
            outcomes = batch.run(api.add_jobs(50, lasts=60 * MINUTE))
        assert {outcome.state.value for outcome in outcomes} == {"unreachable"}
        assert max(outcome.waited_s for outcome in outcomes) == 90.0
        assert "%s has been down for 1m20s: " % api.base in outcomes[-1].error.message
        assert sum(outcomes[-1].slept_s) == pytest.approx(90.0)


def test_timeout_0_polls_only_until_the_origin_is_known_to_be_down():
    clock = VirtualClock()
    with OutageApi(clock, 0.0, 1e9) as api:
        with batch_for(api, clock, timeout=0, workers=2) as batch:
            outcomes = batch.run(api.add_jobs(50, lasts=60))
        assert {outcome.state.value for outcome in outcomes} == {"unreachable"}
        assert len(api.requests) <= 4


def test_a_request_for_many_jobs_is_one_failed_poll():
    clock = VirtualClock()
    with OutageApi(clock, 0.0, 100.0) as api:
        profile = api.profile._replace(
            batch_url=api.batch_url, batch_items="items", batch_id="id", batch_size=10
        )
        with BatchPoller(profile, "fixed 5s", clock=clock, max_faults=100, workers=1) as batch:
            outcomes = batch.run(api.add_jobs(100, lasts=120))
        assert {outcome.state.value for outcome in outcomes} == {"done"}
        sizes = [each.path.count(",") + 1 for each in api.requests_when_down()]
        assert sizes[:3] == [10, 10, 10] and set(sizes[3:]) == {1} and len(sizes) < 12


def test_an_origin_that_flaps_loses_no_job():
    clock = VirtualClock()
    with FlappingApi(clock) as api:
        names = api.add_jobs(20, lasts=10 * MINUTE)
        with batch_for(api, clock, pace="fixed 5s") as batch:
            outcomes = batch.run(names)
        assert {outcome.state.value for outcome in outcomes} == {"done"}
        assert max(outcome.faults for outcome in outcomes) > 12  # yet never ten in a row


def test_the_outages_of_a_batch_can_be_asked_for_and_are_logged(caplog):
    clock = VirtualClock()
    with OutageApi(clock, 0.0, 50.0) as api, caplog.at_level(logging.WARNING, "pollkit"):
        found = []

        def on_event(event):
            found.append([each.origin for each in batch.outages])

        with batch_for(api, clock, on_event=on_event) as batch:
            batch.run(api.add_jobs(5, lasts=60))
            assert [api.base] in found and batch.outages == []
    messages = [record.getMessage() for record in caplog.records]
    assert sum("the server is down" in message for message in messages) == 1
    assert sum("the server is back after" in message for message in messages) == 1


def test_cancelling_and_nudging_work_during_an_outage():
    with OutageApi(VirtualClock(), -1.0, 1e9) as api:  # this batch has a real clock
        with BatchPoller(api.profile, timeout=60, max_faults=1000) as batch:
            futures = [batch.submit(name) for name in api.add_jobs(5, lasts=60)]
            wait_for(lambda: batch.outages)
            assert batch.nudge("job_1") and batch.cancel("job_2")
            assert futures[2].result(5).state == "cancelled"
            api.down_until = -1.0
            api.add_jobs(5, lasts=0)
            assert futures[1].result(30).state == "done"
            assert futures[4].result(30).state == "done"


def test_a_limit_that_is_not_known_starts_slowly_again():
    clock = VirtualClock()
    bucket = TokenBucket(clock=clock)
    with OutageApi(clock, 100.0, 200.0) as api:
        names = api.add_jobs(150, lasts=300)
        with batch_for(api, clock, pace="fixed 50s", bucket=bucket, workers=50) as batch:
            batch.run(names)
        back_at = min(each.at for each in api.requests if each.at >= 200.0)
        first = [each for each in api.requests if back_at < each.at <= back_at + 1.0]
        assert 10 < len(first) < 31


def test_a_poller_keeps_its_own_retries_also_in_several_threads():
    clock = VirtualClock()
    with OutageApi(clock, 0.0, 1e9) as api:
        outcomes = []
        poller = Poller(api.profile, clock=clock, timeout="1h")
        with poller:
            threads = [
                threading.Thread(target=lambda i=i: outcomes.append(poller.poll("job_%d" % i)))
                for i in range(3)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
        assert [(each.state.value, each.polls, each.faults) for each in outcomes] == [
            ("unreachable", 10, 10)
        ] * 3
