"""Faults from the errors of urllib and requests: both use http.client, socket and ssl below.

Their own exceptions wrap the cause, in ways that differ between versions. So the fault is decided
by the exception of the standard library that is somewhere inside.
"""

import errno
import http.client
import re
import socket
import ssl
from typing import Iterator, List, Optional, Type

from ....core.model import Fault, FaultCode, one_line
from ..connections.connecting import connect_fault, name_fault
from ..connections.connection import NoResponse, describe
from ..connections.proxies import Route, proxy_refusal
from ..connections.tls import handshake_fault
from ..faults import response_fault, timeout_fault
from ..parser import BadResponse, IncompleteResponse

_MAX_CAUSES = 50
_TUNNEL_STATUS = re.compile(r"Tunnel connection failed: ([0-9]{3})")  # http.client has no class
_NOT_REACHED = (
    errno.ECONNREFUSED,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.EADDRNOTAVAIL,
    errno.ETIMEDOUT,
)


def fault_from_error(error: BaseException, route: Route, timeout_s: float) -> Fault:
    """The fault for an exception of urllib or requests."""
    causes = _causes(error)
    host = route.address.authority
    for cause in causes:
        status = _TUNNEL_STATUS.search(str(cause))
        if status:
            return proxy_refusal(route, int(status.group(1)))
    if _find(causes, socket.timeout) is not None:
        return timeout_fault(host, timeout_s)
    for cause in causes:
        if isinstance(cause, (ssl.SSLError, ssl.CertificateError)):
            return handshake_fault(host, cause)
        if type(cause).__name__ == "CertificateError":  # urllib3 has its own on Python 3.6
            return handshake_fault(host, ssl.CertificateError(str(cause)))
    if _find(causes, socket.gaierror) is not None:
        return name_fault(route.first_hop_name)
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno in _NOT_REACHED:
            return connect_fault(route.first_hop_name, cause.errno)
    return _response_fault(causes, host, timeout_s)


def _response_fault(causes: List[BaseException], host: str, timeout_s: float) -> Fault:
    """The fault if the server was reached."""
    if _find(causes, http.client.RemoteDisconnected) is not None:
        no_reply = NoResponse("the connection was closed without a reply")
        return response_fault(no_reply, host, timeout_s)
    if _find(causes, http.client.IncompleteRead) is not None:
        incomplete = IncompleteResponse("the server closed the connection within the body")
        return response_fault(incomplete, host, timeout_s)
    broken = _find(causes, ConnectionError)
    if isinstance(broken, OSError):
        lost = NoResponse("the connection broke without a reply: %s" % describe(broken))
        return response_fault(lost, host, timeout_s)
    bad = _find(causes, http.client.HTTPException)
    if bad is not None:
        text = one_line("%s: %s" % (type(bad).__name__, bad), 80)
        return response_fault(BadResponse(text), host, timeout_s)
    text = one_line("%s: %s" % (type(causes[0]).__name__, causes[0]))
    return Fault("no reply from %s: %s" % (host, text), code=FaultCode.OTHER)


def _find(causes: List[BaseException], kind: Type[BaseException]) -> Optional[BaseException]:
    return next((cause for cause in causes if isinstance(cause, kind)), None)


def _causes(error: BaseException) -> List[BaseException]:
    """The exception and those inside it, the outermost first."""
    found = [error]
    for each in found:  # grows meanwhile
        for inner in _inner_exceptions(each):
            if len(found) < _MAX_CAUSES and all(inner is not known for known in found):
                found.append(inner)
    return found


def _inner_exceptions(error: BaseException) -> Iterator[BaseException]:
    candidates = [getattr(error, "reason", None), *error.args, error.__cause__, error.__context__]
    for candidate in candidates:
        if isinstance(candidate, BaseException):
            yield candidate
