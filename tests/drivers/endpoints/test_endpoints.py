"""Jobs are polled at the endpoint of their profile and label."""

import itertools

import pytest

from job_api import JobApi
from pollkit import BatchPoller, ConfigError, Job, Poller, Profile, TokenBucket
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply

INI = """
[mine]
url = {base}/v1/{label}/{id}
base = BASE
pace = fixed 10ms

[mine:small]
up_to = 10
done = ready
timeout = 7s

[other]
url = BASE/other/{id}
"""


def test_a_profile_is_found_by_its_name_and_a_job_by_its_label_or_size(tmp_path):
    ini = tmp_path / "profiles.ini"
    with JobApi(lambda name, count: "ready") as api:
        ini.write_text(INI.replace("BASE", api.url))
        with Poller(profile="mine", profiles=str(ini)) as poller:
            by_label = poller.poll(Job("a", label="small"))
            by_size = poller.poll(Job("b", size=3))
            elsewhere = poller.poll(Job("c", profile="other"))
    assert [o.state for o in (by_label, by_size, elsewhere)] == ["done"] * 3
    assert (by_label.url, by_label.label, by_label.profile) == (
        api.url + "/v1/small/a",
        "small",
        "mine",
    )
    assert (by_size.url, by_size.label) == (api.url + "/v1/small/b", "small")
    assert (elsewhere.url, elsewhere.label, elsewhere.profile) == (
        api.url + "/other/c",
        None,
        "other",
    )


def test_a_url_without_an_id_is_refused_because_all_jobs_would_be_polled_there():
    with JobApi(lambda name, count: "done") as api:
        fixed = Profile(url=api.url + "/jobs")
        with pytest.raises(ConfigError, match="url has no {id}, so it does not name the job 'a'"):
            Poller(fixed).poll("a")
        with BatchPoller(fixed) as batch, pytest.raises(ConfigError, match="has no {id}"):
            batch.run(["a", "b"])
        assert Poller(fixed).poll(Job("a", url=api.url + "/jobs/a")).state == "done"
        named = fixed._replace(method="POST", body='{"id": "{id}"}')
        assert Poller(named).poll("a").state == "done"


def test_a_labels_timeout_applies_unless_the_caller_overrides_it(tmp_path):
    ini = tmp_path / "profiles.ini"
    ini.write_text(INI.replace("BASE", "http://127.0.0.1:9"))
    clock = VirtualClock()
    for options, waited in ({}, 7), ({"timeout": 3}, 3):
        outcome = Poller(
            profile="mine", profiles=str(ini), clock=clock, max_faults=10**6, **options
        ).poll(Job("a", label="small"))
        assert outcome.state == "unreachable" and outcome.waited_s == pytest.approx(waited, abs=0.5)


@pytest.mark.parametrize("batch_path", ["", "/jobs?ids={ids}"])
def test_a_warning_about_the_server_is_given_once_and_not_for_each_job(batch_path):
    body = '[{"id": "a", "status": "odd"}, {"id": "b", "status": "odd"}]'
    sent = reply(body if batch_path else '{"status": "odd"}', RateLimit="((")
    with RawServer(lambda connection, request: connection.send(sent)) as server:
        profile = Profile(url=server.url("/jobs/{id}"), pace="fixed 10ms", timeout=0.1)
        if batch_path:
            profile = profile._replace(batch_url=server.url(batch_path))
        events = []
        with BatchPoller(profile, on_event=events.append) as batch:
            batch.run(["a", "b", "c"])
    warnings = [event.text for event in events if event.kind == "warning"]
    assert len([text for text in warnings if "unknown status" in text]) == 1
    assert len([text for text in warnings if "ignored ratelimit" in text]) == 1


def test_a_server_that_invents_warnings_for_ever_is_bounded():
    numbers = itertools.count()

    def send(connection, request):
        connection.send(reply('{"status": "odd-%d"}' % next(numbers)))

    events = []
    with RawServer(send) as server:
        profile = Profile(url=server.url("/{id}"), pace="fixed 10ms", timeout=1.0)
        with BatchPoller(profile, bucket=TokenBucket("1000/s"), on_event=events.append) as batch:
            batch.run(["job_%d" % number for number in range(40)])
    assert len([event for event in events if event.kind == "warning"]) == 100


def test_a_batch_polls_each_job_at_its_own_endpoint_over_the_same_connections(tmp_path):
    ini = tmp_path / "profiles.ini"
    with JobApi(lambda name, count: "ready") as api:
        ini.write_text(INI.replace("BASE", api.url))
        with BatchPoller(profile="mine", profiles=str(ini), workers=1) as batch:
            outcomes = batch.run(
                [
                    Job("a", label="small"),
                    Job("b", size=5),
                    Job("c", label="large", profile="other"),
                ]
            )
        assert [(o.state, o.label, o.profile) for o in outcomes] == [
            ("done", "small", "mine"),
            ("done", "small", "mine"),
            ("done", "large", "other"),
        ]
        assert api.connections == 1


def test_a_profile_without_its_base_url_is_an_error_unless_the_job_is_a_url():
    with pytest.raises(ConfigError, match="needs a base URL"):
        Poller(profile="ray-jobs").poll("raysubmit_1")
    assert Poller(profile="ray-jobs", timeout=0).poll("http://127.0.0.1:9/x").state == "unreachable"


def test_one_warning_mentions_that_unknown_ids_are_pending():
    replies = 2 * [reply('{"status": "PENDING"}'), reply('{"status": "SUCCESS"}')]
    events = []
    with RawServer(*replies) as server:
        profile = Profile(url=server.url("/{id}"), unknown_ids="pending", pace="fixed 10ms")
        with Poller(profile, on_event=events.append) as poller:
            poller.poll("a")
            poller.poll("b")
    warnings = [event.text for event in events if event.kind == "warning"]
    assert warnings == ["this API answers pending for ids that it does not know, too"]


class SlowClock(VirtualClock):
    """A clock on which each poll takes 2 seconds: a server that replies late."""

    def __init__(self):
        super().__init__()
        self.polled_at = []

    def poll(self):
        self.polled_at.append(self.now())
        self.sleep(2.0)
        return "running" if len(self.polled_at) < 3 else "done"


def test_a_server_that_replies_late_is_polled_less_often():
    clock = SlowClock()
    Poller(pace="fixed 1s", clock=clock).poll(clock.poll)
    assert clock.polled_at == [0.0, 12.0, 24.0]
