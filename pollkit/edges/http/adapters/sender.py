"""Sends requests through an adapter: in threads, because an adapter may block."""

import time
from typing import Any, Set

from ....core.model import Fault, FaultCode, Reply, one_line
from ....core.urls import parse_url, redact_url, secrets_in_url
from ....errors import ConfigError
from ...background import BlockingCalls, NotFinished, TooManyCalls
from ...multiplexer import Steps
from ..connections.connecting import ConnectError, TlsSettings
from ..connections.connection import DeadlinePassed
from ..connections.proxies import choose_proxy
from ..parser import MAX_BODY, ResponseTooLarge
from ..redirects import Redirects
from ..request import Hop, Request, RequestBuilder
from .interface import Adapter, HttpRequest


class AdapterSender:
    """Sends each request through an adapter, and stops waiting for it at the deadline."""

    def __init__(
        self,
        adapter: Adapter,
        builder: RequestBuilder,
        redirects: Redirects,
        tls: TlsSettings,
        proxy: str,
    ) -> None:
        self._adapter = adapter
        self._builder = builder
        self._redirects = redirects
        self._tls = tls
        self._proxy = proxy
        self._proxy_secrets: Set[str] = set()
        self._calls = BlockingCalls()

    def send(self, hop: Hop, request: Request, deadline: float) -> "Steps[Reply]":
        """Send a request to one URL and wait for the reply."""
        trusted_origin = request.trusted_origin
        is_job_origin = parse_url(hop.url).origin == trusted_origin
        if not is_job_origin:
            yield from self._redirects.check_public(hop.url, trusted_origin, deadline)
        proxy, _ = choose_proxy(parse_url(hop.url), self._proxy)
        self._proxy_secrets |= secrets_in_url(proxy or "")
        url, headers = self._builder.url_and_headers(hop, trusted_origin)
        outgoing = HttpRequest(
            method=hop.method.decode("ascii"),
            url=url,
            headers=headers,
            body=hop.body,
            timeout_s=max(0.001, deadline - time.monotonic()),
            tls=self._tls if is_job_origin else self._tls.without_client_certificate(),
            proxy=self._proxy,
            is_job_origin=is_job_origin,
        )
        try:
            answer = yield from self._calls.wait(
                trusted_origin, lambda: self._adapter.send(outgoing), deadline
            )
        except ConfigError:
            raise
        except NotFinished:
            raise DeadlinePassed() from None
        except TooManyCalls as error:
            problem = "no request to %s: %s" % (outgoing.host, error)
            raise ConnectError(Fault(problem, code=FaultCode.TIMEOUT)) from None
        except Exception as error:
            text = one_line("%s: %s" % (type(error).__name__, redact_url(str(error))))
            problem = "%s failed: %s" % (self._adapter.description, text)
            raise ConnectError(Fault(problem, code=FaultCode.CALL)) from None
        return self._checked(answer)

    def secrets(self) -> Set[str]:
        """The secrets that the adapter and its proxy get, besides those of the profile."""
        return self._adapter.secrets() | self._proxy_secrets

    def close(self) -> None:
        """Close the connections that no request uses."""
        self._adapter.close()

    def _checked(self, answer: Any) -> Reply:
        """The reply of an adapter; its fault as an exception."""
        if isinstance(answer, Fault):
            if answer.code is FaultCode.TIMEOUT:
                raise DeadlinePassed()  # the fault names the whole time, also after a redirect
            raise ConnectError(answer)
        if not isinstance(answer, Reply):
            problem = "%s returned %s, not a Reply or a Fault" % (
                self._adapter.description,
                type(answer).__name__,
            )
            raise ConnectError(Fault(problem, final=True, code=FaultCode.CONFIG))
        if len(answer.body) > MAX_BODY:
            raise ResponseTooLarge("the body exceeds %d MB" % (MAX_BODY >> 20))
        return answer
