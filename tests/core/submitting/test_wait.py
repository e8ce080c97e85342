"""The wait for a job after its submission."""

from pollkit import Backoff, Job, State
from pollkit.core.learning.durations import Completion, Durations
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.submitting.intent import Answer, Intent, Kind
from pollkit.core.submitting.wait import start_wait, submitted_job, unsubmitted_wait
from pollkit.core.waiting.wait_settings import WaitSettings

JOB = Job("submit-1", label="small", metadata={"customer": 7})
SETTINGS = WaitSettings(pace=Backoff(2, 10), timeout=60.0)
PENDING = Reading(Verdict.PENDING, "", status="queued")


def accepted(reading=PENDING, **fields):
    return Answer(Kind.ACCEPTED, "", reading=reading, **fields)


def start(answer, settings=SETTINGS, now=100.0, latest=130.0):
    return start_wait(JOB, "https://a/1", settings, answer, now, latest)


def test_the_job_gets_the_id_and_the_url_of_the_server_and_keeps_the_rest():
    assert submitted_job(JOB, accepted(job_id="j", job_url="https://a/j")) == JOB._replace(
        id="j", url="https://a/j"
    )
    assert submitted_job(JOB, accepted(job_url="https://a/j")).id == "https://a/j"
    assert submitted_job(JOB, accepted()).id == "submit-1"


def test_the_wait_begins_with_the_status_of_the_reply_and_ends_at_the_deadline_of_both():
    state = start(accepted(PENDING._replace(accepted=True)))
    assert (state.status, state.is_accepted, state.polls) == ("queued", True, 0)
    assert (state.started_at, state.next_at, state.deadline) == (100.0, 100.0, 130.0)


def test_the_first_poll_is_not_before_the_retry_after():
    state = start(accepted(retry_after=7.0))
    assert (state.next_at, state.why) == (107.0, "retry_after")


def test_the_first_poll_is_at_once_unless_past_jobs_say_how_long_they_take():
    unknown = WaitSettings(timeout=60.0)
    assert start(accepted(), unknown).next_at == 100.0
    durations = Durations()
    durations.relearn([Completion(20.0, 20.0, float(i)) for i in range(9)], {})
    assert start(accepted(), unknown._replace(durations=durations), latest=900.0).next_at > 110.0


def test_a_job_that_has_finished_needs_no_poll():
    done = Reading(Verdict.DONE, "", status="done", result=42)
    state = start(accepted(done, is_finished=True))
    assert (state.ending.state, state.ending.result, state.polls) == (State.DONE, 42, 0)


def test_a_wait_that_never_began_has_the_faults_of_the_submission():
    intent = Intent("key", "https://a/jobs", "", faults=3, last_fault="refused")
    state = unsubmitted_wait(JOB, intent, SETTINGS, 5.0)
    assert (state.url, state.faults, state.last_fault) == ("https://a/jobs", 3, "refused")
    assert (state.started_at, state.ending) == (5.0, None)
