"""Read a reply from its HTTP status alone: every status outside 2xx (RFC 9110, 15).

301 302 307 308  a fault, because the transport has followed those that it can; but one with a
                 Retry-After is pending: it is to be followed only after that delay (10.2.3)
303              the job is now at the URL in Location (15.4.4)
304              pending: unchanged since the last poll (15.4.5)
401 403          unauthorised; a 403 with the headers of a rate limit is one
404              not found, perhaps not yet
429              the rate limit
408 425 5xx      a fault, and so is any other 3xx
other 4xx        refused
"""

from typing import Optional, Tuple

from ..model import FaultCode, Reply, one_line
from ..urls import join_url, redact_url
from .fields import conventions
from .json_decoding import decode_json
from .middleboxes import describe_page, is_page
from .rate_limit_headers import LONGEST_VALUE, has_limit_headers, parse_retry_after
from .verdict import Reading, Verdict

REDIRECTS = (301, 302, 307, 308)  # without 303, which is part of an API's protocol
_RETRIED_CLIENT_ERRORS = (408, 425)  # RFC 9110, 15.5.9; RFC 8470, 5.2: the request may be repeated
_LINK_HEADERS = ("operation-location", "azure-asyncoperation", "location")


def is_success(reply: Reply) -> bool:
    """Whether the HTTP status is 2xx."""
    return 200 <= reply.status < 300


def read_http_status(reply: Reply, accepted: bool) -> Reading:
    """Read a reply outside 2xx; `accepted` as in `Reader.read`."""
    status = reply.status
    if status == 304:
        return Reading(Verdict.PENDING, "304: unchanged", accepted=accepted)
    if status in REDIRECTS and _has_delayed_location(reply):
        because = "%d: to be followed after the Retry-After" % status
        location = join_url(reply.url, reply.headers["location"], "latin-1")
        return Reading(Verdict.PENDING, because, location=location, accepted=accepted)
    if status == 303:
        location = linked_url(reply)
        if location is not None:
            because = "303: see %s" % redact_url(location)
            return Reading(Verdict.SEE_OTHER, because, location=location)
    if status == 429:
        return Reading(Verdict.LIMITED, "429: too many requests")
    if status == 403 and has_limit_headers(reply.headers, reply.received_at):
        return Reading(Verdict.LIMITED, "403 with the headers of a rate limit")
    return _read_error(reply)


def _read_error(reply: Reply) -> Reading:
    status = reply.status
    message = _error_message(reply)
    if status in (401, 403):
        return Reading(Verdict.UNAUTHORISED, "%d: not authorised%s" % (status, message))
    if status == 404:
        return Reading(Verdict.NOT_FOUND, "404: not found%s" % message)
    if 400 <= status < 500 and status not in _RETRIED_CLIENT_ERRORS:
        return Reading(Verdict.REFUSED, "the server refused: %d%s" % (status, message))
    because = "the server answered %d%s" % (status, message)
    return Reading(Verdict.FAULT, because, code=FaultCode.HTTP_ERROR, http_status=status)


def linked_url(reply: Reply) -> Optional[str]:
    """The absolute http or https URL that a reply links to."""
    for name in _LINK_HEADERS:
        link = reply.headers.get(name)
        if link:
            return join_url(reply.url, link, "latin-1")
    return None


def next_request(reply: Optional[Reply]) -> Tuple[Optional[str], Optional[str]]:
    """The link and the ETag for the next request."""
    if reply is None:
        return None, None
    location = linked_url(reply) if reply.status in (201, 202) else None
    etag = reply.headers.get("etag")
    if etag is not None and len(etag) > LONGEST_VALUE:  # servers may refuse a long header
        etag = None
    return location, etag


def _has_delayed_location(reply: Reply) -> bool:
    has_location = "location" in reply.headers
    return has_location and bool(parse_retry_after(reply.headers, reply.received_at)[0])


def _error_message(reply: Reply) -> str:
    """The server's error message or the title of its page, after a comma; '' if it has none."""
    try:
        data = decode_json(reply.body)
    except ValueError:
        return ", " + describe_page(reply) if is_page(reply) else ""
    for path in conventions.ERROR_MESSAGE_PATHS:
        message = path.find(data)
        if isinstance(message, str) and message.strip():
            return ", %r" % one_line(message, 120)
    return ""
