"""Adapters: pollkit's requests go through the HTTP client that you already have.

    session = requests.Session()
    session.auth = my_auth
    poller = pollkit.Poller(transport=pollkit.adapters.RequestsTransport(session))

See `pollkit help transports`.
"""

from .edges.http.adapters.curl_transport import CurlTransport
from .edges.http.adapters.interface import Adapter, HttpRequest
from .edges.http.adapters.requests_transport import RequestsTransport
from .edges.http.adapters.urllib_transport import UrllibTransport

__all__ = ["Adapter", "CurlTransport", "HttpRequest", "RequestsTransport", "UrllibTransport"]
