"""Ends that count only when they were seen several times in a row (`confirm` in a profile).

Some APIs are eventually consistent: one of their servers says that a job is done, and the next one
says that it is still running. House rules: a pending reply starts the count again, and so does a
different end. A fault does neither, because it says nothing about the job.
"""

from ...model import Error, State
from ...reading.verdict import Reading, Verdict
from ..wait_state import NO_RETRIES, Ending, RetryState


def count_end(earlier: RetryState, reading: Reading) -> RetryState:
    """The end that a reading reports, counted with the same ones before it."""
    end = reading.verdict.value
    times_seen = 1
    if earlier.unconfirmed_end == end:
        times_seen += earlier.times_seen
    return NO_RETRIES._replace(unconfirmed_end=end, times_seen=times_seen)


def ending_from_reading(reading: Reading, now: float) -> Ending:
    """The end of a wait for a job that is done or has failed."""
    state = State.DONE
    error = None
    if reading.verdict is Verdict.FAILED:
        state = State.FAILED
        reason = "the job failed, and the reply gives no reason"
        if reading.status is not None:
            reason = 'the job finished with status "%s"' % reading.status
        error = Error(reading.error_code, reading.error_message or reason)
    return Ending(state, now, reading.result, error, reading.notice_delay_s, reading.duration_s)
