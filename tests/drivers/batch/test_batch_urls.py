"""BatchPoller with a batch URL: one exchange asks about many jobs."""

import pytest

from many_jobs_api import ManyApi, all_done, listed, plenty, together
from pollkit import BatchPoller, ConfigError, Job, Profile
from pollkit.core.model import Counts
from raw_server import RawServer, reply

QUICK = "fixed 20ms"


def test_ids_of_all_kinds_come_through_an_exchange_for_many():
    names = ["a,b", "c d", "é/ü", "100%", "%2C", "x&y=z", "{ids}", "日本"]
    with ManyApi(all_done) as api, BatchPoller(
        together(api, batch_size=3), bucket=plenty()
    ) as batch:
        assert [outcome.state.value for outcome in batch.run(names)] == ["done"] * len(names)
        assert sorted(name for ids in api.exchanges for name in ids) == sorted(names)


@pytest.mark.parametrize("size, most", [(1, 1), (500, 7)])
def test_a_batch_size_of_one_and_one_above_the_number_of_jobs(size, most):
    with ManyApi(all_done) as api, BatchPoller(
        together(api, batch_size=size), bucket=plenty()
    ) as batch:
        assert len(batch.run([str(i) for i in range(7)])) == 7
        assert max(map(len, api.exchanges)) <= most


@pytest.mark.parametrize(
    "answer",
    [
        listed(
            {"id": "z", "status": "failed"},
            {"id": "b", "status": "done"},
            {"id": "a", "status": "done"},
        ),
        listed(
            {"id": "a", "status": "running"},
            {"id": "b", "status": "done"},
            {"id": "a", "status": "done"},
        ),
        listed(
            None,
            5,
            "x",
            [],
            {"status": "failed"},
            {"id": None},
            {"id": "a", "status": "done"},
            {"id": "b", "status": "done"},
        ),
        (200, {}, {"items": {"a": {"status": "done"}, "b": {"status": "done"}, "c": None}}),
        (200, {}, [{"id": "a", "status": "done"}, {"id": "b", "status": "done"}]),
    ],
)
def test_answers_may_have_any_order_unknown_ids_and_odd_items(answer):
    with ManyApi(lambda ids, count: answer) as api, BatchPoller(
        together(api), bucket=plenty()
    ) as batch:
        assert [outcome.state.value for outcome in batch.run(["a", "b"])] == ["done", "done"]


@pytest.mark.parametrize("item", [None, 5, "x", [], {}, {"status": None}, {"status": {}}])
def test_an_odd_item_does_not_affect_the_others(item):
    def answer(ids, count):
        return (
            200,
            {},
            {"items": {name: {"status": "done"} if name == "b" else item for name in ids}},
        )

    with ManyApi(answer) as api, BatchPoller(
        together(api), pace=QUICK, bucket=plenty(), timeout=0.05
    ) as batch:
        odd, good = batch.run(["a", "b"])
        assert good.state == "done" and good.faults == 0 and odd.state != "done"


def test_an_id_that_is_never_in_the_answer_times_out():
    with ManyApi(lambda ids, count: listed({"id": "b", "status": "done"})) as api:
        profile = together(api, batch_absent="pending")
        with BatchPoller(profile, pace=QUICK, timeout=0.1, bucket=plenty()) as batch:
            assert [outcome.state.value for outcome in batch.run(["a", "b"])] == [
                "timed_out",
                "done",
            ]


def test_a_401_reads_the_credential_again_once_for_all(monkeypatch):
    def answer(ids, count):
        monkeypatch.setenv("ATTACK_TOKEN", "new")
        return (401, {}, None) if not count else all_done(ids, count)

    monkeypatch.setenv("ATTACK_TOKEN", "old")
    with ManyApi(answer) as api, BatchPoller(
        together(api, auth="bearer env:ATTACK_TOKEN"), bucket=plenty()
    ) as batch:
        outcomes = batch.run(["a", "b", "c"])
        assert [(outcome.state.value, outcome.polls) for outcome in outcomes] == [("done", 2)] * 3
        assert len(api.exchanges) == 2


def test_a_lasting_401_finishes_all_jobs_of_the_request():
    with ManyApi(lambda ids, count: (401, {}, None)) as api:
        with BatchPoller(together(api), bucket=plenty()) as batch:
            assert {outcome.state.value for outcome in batch.run(["a", "b", "c"])} == {
                "unreachable"
            }
            assert len(api.exchanges) == 1


@pytest.mark.parametrize(
    "trouble", [(500, {}, None), None, (200, {}, {"nothing": 1}), (204, {}, None)]
)
def test_a_failed_exchange_is_one_fault_for_each_job_and_one_in_the_stats(trouble):
    with ManyApi(lambda ids, count: trouble if count < 2 else all_done(ids, count)) as api:
        with BatchPoller(together(api), bucket=plenty()) as batch:
            outcomes = batch.run(["a", "b", "c"])
            assert [(outcome.state.value, outcome.faults) for outcome in outcomes] == [
                ("done", 2)
            ] * 3
            assert batch.stats == Counts(polls=3, faults=2)


def test_a_job_with_its_own_url_is_polled_alone_despite_a_batch_url():
    with ManyApi(all_done) as api, BatchPoller(together(api), timeout=1, bucket=plenty()) as batch:
        outcomes = batch.run(["a", api.url + "/jobs/b", Job("c", url=api.url + "/jobs/c")])
        assert [outcome.state.value for outcome in outcomes] == ["done"] * 3
        assert api.exchanges == [["a"]] and sorted(path for _, path in api.asked) == [
            "/jobs/b",
            "/jobs/c",
        ]


@pytest.mark.parametrize(
    "url", ["{base}/many?ids={ids}", "http://127.0.0.1:9/{label}?ids={ids}", "ftp://x/{ids}"]
)
def test_an_unusable_batch_url_is_refused_at_once(url):
    with BatchPoller(Profile(url="http://127.0.0.1:9/{id}", batch_url=url)) as batch:
        with pytest.raises(ConfigError):
            batch.submit(Job("a", label="x"))
        assert len(batch) == 0


def test_a_batch_url_may_contain_base():
    with ManyApi(all_done) as api:
        based = Profile(
            url="{base}/jobs/{id}", batch_url="{base}/many?ids={ids}", base=api.url, proxy="none"
        )
        with BatchPoller(based, bucket=plenty()) as batch:
            assert batch.run(["a"])[0].state == "done" and api.exchanges == [["a"]]


def test_a_batch_url_at_another_origin_gets_the_credential_of_its_profile(monkeypatch):
    """The author of the profile named it: it is not a redirect."""
    monkeypatch.setenv("ATTACK_TOKEN", "secret-token")
    with RawServer(reply('[{"id": "a", "status": "done"}]')) as server:
        elsewhere = Profile(
            url="http://127.0.0.1:9/{id}",
            batch_url=server.url("/many?ids={ids}"),
            proxy="none",
            auth="bearer env:ATTACK_TOKEN",
        )
        with BatchPoller(elsewhere) as batch:
            assert batch.run(["a"])[0].state == "done"
        assert server.requests[0].headers["authorization"] == "Bearer secret-token"
