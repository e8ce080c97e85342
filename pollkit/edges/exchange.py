"""The state of one exchange: a request, its connection, and where it was redirected to."""
from typing import NamedTuple, Optional, Tuple

from ..core.addresses import Address
from .connect import Route
from .wire import Wire


class Site(NamedTuple):
    """An origin, ready to be asked: requests to it differ only in their target."""

    origin: str
    route: Route
    before: bytes     # what comes between the method and the target
    after: bytes      # and what follows the target: the headers, each with its line end


class Exchange:
    """A request that was sent on `wire`, or is still to be sent."""

    __slots__ = ("url", "home", "deadline", "method", "body", "site", "request", "wire", "trouble",
                 "awaited_until", "only_public", "hops")

    def __init__(self, url: str, home: str, deadline: float, method: bytes, body: bytes) -> None:
        self.url = url
        self.home = home
        self.deadline = deadline
        self.method = method
        self.body = body
        self.site: Site
        self.request: bytes
        self.wire: Optional[Wire] = None
        self.trouble: Optional[Exception] = None  # why it can't be sent
        self.awaited_until = float("-inf")        # since then nobody waits for the reply
        self.only_public = False                  # an internal address must not be asked
        self.hops: Tuple[Address, ...] = ()       # the other origins that the server pointed to
