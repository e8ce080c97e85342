"""The second stage of some waits: the job is done, and its result is fetched (`result_url`).

House rules
  * A job that was seen done stays done. If its result can't be fetched, the outcome is done,
    without a result and with an error that says why.
  * Fetching is retried as a poll is: after faults with the retry backoff, under the same limit. It
    has its own deadline, `result_timeout` after the job was seen done, however long the job took.
  * A link from a reply may expire. So after each fault the job is polled again, which gives a new
    link. A URL from the profile does not expire: it is requested again at once.
"""

from ...model import FaultCode, Job, State
from ...profiles.bodies import job_values
from ...reading.verdict import Reading, Verdict
from ...urls import fill_template, is_link_template, join_url
from ..wait_settings import WaitSettings
from ..wait_state import DoneJob, Ending, WaitState
from .endings import end_wait


def begin_result_stage(
    state: WaitState, settings: WaitSettings, reading: Reading, now: float
) -> WaitState:
    """Fetch the result of a job that was just seen done."""
    done = DoneJob(
        now - state.started_at, notice_delay_s=reading.notice_delay_s, duration_s=reading.duration_s
    )
    after = state._replace(done=done, deadline=now + settings.result_timeout)
    return _fetch(after, settings, reading, now)


def continue_result_stage(
    state: WaitState, settings: WaitSettings, reading: Reading, now: float
) -> WaitState:
    """The state after the result has arrived, or after the job was polled for a new link."""
    done = state.done
    assert done is not None
    if reading.verdict is Verdict.FAILED:
        return end_wait(state, now, State.FAILED, "the job has failed meanwhile")
    if not reading.is_result:
        return _fetch(state, settings, reading, now)
    times = (done.notice_delay_s, done.duration_s)
    ending = Ending(State.DONE, now, reading.result, None, *times, saved_to=reading.saved_to)
    return state._replace(ending=ending)


def _fetch(state: WaitState, settings: WaitSettings, reading: Reading, now: float) -> WaitState:
    """Fetch the result at once, from the link in the reply or the URL in the profile."""
    assert state.done is not None and settings.result_url is not None
    link = reading.result_link
    if is_link_template(settings.result_url):
        link = template_url(settings.result_url, state.job, state.url)
    if link is None:
        message = "the reply has no link to it at %s" % settings.result_url
        return end_wait(state, now, State.UNREACHABLE, message)
    done = state.done._replace(link=link, has_disk_fault=False)
    return state._replace(done=done, next_at=now, wait_from=now, etag=None)


def template_url(template: str, job: Job, job_url: str) -> str:
    """The URL that a profile gives for a job; `job_url` is that of the job itself."""
    filled = fill_template(template, **job_values(job))
    return join_url(job_url, filled) or filled


def after_failed_attempt(state: WaitState, settings: WaitSettings, reading: Reading) -> WaitState:
    """The state after a result was not fetched: a link from a reply is not used twice."""
    done = state.done
    assert done is not None and settings.result_url is not None
    link = done.link if is_link_template(settings.result_url) else None
    is_disk_fault = reading.code is FaultCode.DISK
    return state._replace(done=done._replace(link=link, has_disk_fault=is_disk_fault))


def note_disk_fault(state: WaitState) -> WaitState:
    """The state of a wait that ends because the file of the result can't be written."""
    assert state.done is not None
    return state._replace(done=state.done._replace(has_disk_fault=True))
