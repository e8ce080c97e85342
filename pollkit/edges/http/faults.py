"""The faults of an exchange that began but brought no usable response."""

from typing import Dict, Type

from ...core.model import Fault, FaultCode
from ...core.urls import parse_url
from ...errors import ConfigError
from .connections.connecting import ConnectError
from .connections.connection import (
    CERTIFICATE_REQUIRED,
    CLIENT_CERTIFICATE_ADVICE,
    DeadlinePassed,
    NoResponse,
    describe,
)
from .parser import BadResponse, IncompleteResponse, ResponseTooLarge

_CODES: Dict[Type[Exception], FaultCode] = {
    BadResponse: FaultCode.BAD_HTTP,
    IncompleteResponse: FaultCode.BROKEN,
    NoResponse: FaultCode.NO_REPLY,
}
EXCHANGE_ERRORS = (ConnectError, ConfigError, BadResponse, NoResponse, DeadlinePassed, OSError)


def exchange_fault(error: Exception, url: str, timeout_s: float) -> Fault:
    """The fault for one of EXCHANGE_ERRORS, from the request to this URL."""
    if isinstance(error, ConnectError):
        return error.fault
    if isinstance(error, ConfigError):
        return Fault(str(error), final=True, code=FaultCode.CONFIG)
    return response_fault(error, parse_url(url).authority, timeout_s)


def response_fault(error: Exception, host: str, timeout_s: float) -> Fault:
    """The fault for a BadResponse, NoResponse, DeadlinePassed or OSError."""
    if isinstance(error, DeadlinePassed):
        return timeout_fault(host, timeout_s)
    if isinstance(error, OSError):
        return Fault(
            "the connection to %s broke: %s" % (host, describe(error)), code=FaultCode.BROKEN
        )
    if isinstance(error, ResponseTooLarge):
        return Fault(str(error), final=True, code=FaultCode.TOO_LARGE)
    problem = "%s: %s" % (host, error)
    # TLS 1.3 demands a client certificate only after the handshake, in place of a reply.
    if isinstance(error, NoResponse) and error.reason == CERTIFICATE_REQUIRED:
        return Fault(problem, CLIENT_CERTIFICATE_ADVICE, code=FaultCode.CLIENT_CERTIFICATE)
    return Fault(problem, code=_CODES[type(error)])


def timeout_fault(host: str, timeout_s: float) -> Fault:
    """The fault for a reply that was not complete in time."""
    return Fault(
        "no complete reply from %s within %g s" % (host, round(timeout_s, 3)),
        code=FaultCode.TIMEOUT,
    )
