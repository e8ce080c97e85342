"""Ask an API to cancel a job, in the caller's thread."""

from typing import Union

from ...core.model import display_id
from ...core.reading.result_reader import read_cancel_reply
from ...core.reading.verdict import Verdict
from ...core.units import to_seconds
from ...edges.clock import Clock
from ...errors import PollkitError
from .endpoint import Target

LONGEST_TOKEN_WAIT_S = 60.0


def send_cancel(target: Target, clock: Clock, timeout: Union[float, str, None] = None) -> None:
    """Send the request to cancel a job; a PollkitError if the API does not accept it in time.

    Without `timeout`, the request has the time of any request, after it has waited for the limit.
    """
    endpoint = target.endpoint
    job = target.job
    request = endpoint.cancel_request(job, target.url)
    is_elsewhere = request.trusted_origin != endpoint.origin
    endpoint.transport.check(request.url if is_elsewhere else target.url)
    most_s = None if timeout is None else to_seconds(timeout, "timeout")
    until = clock.now() + (LONGEST_TOKEN_WAIT_S if most_s is None else most_s)
    if not endpoint.bucket.acquire(until - clock.now()):
        raise PollkitError("%s was not cancelled: the rate limit allows no request" % _name(target))
    left_s = None if most_s is None else max(0.001, until - clock.now())
    seen = endpoint.transport.fetch(request, endpoint.settings.timeout, within_s=left_s)
    reading = read_cancel_reply(seen)
    if reading.verdict is Verdict.UNAUTHORISED and endpoint.settings.can_reauthorise:
        request.fresh_credential = True
        seen = endpoint.transport.fetch(request, endpoint.settings.timeout, within_s=left_s)
        reading = read_cancel_reply(seen)
    endpoint.bucket.apply_feedback(reading, clock.now(), clock.now() + (reading.retry_after or 1.0))
    if reading.verdict is not Verdict.PENDING:
        because = endpoint.transport.scrub(reading.because, request.url)
        raise PollkitError("%s was not cancelled: %s" % (_name(target), because))


def _name(target: Target) -> str:
    return display_id(target.job)
