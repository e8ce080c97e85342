"""Recognise replies that are not the API's: pages for people, and the errors of proxies.

Between a host and an API there may be proxies, login portals and load balancers, which answer in
place of the server: with a login page and the status 200, or with an error page of their own.
"""

import re
from typing import Optional

from ..model import FaultCode, Reply, one_line
from .verdict import GATEWAY_ERRORS, Reading, Verdict

_BEGINNING = 20000  # bytes of a page that are searched
_LONGEST_TITLE = 80
# These patterns are compiled when they are first used: such replies are rare.
_TITLE = r"(?i)<title[^<>]{0,200}>([^<]{1,500})"
_LOGIN = r"(?i)sign.?(?:in|on)\b|log.?[io]n\b|authenticat|captive|access denied"
_PASSWORD = r"(?i)<input[^<>]{0,500}type=[\"']?password"
# Proxies name themselves in Server only if the reply is their own, not one that they forward.
_PROXY_SERVER = r"(?i)(?:squid|tinyproxy|privoxy|zscaler)\b"
_PROXY_STATUS_ERROR = r";\s*error=([\w-]{1,60})"  # RFC 9209, 2.1.1


def is_page(reply: Reply) -> bool:
    """Whether the body is HTML."""
    if "html" in reply.headers.get("content-type", "").lower():
        return True
    start = reply.body[:200].lstrip()
    return start.startswith(b"<") and start[:9].lower().startswith((b"<html", b"<!doctype"))


def is_login_page(reply: Reply) -> bool:
    """Whether the body is HTML that asks for a login, and so no result of a job."""
    if not is_page(reply):
        return False
    text = _beginning(reply)
    title = re.search(_TITLE, text)
    return bool(re.search(_PASSWORD, text) or (title and re.search(_LOGIN, title.group(1))))


def describe_page(reply: Reply) -> str:
    """What kind of page a reply is, with its title."""
    text = "an HTML page instead of JSON"
    title = re.search(_TITLE, _beginning(reply))
    if title is not None:
        from html import unescape  # late: pages are rare

        text += ", titled '%s'" % one_line(unescape(title.group(1)), _LONGEST_TITLE)
    return text + ": a proxy or login page?"


def read_proxy_error(reply: Reply) -> Optional[Reading]:
    """Read the error of a proxy that names itself; None for any other reply."""
    if reply.status < 400:
        return None
    headers = reply.headers
    status_error = re.search(_PROXY_STATUS_ERROR, headers.get("proxy-status", ""))
    server = re.match(_PROXY_SERVER, headers.get("server", ""))
    if status_error is not None:
        reason = status_error.group(1)
    elif "x-squid-error" in headers:
        reason = one_line(headers["x-squid-error"], 60)
    elif server is not None:
        reason = server.group()
    else:
        return None
    because = "a proxy answered %d in place of the server (%s)" % (reply.status, reason)
    # A proxy that can't reach the server is a sign of an outage, like the server's own 503.
    is_gateway_error = reply.status in GATEWAY_ERRORS
    return Reading(
        Verdict.FAULT,
        because,
        code=FaultCode.HTTP_ERROR if is_gateway_error else FaultCode.PROXY,
        http_status=reply.status if is_gateway_error else None,
    )


def _beginning(reply: Reply) -> str:
    return reply.body[:_BEGINNING].decode("utf-8", "replace")
