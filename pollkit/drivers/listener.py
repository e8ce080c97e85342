"""Listener: receives callbacks, and nudges the jobs that they name.

One thread reads the requests (edges/callbacks/server.py), decides about them (core/callbacks.py)
and limits how often a job is nudged (core/scheduling/nudges.py). It never polls: it calls `nudge`
of a driver, which polls the job as soon as the rate limit allows it.
"""

import socket
import threading
import time
from typing import Callable, Optional, Union

from ..core.callbacks import SIGNATURE_HEADER, Answer, Callback, CallbackRules, judge
from ..core.profiles.profile import Profile
from ..core.scheduling.nudges import Nudges
from ..edges.callbacks.address import Address, address_of, open_socket
from ..edges.callbacks.server import MAX_CONNECTIONS, accept_all, serve
from ..edges.credentials import read_callback_secret
from ..edges.http.user_headers import validate_headers
from ..edges.multiplexer import Multiplexer
from ..edges.shortages import describe_shortage
from ..errors import ConfigError, PollkitError
from .engine.reporter import join
from .publisher import call_safely, logger

CLOSE_S = 0.5  # how long to wait for the thread when it is stopped
_ACCEPTING = "accepting connections"  # the tag of that task


class Listener:
    """Listens at an address from the start; replies to callbacks once `start` was called.

    `secret` is 'env:VAR' or 'file:PATH', or the secret itself as bytes. `profile` names the
    header with the signature, and the place of the id. `warn` is called with a text if other hosts
    can reach the address (default: log it).
    """

    def __init__(
        self,
        address: str,
        secret: Union[str, bytes],
        profile: Profile,
        warn: Optional[Callable[[str], object]] = None,
    ) -> None:
        if not isinstance(address, str):
            raise ConfigError("address must be text such as '127.0.0.1:8099', not %r" % (address,))
        header = profile.callback_header or SIGNATURE_HEADER
        validate_headers({header: ""})
        self._rules = CallbackRules(_to_secret(secret), header, profile.callback_id)
        self._socket = open_socket(Address.parse(address))
        self.address = address_of(self._socket)
        if not self.address.is_loopback:
            (warn or logger().warning)(
                "other hosts can send callbacks to %s, over plain HTTP: a proxy with TLS that "
                "forwards them to 127.0.0.1 is safer" % str(self.address)
            )
        self._nudges = Nudges()
        self._multiplexer: Optional[Multiplexer] = None
        self._thread: Optional[threading.Thread] = None
        self._is_closing = False

    def start(self, nudge: Callable[[str], object]) -> None:
        """Start the thread; it calls `nudge` with the id of a job that may have finished."""
        multiplexer = self._multiplexer = Multiplexer()
        thread = threading.Thread(
            target=self._serve, args=(multiplexer, nudge), daemon=True, name="pollkit-listener"
        )
        self._thread = thread
        try:
            thread.start()
        except RuntimeError as error:
            self._thread = None
            multiplexer.close()
            problem = describe_shortage(error) or "can't start a thread"
            raise PollkitError("can't receive callbacks: " + problem) from None

    def close(self) -> None:
        """Stop listening; requests that are not complete get no reply."""
        self._is_closing = True
        if self._multiplexer is not None:
            self._multiplexer.wake()
        join(self._thread, CLOSE_S)
        self._socket.close()

    def _serve(self, multiplexer: Multiplexer, nudge: Callable[[str], object]) -> None:
        def serve_connection(connection: socket.socket) -> None:
            multiplexer.start(connection, serve(connection, decide, plan_nudge))

        def decide(callback: Callback) -> Answer:
            return judge(callback, self._rules)

        def plan_nudge(job_id: str) -> None:
            self._nudges.add(job_id, time.monotonic())
            multiplexer.wake()  # even if the client does not read the reply

        # One of the tasks is the one that accepts connections.
        accepting = accept_all(
            self._socket, serve_connection, lambda: len(multiplexer) <= MAX_CONNECTIONS
        )
        try:
            multiplexer.start(_ACCEPTING, accepting)
            while not self._is_closing:
                for job_id in self._nudges.take_due(time.monotonic()):
                    call_safely(nudge, job_id, "a callback could not be used")
                delay_s = self._nudges.next_at() - time.monotonic()
                for finished in multiplexer.wait(max(0.0, delay_s)):
                    if finished.error is not None:
                        raise finished.error
        except Exception:  # a bug: polling continues without callbacks
            logger().exception("pollkit can't receive callbacks any more")
        finally:
            multiplexer.close()
            self._socket.close()


def _to_secret(secret: Union[str, bytes]) -> bytes:
    if isinstance(secret, str):
        return read_callback_secret(secret)
    if not isinstance(secret, bytes) or not secret:
        raise ConfigError("secret must be 'env:VAR', 'file:PATH', or the secret as bytes")
    return secret
