"""One poll of many jobs: the pages of a list, and the jobs that the list does not have.

Every request needs a token of the rate limit, and only the first has got one; the others wait for
theirs here. A poll must not take long, because the jobs that it has found wait for its end. So the
pages and the absent jobs that it asks about are bounded, and so is the wait for a token. A job that
was not reached stays pending until the next poll, which asks first about those that it has not
asked about for longest.
"""

from typing import TYPE_CHECKING, List, Sequence, Tuple

from ...core.model import Reply
from ...core.reading.list_reader import UNUSABLE_LINK
from ...core.reading.reader import Seen
from ...core.reading.verdict import Reading, Verdict
from ...core.units import LONG_AGO, NEVER
from ...core.urls import parse_url
from ...core.waiting.machine import next_action
from ...core.waiting.wait_state import Poll
from ...edges.clock import Clock
from ...edges.http.parser import MAX_BODY
from ...edges.http.request import Request
from ...edges.limits.token_bucket import TokenBucket
from ...edges.multiplexer import NOTHING, READ

if TYPE_CHECKING:
    from ...core.scheduling.lane import Entry
    from ...edges.multiplexer import Steps
    from .endpoint import Endpoint, Readings

MOST_PAGES = 100  # of one list
MOST_BYTES = 3 * MAX_BODY  # of its pages, which are kept until the last one has arrived
MOST_ASKED = 10  # absent jobs that one poll asks about
LONGEST_TOKEN_WAIT_S = 10.0  # unless the limit is so slow that two tokens take longer
CHECK_PAUSE_S = 1.0  # a pause of the bucket is noticed after so long


def poll_list(
    endpoint: "Endpoint", entries: "Sequence[Entry]", request: Request, clock: Clock
) -> "Steps[Readings]":
    """Ask for the list with its pages, then about each job that it does not have."""
    ids = [entry.state.job.id for entry in entries]
    deadline = min(entry.state.deadline for entry in entries)
    seen = yield from endpoint.exchange(request)
    pages, problem = yield from _fetch_pages(endpoint, seen, request, clock, deadline)
    whole, readings = endpoint.read_many(pages, ids, request, is_complete=not problem)
    if whole.verdict is not Verdict.PENDING and len(pages) > 1:
        _, earlier = endpoint.read_many(pages[:-1], ids, request, is_complete=False)
        readings = [_finished_or(*pair) for pair in zip(earlier, readings)]
    if problem and endpoint.is_first_warning(problem):
        readings[0] = readings[0]._replace(warnings=readings[0].warnings + (problem,))
    asked = 0
    if endpoint.profile.batch_absent == "ask":
        asked = yield from _poll_absent(endpoint, entries, readings, clock, deadline)
    if asked:
        limited = (each for each in readings if each.verdict is Verdict.LIMITED)
        whole = next(limited, whole)  # pauses the bucket
    return whole._replace(requests=len(pages) + asked), readings


def _poll_absent(
    endpoint: "Endpoint",
    entries: "Sequence[Entry]",
    readings: List[Reading],
    clock: Clock,
    deadline: float,
) -> "Steps[int]":
    """Poll jobs that the list does not have, and put their readings in place; how many."""
    ids = [entry.state.job.id for entry in entries]
    absent = [index for index, reading in enumerate(readings) if reading.is_absent]
    absent.sort(key=lambda index: endpoint.pending_at.get(ids[index], LONG_AGO))
    latest = latest_token(endpoint.bucket, clock.now(), deadline)
    asked = 0
    has_token = False
    for index in absent:
        if asked == MOST_ASKED:
            break
        if not has_token:
            has_token = yield from await_token(endpoint.bucket, clock, latest)
        if not has_token:
            break
        if entries[index].state.ending is not None:
            continue  # it was cancelled meanwhile: the token is for the next one
        readings[index] = yield from _poll_alone(endpoint, entries[index])
        asked += 1
        has_token = False
        endpoint.pending_at.pop(ids[index], None)
        # After a 404, a fault or an end to confirm, the job must be asked about again soon.
        if readings[index].verdict is Verdict.PENDING:
            endpoint.pending_at[ids[index]] = clock.now()
        if readings[index].verdict is Verdict.LIMITED:
            break
    return asked


def _fetch_pages(
    endpoint: "Endpoint", first: Seen, request: Request, clock: Clock, deadline: float
) -> "Steps[Tuple[List[Seen], str]]":
    """All pages of a list, and the problem that kept us from reading the rest."""
    pages = [first]
    size = 0
    visited = {request.url}
    while isinstance(pages[-1], Reply):
        url = endpoint.reader.next_page_url(pages[-1], request.url)
        if url is None:
            break
        if url == UNUSABLE_LINK:
            return pages, "the link to the next page of the list makes no sense: it is not read"
        if url in visited:
            return pages, "the list links to a page that was read already: the rest is not read"
        if parse_url(url).origin != parse_url(request.url).origin:
            return pages, "the next page of the list is at another origin: it is not read"
        if len(pages) == MOST_PAGES:
            return pages, "the list has over %d pages: the rest is not read" % MOST_PAGES
        size += len(pages[-1].body)
        if size > MOST_BYTES:
            problem = "the pages of the list exceed %d MB: the rest is not read"
            return pages, problem % (MOST_BYTES >> 20)
        latest = latest_token(endpoint.bucket, clock.now(), deadline)
        has_token = yield from await_token(endpoint.bucket, clock, latest)
        if not has_token:
            return pages, "the rate limit leaves no request for the next page of the list"
        visited.add(url)
        page = Request(url, request.trusted_origin, method=request.method, body=request.body)
        pages.append((yield from endpoint.exchange(page)))
    return pages, ""


def _finished_or(earlier: Reading, failed: Reading) -> Reading:
    """The reading of a job after a page failed: an earlier page may show that it has finished."""
    has_finished = earlier.verdict in (Verdict.DONE, Verdict.FAILED)
    return earlier if has_finished else failed


def _poll_alone(endpoint: "Endpoint", entry: "Entry") -> "Steps[Reading]":
    """Poll a job that the list does not have."""
    poll = next_action(entry.state, NEVER)
    assert isinstance(poll, Poll)
    request = endpoint.request(poll, entry.state.job, parse_url(poll.url).origin)
    seen = yield from endpoint.exchange(request)
    return endpoint.read(seen, poll, request)


def latest_token(bucket: TokenBucket, now: float, deadline: float) -> float:
    """The instant until which it is worth to wait for a token: with a slow limit, two intervals.

    Otherwise a slow limit would never let a poll get beyond its first request. Only the wait of
    LONGEST_TOKEN_WAIT_S may extend past the deadline.
    """
    return max(now + LONGEST_TOKEN_WAIT_S, min(now + 2 * bucket.interval, deadline))


def await_token(bucket: TokenBucket, clock: Clock, latest: float) -> "Steps[bool]":
    """Wait for a token of the rate limit; False if there is none until `latest`."""
    now = clock.now()
    pauses = -1
    while True:
        if pauses != bucket.pause_count:  # a pause voids reserved tokens
            pauses = bucket.pause_count
            ready_at = bucket.reserve(now, latest)
        if ready_at > latest:
            return False
        if ready_at <= now:
            return True
        yield NOTHING, READ, clock.timer_at(min(ready_at, now + CHECK_PAUSE_S))
        now = clock.now()
