"""Ledger: what is in it stays, whoever is killed; nobody ends a job twice."""

import pytest

from ledger_host import DAY, HOUR, RULES, look, peak_of, states
from pollkit import ConfigError, Job, Ledger
from pollkit.core.reading.reader import Verdict
from pollkit.edges.ledger import statistics as ledger_history
from pollkit.edges.ledger.statistics import Counts

# Adding


def test_jobs_are_kept_as_they_were_added(ledger):
    jobs = [
        Job("a"),
        Job("b", "https://api.internal/b", "knowhere", "small", 7.0, {"who": ["me", 1, None]}),
    ]
    ledger.add(jobs)
    assert [claim.job for claim in ledger.claim(10)] == jobs


def test_adding_again_changes_nothing_and_says_so(ledger):
    assert ledger.add(["a", "b", "a"]) == (2, ["a"])
    claim = ledger.claim(1)[0]
    look(ledger, claim, Verdict.DONE)
    assert ledger.add(["a", "b", "c"]) == (1, ["a", "b"])
    assert states(ledger) == {"waiting": 2, "done": 1}


@pytest.mark.parametrize(
    "job, said",
    [
        (Job("a", profile="sync"), "another URL or profile"),
        (Job("a", "https://other.internal/a"), "another URL"),
        (Job("x", "https://me:s3cr3t@api.internal/x"), "secret"),
        (Job.from_any("https://api.internal/?token=s3cr3t"), "secret"),
        (Job("x", metadata={"a": {1}}), "can't be put"),
        (Job("x", metadata="text"), "can't be put"),
        (Job("x\ud800"), "can't be put"),
        (Job("x\0y"), "NUL"),
        (Job("x", size=10**400), "can't be put"),
        (Job("x", size=float("inf")), "size"),
        (Job("x", metadata={"y": "z" * 65536}), "over 64 KB"),
        (Job("x", metadata={"y": float("nan")}), "can't be put"),
        (Job(""), "needs an id"),
        (Job("x", size="big"), "can't be put"),
        (7, "a job must be"),
    ],
)
def test_what_can_not_be_kept_is_refused_and_nothing_is_added(ledger, job, said):
    ledger.add(["a"])
    with pytest.raises(ConfigError, match=said) as raised:
        ledger.add(["new", job])
    assert "s3cr3t" not in str(raised.value)
    assert [row.job.id for row in ledger.rows()] == ["a"]


def test_a_text_is_one_job_and_not_its_letters(ledger):
    for call in (ledger.add, ledger.retry, ledger.forget, lambda ids: list(ledger.rows(ids=ids))):
        with pytest.raises(ConfigError, match="not one"):
            call("job_1")


# Claims


def test_who_claims_has_it_alone_until_the_lease_runs_out(ledger, path, clock):
    ledger.add(["a", "b", "c"])
    with Ledger(path, clock) as other:
        mine = ledger.claim(2, lease_s=60)
        assert [c.job.id for c in mine + other.claim(9)] == ["a", "b", "c"]
        assert other.claim(9) == other.claim(9, horizon_s=100) == [] and states(ledger) == {
            "leased": 3
        }
        clock.pass_s(30)
        assert ledger.renew(mine[:1], 60) == mine[:1]
        clock.pass_s(31)
        assert [c.job.id for c in other.claim(9)] == ["b", "c"]
        assert ledger.renew(mine, 60) == mine[:1]


def test_each_claim_has_a_token_of_its_own(ledger, clock):
    ledger.add(["a"])
    tokens = set()
    for _ in range(3):
        tokens.add(ledger.claim(1, lease_s=1)[0].owner)
        clock.pass_s(1)
    assert len(tokens) == 3


def test_what_comes_after_the_lease_was_lost_is_discarded(ledger, clock):
    ledger.add(["a"])
    late = ledger.claim(1, lease_s=5)[0]
    clock.pass_s(5)
    owner = ledger.claim(1)[0]
    assert not look(ledger, late) and not look(ledger, late, Verdict.FAILED)
    ledger.release([late])
    assert states(ledger) == {"leased": 1}
    assert (
        look(ledger, owner, Verdict.DONE)
        and not look(ledger, owner, Verdict.FAILED)
        and not look(ledger, late)
    )
    assert states(ledger) == {"done": 1}


def test_a_lease_that_ran_out_still_counts_while_nobody_else_has_claimed(ledger, clock):
    ledger.add(["a"])
    claim = ledger.claim(1, lease_s=5)[0]
    clock.pass_s(50)
    assert look(ledger, claim, Verdict.DONE)


def test_a_wait_goes_on_where_it_was_left(ledger, clock):
    ledger.add(["a"])
    claim = ledger.claim(1)[0]
    assert look(ledger, claim)
    ledger.release([claim])
    assert ledger.claim(9) == [] and ledger.next_due() == clock.now() + 10
    assert [c.job.id for c in ledger.claim(9, horizon_s=10)] == ["a"]
    ledger.release(ledger.claim(9, horizon_s=10))
    clock.pass_s(60)
    again = ledger.claim(9)[0].resumed("u", RULES, clock.now())
    assert (again.polls, again.status, again.started_at, again.deadline) == (
        1,
        "running",
        pytest.approx(clock.now() - 60),
        pytest.approx(clock.now() + 240),
    )


def test_the_earliest_come_first_and_no_more_than_wanted(ledger, clock):
    for name in "abc":
        ledger.add([name])
        clock.pass_s(1)
    assert [c.job.id for c in ledger.claim(2)] == ["a", "b"]


@pytest.mark.parametrize("lease_s", [0, -1, 601, float("nan")])
def test_a_lease_that_would_strand_jobs_is_refused(ledger, lease_s):
    with pytest.raises(ConfigError, match="lease"):
        ledger.claim(1, lease_s=lease_s)


def test_fewer_than_none_can_not_be_claimed(ledger):
    ledger.add(["a"])
    with pytest.raises(ConfigError, match="-1 jobs"):
        ledger.claim(-1)
    assert ledger.claim(0) == [] and states(ledger) == {"waiting": 1}


def test_a_wait_begins_when_its_job_is_added_and_a_passed_deadline_leaves_a_last_look(
    ledger, clock
):
    ledger.add(["a", "b", "c"])
    clock.pass_s(100)
    first = ledger.claim(1)[0]
    assert first.resumed("u", RULES, clock.now()).deadline == pytest.approx(clock.now() + 200)
    ledger.release([first])
    clock.pass_s(1000)
    late = ledger.claim(2)
    assert late[0].resumed("u", RULES, clock.now()).deadline == clock.now()
    assert look(ledger, late[0], Verdict.DONE) and look(ledger, late[1])
    assert states(ledger) == {"waiting": 1, "done": 1, "timed_out": 1}


@pytest.mark.parametrize(
    "saved", ["{}", '{"started_at": "soon"}', '{"trouble": [1], "started_at": 1}', "[]", "7"]
)
def test_a_wait_that_somebody_meddled_with_begins_again(ledger, clock, saved):
    ledger.add(["a"])
    ledger._file.write(lambda db: db.execute("UPDATE jobs SET progress = ?", (saved,)))
    assert list(ledger.rows())[0].progress == {} or saved[2:9] in ("trouble", "started")
    progress = ledger.claim(1)[0].resumed("u", RULES, clock.now())
    assert (progress.polls, progress.deadline) == (0, pytest.approx(clock.now() + 300))


# Ends, retries, forgetting, status


def test_an_end_is_kept_with_its_outcome(ledger, clock):
    ledger.add([Job("a", label="small", metadata={"n": 1})])
    clock.pass_s(7)
    look(ledger, ledger.claim(1)[0], Verdict.DONE, result={"pages": 3})
    (row,) = ledger.rows()
    assert (row.state, row.due_at, row.ended_at, row.told_at, row.job.metadata) == (
        "done",
        None,
        pytest.approx(clock.wall()),
        None,
        {"n": 1},
    )
    assert row.outcome["result"] == {"pages": 3} and row.outcome["waited_s"] == 7
    assert ledger.next_due() is None


def test_an_ended_job_can_wait_again_from_the_beginning(ledger, clock):
    ledger.add(["a", "b"])
    look(ledger, ledger.claim(1)[0], Verdict.FAILED)
    ledger.mark_notified(ledger.pending_notifications(1)[0])
    clock.pass_s(1000)
    assert ledger.retry(["a", "b", "nobody"]) == ["a"]
    row = next(ledger.rows(ids=["a"]))
    assert (row.state, row.outcome, row.told_at, row.tells) == ("waiting", None, None, 0)
    claim = [c for c in ledger.claim(9) if c.job.id == "a"][0]
    assert claim.resumed("u", RULES, clock.now()).deadline == pytest.approx(clock.now() + 300)


def test_jobs_that_were_put_off_come_last_of_what_is_due(ledger, clock):
    """However many can't be asked about, and however old they are: the next run begins with the others."""
    ledger.add(["a", "b"])
    bad = ledger.claim(2)
    clock.pass_s(5)
    ledger.add(["c"])
    ledger.put_off(bad, 30)
    assert ledger.are_all_put_off() is False
    assert [claim.job.id for claim in ledger.claim(9, horizon_s=15)] == [
        "c"
    ] and ledger.next_due() == clock.now() + 30
    clock.pass_s(1)
    ledger.add(["d"])
    clock.pass_s(1)
    ledger.resume(bad)
    assert [claim.job.id for claim in ledger.claim(9)] == ["d", "a", "b"]


def test_what_is_forgotten_is_gone_also_for_who_has_it(ledger, clock):
    ledger.add(["a", "b", "c", "d"])
    claims = ledger.claim(3)
    look(ledger, claims[0], Verdict.DONE)
    assert ledger.forget(["b", "nobody"]) == ["b"]
    assert not look(ledger, claims[1], Verdict.DONE)
    clock.pass_s(100)
    look(ledger, claims[2], Verdict.DONE)
    assert (
        ledger.forget_finished(older_than_s=50) == 1
        and ledger.forget_finished(untold_too=False) == 0
    )
    assert [row.job.id for row in ledger.rows()] == ["c", "d"]


def test_rows_can_be_asked_for_by_state_profile_label_and_id_and_come_in_order(ledger, monkeypatch):
    monkeypatch.setattr("pollkit.edges.ledger.ledger.PAGE", 3)
    jobs = [Job("job %d" % i, profile="p%d" % (i % 2), label="l%d" % (i % 3)) for i in range(10)]
    ledger.add(jobs)
    look(ledger, ledger.claim(1)[0], Verdict.DONE)
    ledger.claim(1)

    def found(**filters):
        return [int(row.job.id[4:]) for row in ledger.rows(**filters)]

    assert found() == list(range(10))
    assert (
        found(states=["done"]) == [0]
        and found(states=["leased"]) == [1]
        and len(found(states=["waiting"])) == 8
    )
    assert found(profile="p1", label="l0") == [3, 9] and found(ids=["job 7", "job 2", "?"]) == [
        7,
        2,
    ]
    for filters in (
        {},
        {"states": ["done", "waiting"]},
        {"states": ["leased"], "label": "l1"},
        {"profile": "p1"},
    ):
        summary, rows = ledger.summary(**filters), list(ledger.rows(**filters))
        assert sum(summary.states.values()) == len(rows) > 0, filters
        assert {state for state, count in summary.states.items() if count} == {
            row.state for row in rows
        }, filters
        assert summary.pending_notifications == len([row for row in rows if row.ended_at]), filters
    with pytest.raises(ConfigError, match="no state 'asleep'"):
        found(states=["asleep"])


def test_rows_come_without_outcomes_if_these_are_not_wanted(ledger):
    ledger.add(["a", "b"])
    look(ledger, ledger.claim(1)[0], Verdict.DONE)
    rows, bare = list(ledger.rows()), list(ledger.rows(outcomes=False))
    assert [row.outcome is None for row in rows] == [False, True]
    assert bare == [row._replace(outcome=None) for row in rows]


def test_of_large_outcomes_few_are_in_memory_at_once_and_none_is_left_out(ledger, monkeypatch):
    size = 100000
    monkeypatch.setattr(ledger_history, "ENOUGH", 2 * size)
    names = ["job %02d" % i for i in range(30)]
    ledger.add(names)
    for claim in ledger.claim(30):
        look(ledger, claim, Verdict.DONE, result="x" * size)
    assert peak_of(lambda: [len(row.outcome["result"]) for row in ledger.rows()]) < 8 * size
    assert [row.job.id for row in ledger.rows()] == names
    batches = []

    def tell():
        for tellings in iter(lambda: ledger.pending_notifications(100), []):
            batches.append([one.id for one in tellings])

    assert peak_of(tell) < 12 * size
    assert sum(batches, []) == names and {len(batch) for batch in batches} == {2}
    monkeypatch.setattr(ledger_history, "ENOUGH", 1)  # one that is larger is still told
    ledger.retry(names[:2])
    for claim in ledger.claim(2):
        look(ledger, claim, Verdict.DONE, result="x" * size)
    assert [len(ledger.pending_notifications(100)) for _ in range(3)] == [1, 1, 0]
    assert [row.job.id for row in ledger.rows()] == names


def test_a_row_that_waits_shows_how_far_it_has_come(ledger, clock):
    ledger.add(["a"])
    look(ledger, ledger.claim(1)[0], fraction=0.5)
    (row,) = ledger.rows()
    assert (
        row.progress["polls"] == 1
        and row.progress["fraction"] == 0.5
        and row.progress["status"] == "running"
    )
    assert row.due_at == pytest.approx(clock.wall() + 10) and "next_at" not in row.progress
    clock.pass_s(20)
    assert ledger.summary().oldest_s == pytest.approx(20)


# Telling


def test_an_end_is_told_once_if_all_goes_well(ledger, path, clock):
    ledger.add([Job("a", metadata={"to": "me"})])
    assert ledger.pending_notifications(9) == [] and ledger.next_notification_at() is None
    look(ledger, ledger.claim(1)[0], Verdict.DONE)
    with Ledger(path, clock) as other:
        (telling,) = ledger.pending_notifications(9)
        assert (telling.id, telling.tells, telling.outcome["state"], telling.metadata) == (
            "a",
            1,
            "done",
            {"to": "me"},
        )
        assert other.pending_notifications(9) == [] and ledger.summary().pending_notifications == 1
        ledger.mark_notified(telling)
        clock.pass_s(DAY)
        assert other.pending_notifications(9) == [] and ledger.summary()[2:] == (0, 0)


def test_who_dies_while_telling_is_followed_by_another(ledger, clock):
    ledger.add(["a"])
    look(ledger, ledger.claim(1)[0], Verdict.DONE)
    ledger.pending_notifications(9, lease_s=30)
    clock.pass_s(29)
    assert ledger.pending_notifications(9) == []
    clock.pass_s(1)
    assert ledger.pending_notifications(9)[0].tells == 2


def test_what_could_not_be_told_is_tried_for_a_day_and_then_shown(ledger, clock):
    ledger.add(["a"])
    look(ledger, ledger.claim(1)[0], Verdict.DONE)
    clock.pass_s(3 * DAY)  # nobody was there to tell: that does not count
    for tries in range(1, 99):
        (telling,) = ledger.pending_notifications(9)
        assert telling.tells == tries
        if not ledger.record_notification_failure(telling, "exit status 1\nboom", retry_in_s=HOUR):
            break
        assert ledger.pending_notifications(
            9
        ) == [] and ledger.next_notification_at() == pytest.approx(clock.now() + HOUR)
        clock.pass_s(HOUR)
    (row,) = ledger.rows()
    assert (tries, row.tells, row.gave_up_telling, row.tell_error) == (
        25,
        25,
        True,
        "exit status 1 boom",
    )
    assert ledger.summary()[2:] == (0, 1)


def test_told_beats_not_told_and_neither_touches_another_end(ledger, clock):
    ledger.add(["a"])
    look(ledger, ledger.claim(1)[0], Verdict.FAILED)
    first = ledger.pending_notifications(9)[0]
    ledger.mark_notified(first)
    assert (
        not ledger.record_notification_failure(first, "late", 1.0)
        and next(ledger.rows()).told_at is not None
    )
    clock.pass_s(1)
    ledger.retry(["a"])
    look(ledger, ledger.claim(1)[0], Verdict.DONE)
    ledger.mark_notified(first)
    assert ledger.pending_notifications(9)[0].outcome["state"] == "done"


# Durations and counts


def ends(ledger, claim, duration_s):
    look(ledger, claim, Verdict.DONE, duration_s=float(duration_s))


def test_the_last_durations_of_each_kind_are_kept(ledger, clock, monkeypatch):
    monkeypatch.setattr(ledger_history, "RECENT", 3)
    for i in range(5):
        ledger.add([Job("s%d" % i, label="small"), Job("l%d" % i, label="large", profile="p")])
        for claim in ledger.claim(2):
            ends(ledger, claim, i)
        clock.pass_s(1)
    assert (
        ledger.durations(None, "small")
        == ledger.durations("p", "large")
        == [(2, 2), (3, 3), (4, 4)]
    )
    assert ledger.durations() == []
    assert ledger.durations_by_kind() == {
        ("", "small"): [(2, 2), (3, 3), (4, 4)],
        ("p", "large"): [(2, 2), (3, 3), (4, 4)],
    }
    ledger.add(["x"])
    claim = ledger.claim(1)[0]
    look(ledger, claim)
    clock.pass_s(10)
    look(ledger, claim, Verdict.DONE)
    assert ledger.durations() == [(0, 10)]


def kept_rows(ledger):
    return ledger._file.read(
        lambda db: [least_s for (least_s,) in db.execute("SELECT least_s FROM durations")]
    )


def test_the_last_to_begin_are_kept_and_not_the_last_to_end(ledger, monkeypatch):
    monkeypatch.setattr(ledger_history, "KEPT_DURATIONS", 4)
    ledger.add(
        ["job_%d" % i for i in range(9)]
    )  # at once: then in the order in which they were given
    claims = ledger.claim(9)
    for i in (8, 5, 7, 2, 0, 6, 1, 4, 3):
        ends(ledger, claims[i], i)
    assert sorted(kept_rows(ledger)) == [5, 6, 7, 8] and ledger.durations() == [
        (5, 5),
        (6, 6),
        (7, 7),
        (8, 8),
    ]


def test_durations_come_by_when_their_jobs_began_and_are_held_up_by_those_that_wait(ledger, clock):
    for name in "abcd":
        ledger.add([name])
        clock.pass_s(1)
    claims = {claim.job.id: claim for claim in ledger.claim(9)}
    for name, duration in [("d", 4), ("b", 2)]:
        ends(ledger, claims[name], duration)
        assert ledger.durations() == [] and ledger.durations_by_kind() == {}
    ends(ledger, claims["a"], 1)
    assert ledger.durations() == [(1, 1), (2, 2)]
    ends(ledger, claims["c"], 3)
    assert ledger.durations() == [(1, 1), (2, 2), (3, 3), (4, 4)]
    ledger.add(["later"])
    assert len(ledger.durations()) == 4
    ledger.retry(["a"])
    assert len(ledger.durations()) == 4  # it waits anew, and from now on


@pytest.mark.parametrize(
    "waits, held",
    [
        (Job("w"), False),
        (Job("w", label="small"), True),
        (Job("w", profile="p", label="small"), True),
        (Job("w", size=3.0), True),
        (Job("w", profile="p", size=3.0), True),
        (Job("w", label="large"), False),
        (Job("w", profile="q", label="small"), False),
        (Job("w", profile="q", size=3.0), False),
    ],
    ids=str,
)
def test_what_may_be_of_the_same_kind_holds_up_durations(ledger, waits, held):
    """A job need not name its profile, and its size may say what its label is."""
    ledger.add([waits, Job("x", profile="p", label="small")])
    ends(ledger, ledger.claim(2)[1], 5)
    assert ledger.durations("p", "small") == ([] if held else [(5, 5)])


def test_one_that_never_ends_holds_up_fifty(ledger):
    ledger.add(["stuck"] + ["job_%d" % i for i in range(60)])
    for i, claim in enumerate(ledger.claim(99)[1:]):
        ends(ledger, claim, i)
        assert bool(ledger.durations()) == (i >= 44)
    assert len(ledger.durations()) == 60


def test_what_was_asked_is_counted_by_the_minute_for_thirty_days(ledger, clock):
    ledger.add(["a"])
    claim = ledger.claim(1)[0]
    progress = claim.resumed("u", RULES, clock.now())
    ledger.save(claim, progress, "u", Counts(1))
    ledger.count(Counts(3, 2, 1), "p")
    ledger.count(Counts(1, 0, 1), "p")
    start = clock.wall() // 60 * 60
    assert ledger.minutes() == [(start, None, (1, 0, 0)), (start, "p", (4, 2, 2))]
    assert ledger.minutes(since=start + 60) == []
    clock.pass_s(31 * DAY)
    ledger.count(Counts(1))
    assert [minute.at for minute in ledger.minutes()] == [start + 31 * DAY]
