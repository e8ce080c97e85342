"""Fetch the result of a done job (`result_url`): into memory, or into a file (`--save`).

A result may have pages (`result_next`), which become one list. Every request needs a token of the
rate limit: the first one has got its own, the pages wait for theirs here.
"""

from typing import TYPE_CHECKING, Any, Callable, List, Optional, Set

from ...core.model import Fault, FaultCode, Job, Reply
from ...core.reading.list_reader import UNUSABLE_LINK
from ...core.reading.reader import Seen
from ...core.reading.verdict import Reading, Verdict
from ...core.units import to_seconds
from ...core.urls import parse_url
from ...edges.background import BlockingCalls, TooManyCalls
from ...edges.clock import Clock
from ...edges.http.parser import MAX_BODY
from ...edges.http.request import Request
from ...edges.results.download import Download
from ...edges.results.result_file import PartMismatch, ResultFile, ResultFileError
from ...edges.results.save_path import JsonList, SavePath
from .job_lists import await_token, latest_token

if TYPE_CHECKING:
    from ...edges.multiplexer import Steps
    from .endpoint import Endpoint

MOST_PAGES = 10000
LONGEST_PAGE_WAIT_S = 60.0  # for a token of a slow limit
_calls = BlockingCalls()  # that write to the disk


def fetch_result(
    endpoint: "Endpoint", request: Request, job: Job, clock: Clock
) -> "Steps[Reading]":
    """Fetch a result; the reading has it, or the file that has it, or says why there is none."""
    save = endpoint.save
    if save is None:
        return (yield from _fetch_into_memory(endpoint, request, clock))
    try:
        with save.file_for(job.id) as file:
            if endpoint.results.has_pages:
                return (yield from _save_pages(endpoint, request, file, clock))
            return (yield from _download(endpoint, request, file, save))
    except ResultFileError as error:
        text = str(error)
        fault = Fault(text, code=FaultCode.DISK)
        return endpoint.results.check(fault)._replace(warnings=(text,))


def _download(
    endpoint: "Endpoint", request: Request, file: ResultFile, save: SavePath
) -> "Steps[Reading]":
    """Stream a result to its file."""
    seen = yield from _stream(endpoint, request, file)
    if isinstance(seen, Reply) and seen.status == 416:
        if file.is_complete_at(seen.headers):  # an earlier attempt had all of it
            return (yield from _finish(endpoint.results.check(Reply(200)), file.finish))
        file.begin()  # the part is of no use
        seen = Fault("the server has no such part of the result", code=FaultCode.CUT)
    reading = endpoint.results.check(seen, save.can_be_html)
    is_result = reading.verdict is Verdict.DONE
    was_streamed = request.download is not None and request.download.has_begun
    if isinstance(seen, Reply) and was_streamed != is_result:
        file.begin()  # to remove a login page, or to write the body that a client has in memory
    if not is_result or not isinstance(seen, Reply):
        return reading
    if not was_streamed:
        file.write(seen.body)
    return (yield from _finish(reading, file.finish))


def _stream(endpoint: "Endpoint", request: Request, file: ResultFile) -> "Steps[Seen]":
    """Send the request; the body of a good reply goes to the file if the transport can do that."""
    if not endpoint.transport.can_stream:
        return (yield from endpoint.exchange(request))
    request.headers = file.request_headers
    download = request.download = Download(file, to_seconds(endpoint.profile.request_timeout))
    try:
        seen = yield from endpoint.exchange(request)
    except PartMismatch:
        return Fault("the server sent another part than the missing one", code=FaultCode.CUT)
    finally:
        download.keep_rest()
    if isinstance(seen, Fault) and download.has_begun:
        return seen._replace(code=FaultCode.CUT)
    return seen


def _save_pages(
    endpoint: "Endpoint", request: Request, file: ResultFile, clock: Clock
) -> "Steps[Reading]":
    """Write the values of all pages to a file, page by page."""
    values = JsonList(file)
    reading = yield from _read_pages(endpoint, request, clock, values.extend)
    if reading.verdict is not Verdict.DONE:
        return reading
    return (yield from _finish(reading, values.finish))


def _finish(reading: Reading, finish: Callable[[], str]) -> "Steps[Reading]":
    """Complete a file, in a thread: to write it to disk may take long."""
    try:
        path = yield from _calls.wait("", finish, float("inf"))
    except TooManyCalls:
        path = finish()
    return reading._replace(saved_to=path, result=None)


def _fetch_into_memory(endpoint: "Endpoint", request: Request, clock: Clock) -> "Steps[Reading]":
    if not endpoint.results.has_pages:
        seen = yield from endpoint.exchange(request)
        return endpoint.results.read(seen)
    values: List[Any] = []
    reading = yield from _read_pages(endpoint, request, clock, values.extend, MAX_BODY)
    if reading.verdict is not Verdict.DONE:
        return reading
    return reading._replace(result=values)


def _read_pages(
    endpoint: "Endpoint",
    request: Request,
    clock: Clock,
    add: Callable[[List[Any]], None],
    longest: float = float("inf"),
) -> "Steps[Reading]":
    """Read all pages, and add the values of each; `longest` bounds the bytes of all pages."""
    visited: Set[str] = set()
    warnings: Optional[Set[str]] = None  # that each page has given: a last one may be empty
    size = 0
    url = request.url
    while True:
        visited.add(url)
        page = Request(
            url, request.trusted_origin, method=b"GET", body=b"", link_from=request.link_from
        )
        page.may_block = request.may_block
        seen = yield from endpoint.exchange(page)
        reading = endpoint.results.read(seen)
        if reading.verdict is not Verdict.DONE or not isinstance(seen, Reply):
            return reading
        size += len(seen.body)
        given = set(reading.warnings)
        warnings = given if warnings is None else warnings & given
        add(reading.result if isinstance(reading.result, list) else [reading.result])
        next_url = endpoint.results.next_page_url(seen, request.url)
        if next_url is None:
            return reading._replace(warnings=tuple(sorted(warnings)))
        problem = _page_problem(url, next_url, visited)
        if size > longest:
            problem = "its pages exceed %d MB: --save has no limit" % (MAX_BODY >> 20)
        if problem:
            return endpoint.results.check(Fault(problem, final=True, code=FaultCode.TOO_LARGE))
        now = clock.now()
        latest = latest_token(endpoint.bucket, now, now + LONGEST_PAGE_WAIT_S)
        has_token = yield from await_token(endpoint.bucket, clock, latest)
        if not has_token:
            problem = "the rate limit leaves no request for its next page"
            return endpoint.results.check(Fault(problem, code=FaultCode.OTHER))
        url = next_url


def _page_problem(url: str, next_url: str, visited: Set[str]) -> str:
    """Why the next page must not be read; '' if it may."""
    if next_url == UNUSABLE_LINK:
        return "the link to its next page makes no sense"
    if next_url in visited:
        return "a page of it links to a page that was read already"
    if parse_url(next_url).origin != parse_url(url).origin:
        return "its next page is at another origin"
    if len(visited) >= MOST_PAGES:
        return "it has over %d pages" % MOST_PAGES
    return ""
