"""The preview of a run agrees with the run, and changes nothing."""

import pytest

from ledger_host import folder, poll_job
from pollkit import Job, Ledger, LedgerRunner, Profile
from pollkit.core.scheduling.outages import Outage
from pollkit.core.waiting.wait_settings import LEDGER_DEFAULTS
from pollkit.drivers.endpoints.client import Client
from pollkit.drivers.ledger.run_preview import preview_run
from pollkit.edges.limits.shared_bucket import copy_bucket
from pollkit.testing import FakeJobApi, VirtualClock


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def api(clock):
    with FakeJobApi(clock=clock) as api:
        yield api


@pytest.fixture
def ledger(clock):
    with folder() as path, Ledger(path + "/jobs.db", clock=clock) as found:
        yield found


def preview(ledger, profile, **options):
    client = Client(
        profile,
        clock=ledger.clock,
        shared_bucket_for=lambda limit, name: copy_bucket(
            ledger._storage, limit, name, ledger.clock
        ),
        defaults=LEDGER_DEFAULTS,
    )
    return preview_run(ledger, client, **options)


@pytest.mark.parametrize(
    "limit, options, polled",
    [
        ("1000/s burst 50", {"once": True}, 12),
        ("5/m", {"once": True}, 1),  # the next token comes after 12 s: `once` does not wait for it
        ("5/m burst 4", {"once": True}, 4),
        ("10/m", {"for_s": 20.0}, 4),
        ("10/m", {"once": True}, 12),  # 6 s after each other
        ("5/m burst 4", {"for_s": 20.0}, 5),
        ("5/m", {}, 12),
        (None, {"for_s": 20.0}, 12),
    ],
    ids=str,
)
def test_a_preview_counts_the_jobs_that_get_a_token_in_time(ledger, limit, options, polled):
    ledger.add("job_%d" % number for number in range(12))
    profile = Profile(url="http://127.0.0.1:9/{id}", limit=limit)
    (due,) = preview(ledger, profile, **options).due
    assert (due.jobs, due.polled) == (12, polled)


@pytest.mark.parametrize("limit", ["1000/s burst 50", "5/m", "5/m burst 4"])
def test_a_preview_counts_the_jobs_that_a_run_then_polls(limit):
    """On the real clock: time must not pass while requests are in flight."""
    names = ["job_%d" % number for number in range(12)]
    with folder() as path, FakeJobApi() as api, Ledger(path + "/jobs.db") as ledger:
        for name in names:
            api.add(name, lasts="1h")
        ledger.add(names)
        profile = api.profile._replace(limit=limit, pace="fixed 30m")
        (due,) = preview(ledger, profile, once=True).due
        assert due.jobs == 12 and api.requests == []
        LedgerRunner(ledger, profile).run(once=True)
        assert due.polled == len(api.requests)
        assert preview(ledger, profile, once=True).waiting == 12


def test_jobs_of_one_request_need_one_token(ledger):
    ledger.add("job_%d" % number for number in range(12))
    profile = Profile(
        name="many",
        url="http://127.0.0.1:9/jobs/{id}",
        batch_url="http://127.0.0.1:9/jobs?ids={ids}",
        batch_items="items",
        batch_id="id",
        batch_size=5,
        limit="1/h burst 2",
    )
    (due,) = preview(ledger, profile, once=True).due
    assert (due.jobs, due.polled) == (12, 10)


def test_jobs_of_an_origin_that_is_down_are_held_back(ledger, clock):
    ledger.add(["http://up.example/1", "http://down.example/1", "http://down.example/2"])
    outage = Outage("http://down.example", clock.now() - 60, "refused", clock.now() + 5)
    ledger._outages.begin(outage)
    up, down = preview(ledger, None).due
    assert (up.origin, up.jobs, up.polled, up.outage) == ("http://up.example", 1, 1, None)
    assert (down.origin, down.jobs, down.polled) == ("http://down.example", 2, 0)
    assert down.outage.began_at == clock.wall() - 60


def test_a_job_that_is_held_counts_as_held_even_if_it_is_not_due(api, ledger, clock):
    ledger.add(["later"])
    (claim,) = ledger._leases.claim(1)
    poll_job(ledger, claim)  # its pace is 10 s
    outage = Outage(api.base, clock.now(), "refused", clock.now() + 5)
    ledger._outages.begin(outage)
    ledger._outages.hold([claim], api.base)
    result = preview(ledger, api.profile)
    assert [(due.origin, due.jobs, due.polled) for due in result.due] == [(api.base, 1, 0)]
    assert result.next_due_in_s is None


def test_jobs_that_are_leased_or_not_due_yet_and_jobs_that_can_not_be_polled_are_counted(
    api, ledger, clock
):
    ledger.add(["leased", "later"])
    _, later = ledger._leases.claim(2)
    poll_job(ledger, later)  # its pace is 10 s
    ledger._leases.release([later])
    clock.sleep(4)
    ledger.add([Job("a", profile="gone"), Job("b", profile="gone")])
    result = preview(ledger, api.profile)
    assert (result.waiting, result.leased, result.due) == (3, 1, [])
    assert result.next_due_in_s == pytest.approx(6, abs=0.1)
    (reason,) = result.unpollable
    assert reason.jobs == 2 and str(reason).startswith("2 jobs: there is no profile 'gone'")


def test_a_credential_command_is_not_run(ledger, tmp_path):
    mark = tmp_path / "mark"
    ledger.add(["a"])
    profile = Profile(
        url="https://api.example/{id}", auth="bearer command:touch %s" % mark, name="x"
    )
    (due,) = preview(ledger, profile).due
    assert due.polled == 1 and not mark.exists()


def test_a_preview_changes_nothing_in_the_ledger(api, ledger):
    ledger.add(["a", "b", Job("c", profile="gone")])
    before = dump(ledger)
    preview(ledger, api.profile._replace(limit="10/m"))
    assert dump(ledger) == before


def dump(ledger):
    """The content of the file."""
    return ledger._storage.file.read(
        lambda db: [
            db.execute("SELECT * FROM " + table).fetchall()
            for (table,) in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall()
        ]
    )
