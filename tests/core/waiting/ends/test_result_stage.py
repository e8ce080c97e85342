"""A job that is done, and whose result is fetched from another URL."""

import pytest

from machine_runs import (
    DONE,
    FAILED,
    FAULT,
    JOB,
    LIMITED,
    NOT_FOUND,
    PENDING,
    REFUSED,
    STEADY,
    UNAUTHORISED,
    URL,
    run,
)
from pollkit import Job
from pollkit.core.learning.completions import observed_duration
from pollkit.core.model import FaultCode, State
from pollkit.core.scheduling.outages import Outage, end_at_deadline
from pollkit.core.snapshot import state_from_row, state_to_row, with_current_deadline
from pollkit.core.waiting.ends.endings import RESULT_ERROR, SAVE_ERROR
from pollkit.core.waiting.ends.result_stage import template_url
from pollkit.core.waiting.machine import cancel, next_action, observe
from pollkit.core.waiting.wait_settings import LEDGER_DEFAULTS

LINKED = STEADY._replace(result_url="output.url")
FIXED = STEADY._replace(result_url="/results/{id}")
LINK = "http://files/1?sig=s3cr3t"
SEEN_DONE = DONE._replace(result=None, result_link=LINK, notice_delay_s=0.5, duration_s=4.5)
RESULT = DONE._replace(status=None, is_result=True)
NO_RESULT = FAULT._replace(is_result=True)


def test_the_result_is_fetched_at_once_when_the_job_is_done():
    state, times = run([PENDING, SEEN_DONE], LINKED)
    action = next_action(state, times[-1])
    assert (action.url, action.is_result, action.etag) == (LINK, True, None)
    assert state.url == URL  # the outcome has the URL of the job


def test_the_outcome_has_the_fetched_result_and_the_times_of_the_job():
    state, _ = run([PENDING, SEEN_DONE, RESULT._replace(result=[1], saved_to="/r/1")], LINKED)
    ending = state.ending
    assert (ending.state, ending.result, ending.error) == (State.DONE, [1], None)
    assert (ending.notice_delay_s, ending.duration_s, ending.saved_to) == (0.5, 4.5, "/r/1")


def test_a_failed_job_has_no_result_to_fetch():
    assert run([FAILED], LINKED)[0].ending.state is State.FAILED


def test_an_end_that_must_be_confirmed_is_confirmed_before_its_result_is_fetched():
    settings = LINKED._replace(confirm=2)
    assert run([SEEN_DONE], settings)[0].done is None
    assert run([SEEN_DONE, SEEN_DONE], settings)[0].done is not None


def test_after_a_fault_the_job_is_polled_for_a_new_link():
    state, times = run([SEEN_DONE, NO_RESULT], LINKED)
    action = next_action(state, state.next_at)
    assert state.next_at == times[-1] + 1.0  # the retry backoff
    assert (action.url, action.is_result) == (URL, False)
    state, _ = run([SEEN_DONE, NO_RESULT, SEEN_DONE._replace(result_link="http://new/")], LINKED)
    assert next_action(state, state.next_at).url == "http://new/"
    assert state.retry.faults_in_row == 1  # the new link is no result yet


def test_a_url_of_the_profile_is_requested_again_after_a_fault():
    state, _ = run([SEEN_DONE, NO_RESULT], FIXED)
    assert next_action(state, state.next_at).url == "http://api/results/job_1"


@pytest.mark.parametrize(
    "readings",
    [
        [NO_RESULT] * 10,
        [REFUSED._replace(is_result=True)],
        [UNAUTHORISED._replace(is_result=True)],
        [NOT_FOUND._replace(is_result=True)] * 20,
        [LIMITED._replace(is_result=True, retry_after=400.0)],
    ],
    ids=["faults", "refused", "unauthorised", "not found", "limited for long"],
)
def test_a_job_whose_result_is_not_fetched_stays_done(readings):
    state, _ = run([SEEN_DONE, *readings], FIXED)
    ending = state.ending
    assert (ending.state, ending.result, ending.error.code) == (State.DONE, None, RESULT_ERROR)
    assert ending.error.message.startswith("its result was not fetched: ")
    assert (ending.notice_delay_s, ending.duration_s) == (0.5, 4.5)


def test_a_done_job_that_fails_later_stays_done():
    state, _ = run([SEEN_DONE, NO_RESULT, FAILED], LINKED)
    assert state.ending.state is State.DONE and state.ending.error.code == RESULT_ERROR


def test_a_reply_without_the_link_ends_the_wait_as_done():
    state, _ = run([SEEN_DONE._replace(result_link=None)], LINKED)
    assert state.ending.state is State.DONE
    assert "no link to it at output.url" in state.ending.error.message


def test_the_result_has_its_own_deadline():
    """Also if the job was done at the last moment."""
    late = [PENDING] * 12 + [SEEN_DONE]
    state, times = run(late, FIXED)
    assert times[-1] == 60.0 and state.ending is None
    assert state.deadline == 60.0 + 300.0
    state = observe(state, FIXED, NO_RESULT, 361.0, 0.0)
    assert state.ending.state is State.DONE and state.ending.error.code == RESULT_ERROR


def test_a_file_that_cannot_be_written_ends_a_wait_at_once():
    disk_fault = NO_RESULT._replace(code=FaultCode.DISK, because="can't save it: disk full")
    state, _ = run([SEEN_DONE, disk_fault], FIXED)
    assert state.ending.state is State.DONE
    assert state.ending.error == (SAVE_ERROR, "can't save it: disk full")


def test_a_ledger_tries_again_to_write_a_file():
    disk_fault = NO_RESULT._replace(code=FaultCode.DISK)
    in_ledger = FIXED._replace(max_faults=None, result_timeout=LEDGER_DEFAULTS.result_timeout)
    state, _ = run([SEEN_DONE] + [disk_fault] * 50, in_ledger)
    assert state.ending is None and state.done.has_disk_fault
    state, _ = run([SEEN_DONE, disk_fault, NO_RESULT], in_ledger)
    assert not state.done.has_disk_fault
    linked = in_ledger._replace(result_url="output.url")
    state, _ = run([SEEN_DONE, disk_fault, SEEN_DONE], linked)
    assert not state.done.has_disk_fault  # of the attempt that follows


def test_the_caller_can_cancel_the_wait_for_a_result():
    state, _ = run([SEEN_DONE], FIXED)
    assert cancel(state, 1.0).ending.state is State.CANCELLED


def test_a_deadline_that_passes_during_an_outage_leaves_the_job_done():
    state, _ = run([SEEN_DONE], FIXED)
    outage = Outage("http://files", 0.0, "refused", 10.0)
    assert end_at_deadline(state, outage, 400.0).ending.state is State.DONE


def test_the_time_to_fetch_the_result_is_not_the_duration_of_the_job():
    readings = [PENDING, SEEN_DONE._replace(notice_delay_s=None, duration_s=None)]
    state, _ = run(readings, FIXED)
    state = observe(state, FIXED, RESULT, 50.0, 0.0)
    assert state.ending.at == 50.0
    assert observed_duration(state) == (0.0, 5.0)


def test_another_process_continues_to_fetch_the_result():
    state, _ = run([PENDING, SEEN_DONE], FIXED)
    row = state_to_row(state, URL)
    later = with_current_deadline(state_from_row(row, JOB, URL), FIXED._replace(timeout=1.0))
    assert (later.done, later.deadline) == (state.done, state.deadline)


def test_a_link_with_a_secret_is_not_stored():
    state, _ = run([SEEN_DONE], LINKED)
    row = state_to_row(state, URL)
    assert "s3cr3t" not in str(row)
    later = state_from_row(row, JOB, URL)
    assert later.done == state.done._replace(link=None)
    assert next_action(later, later.next_at).url == URL


def test_a_template_is_filled_in_and_relative_to_the_job():
    job = Job("a/b", label="small")
    assert (
        template_url("/r/{label}/{id}", job, "http://api/v1/jobs/1") == "http://api/r/small/a%2Fb"
    )
    assert template_url("http://files/{id}", Job("x"), "http://api/") == "http://files/x"
