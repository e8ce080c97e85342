"""Notifications in the ledger: delivered at least once, retried for a day."""

import pytest

from ledger_host import DAY, HOUR, poll_job
from pollkit import Job, Ledger
from pollkit.core.reading.verdict import Verdict


def finish(ledger, *jobs, verdict=Verdict.DONE):
    ledger.add(jobs)
    for claim in ledger._leases.claim(len(jobs)):
        poll_job(ledger, claim, verdict)


def test_a_notification_is_delivered_once_if_all_goes_well(ledger, notifications, path, clock):
    assert notifications.claim(9) == [] and notifications.next_at() is None
    finish(ledger, Job("a", metadata={"to": "me"}))
    with Ledger(path, clock) as other:
        (notification,) = notifications.claim(9)
        assert (notification.id, notification.attempt) == ("a", 1)
        assert notification.outcome["state"] == "done"
        assert notification.metadata == {"to": "me"}
        assert other._notifications.claim(9) == []
        assert ledger.summary().pending_notifications == 1
        notifications.mark_notified(notification)
        clock.pass_s(DAY)
        assert other._notifications.claim(9) == []
    summary = ledger.summary()
    assert (summary.pending_notifications, summary.gave_up_notifying) == (0, 0)


def test_after_a_process_died_another_one_delivers_its_notification(ledger, notifications, clock):
    finish(ledger, "a")
    notifications.claim(9, lease_s=30)
    clock.pass_s(29)
    assert notifications.claim(9) == []
    clock.pass_s(1)
    assert notifications.claim(9)[0].attempt == 2


def test_a_notification_that_fails_is_retried_for_a_day_and_then_given_up(
    ledger, notifications, clock
):
    finish(ledger, "a")
    clock.pass_s(3 * DAY)  # without any attempt: that does not count
    for attempt in range(1, 99):
        (notification,) = notifications.claim(9)
        assert notification.attempt == attempt
        if not notifications.record_failure(notification, "exit status 1\nboom", retry_in_s=HOUR):
            break
        assert notifications.claim(9) == []
        assert notifications.next_at() == pytest.approx(clock.now() + HOUR)
        clock.pass_s(HOUR)
    (row,) = ledger.jobs()
    assert (attempt, row.notify_attempts, row.gave_up_notifying) == (25, 25, True)
    assert row.notify_error == "exit status 1 boom"
    summary = ledger.summary()
    assert (summary.pending_notifications, summary.gave_up_notifying) == (0, 1)


def test_the_caller_decides_when_to_give_up(ledger, notifications, clock):
    finish(ledger, "a", "b")
    a, b = notifications.claim(9)
    assert not notifications.record_failure(a, "exit status 1", 10.0, give_up_s=0.0)
    assert notifications.record_failure(b, "exit status 1", 10.0, give_up_s=15.0)
    clock.pass_s(16)
    (b,) = notifications.claim(9)
    assert not notifications.record_failure(b, "exit status 1", 10.0, give_up_s=15.0)
    assert ledger.summary().gave_up_notifying == 2


def test_a_line_in_the_outbox_is_recorded_apart_from_the_notification(ledger, notifications, clock):
    finish(ledger, "a", "b")
    first = notifications.claim(9)
    assert [each.is_in_outbox for each in first] == [False, False]
    notifications.mark_in_outbox(first[:1])
    notifications.mark_in_outbox([])
    for each in first:
        assert notifications.record_failure(each, "exit status 1", retry_in_s=10.0)
    clock.pass_s(10)
    again = notifications.claim(9)
    assert [(each.id, each.is_in_outbox) for each in again] == [("a", True), ("b", False)]
    notifications.mark_notified(again[0])
    clock.pass_s(1)
    ledger.retry(["a"])
    finish(ledger, "a")
    notifications.mark_in_outbox(again)  # the line of the earlier outcome
    assert [each.is_in_outbox for each in notifications.claim(9)] == [False]


def test_a_failure_after_success_does_not_count(ledger, notifications):
    finish(ledger, "a")
    (notification,) = notifications.claim(9)
    notifications.mark_notified(notification)
    assert not notifications.record_failure(notification, "late", 1.0)
    assert next(ledger.jobs()).notified_at is not None


def test_a_failure_of_one_process_does_not_hide_that_another_one_has_delivered(
    ledger, notifications
):
    finish(ledger, "a")
    finish(ledger, "b")
    first, second = notifications.claim(9)
    notifications.record_failure(first, "unreachable", 1.0)
    notifications.mark_notified(second)
    keys = [first.key, second.key]
    assert notifications.delivered(keys) == [second.key]
    notifications.mark_notified(first)
    assert sorted(notifications.delivered(keys)) == sorted(keys)
    assert notifications.delivered([]) == []


def test_a_notification_of_an_earlier_outcome_does_not_affect_the_next_one(
    ledger, notifications, clock
):
    finish(ledger, "a", verdict=Verdict.FAILED)
    (first,) = notifications.claim(9)
    notifications.mark_notified(first)
    clock.pass_s(1)
    ledger.retry(["a"])
    finish(ledger, "a")
    notifications.mark_notified(first)
    assert notifications.claim(9)[0].outcome["state"] == "done"


def test_only_notifications_that_are_still_ours_are_released(ledger, notifications):
    finish(ledger, "a", "b", "c")
    first = notifications.claim(3, 0.0)
    second = notifications.claim(3, 60.0)
    notifications.mark_notified(second[1])
    notifications.release(first)
    assert notifications.next_at() > ledger.clock.now() + 50
    notifications.release(second)
    released = [(notification.id, notification.attempt) for notification in notifications.claim(3)]
    assert released == [("a", 3), ("c", 3)]
