"""The adapters that a profile or the command line can name."""

from typing import Any, Optional

from ....core.profiles.profile import TRANSPORTS
from ....errors import ConfigError
from .interface import Adapter


def named_adapter(name: str) -> Optional[Adapter]:
    """The adapter for `transport = NAME` in a profile; None for the built-in transport."""
    if name == "urllib":
        from .urllib_transport import UrllibTransport

        return UrllibTransport()
    if name == "requests":
        from .requests_transport import RequestsTransport

        return RequestsTransport()
    if name == "curl":
        from .curl_transport import CurlTransport

        return CurlTransport()
    return None


def check_adapter(transport: Any) -> Adapter:
    """An adapter; a ConfigError if it is none."""
    if isinstance(transport, Adapter):
        return transport
    remedy = "wrap your client in an adapter of pollkit.adapters"
    if hasattr(transport, "mount"):
        remedy = "for a session, give pollkit.adapters.RequestsTransport(session)"
    elif hasattr(transport, "add_handler"):
        remedy = "for an opener, give pollkit.adapters.UrllibTransport(opener)"
    raise ConfigError(
        "transport must be %s or an adapter, not %s: %s"
        % (", ".join(TRANSPORTS), type(transport).__name__, remedy)
    )
