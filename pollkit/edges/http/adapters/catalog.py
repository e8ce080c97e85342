"""The adapters that a profile or the command line can name."""

from typing import Optional

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
