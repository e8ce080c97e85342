"""Proxies: whether a request goes through one, and how a proxy is asked for a tunnel.

urllib.request is imported only when a proxy variable is set: importing it costs more than
importing all of pollkit.
"""

import os
import re
import sys
from typing import Dict, NamedTuple, Optional, Tuple

from ....core.model import Fault, FaultCode
from ....core.urls import Address, parse_url, redact_url
from ....errors import ConfigError

_SCHEMES = ("Negotiate", "NTLM", "Kerberos", "Digest")  # logins that pollkit has not


class Route(NamedTuple):
    """How an origin is reached: directly, or through a proxy."""

    address: Address
    proxy: Optional[Address] = None

    @property
    def is_forwarded(self) -> bool:
        """Whether the proxy reads the request: plain http, with the whole URL in it."""
        return self.proxy is not None and self.address.scheme == "http"

    @property
    def needs_tunnel(self) -> bool:
        """Whether the proxy must open a tunnel first."""
        return self.proxy is not None and self.address.scheme == "https"

    @property
    def first_hop(self) -> Address:
        """The host that the socket connects to."""
        return self.proxy or self.address

    @property
    def first_hop_name(self) -> str:
        """That host in messages."""
        authority = self.first_hop.authority
        return "the proxy at %s" % authority if self.proxy else authority


def route_to(address: Address, proxy: str) -> Route:
    """The route to an origin, for a profile's `proxy` setting: env, none or a URL."""
    url, _ = choose_proxy(address, proxy)
    if not url:
        return Route(address)
    if "://" not in url:
        url = "http://" + url
    if not url.lower().startswith("http://"):
        raise ConfigError(
            "the proxy %s can't be used: only http:// proxies are supported" % redact_url(url)
        )
    try:
        return Route(address, parse_url(url))
    except ConfigError as error:
        raise ConfigError("the proxy can't be used: %s" % error) from None


def shown_route(address: Address, proxy: Optional[str]) -> Route:
    """A route for messages; without the proxy if it is of a kind that pollkit itself can't use."""
    try:
        return route_to(address, proxy or "none")
    except ConfigError:
        return Route(address)


def choose_proxy(address: Address, proxy: str) -> Tuple[Optional[str], str]:
    """The proxy's URL (None: no proxy), and the reason for the choice."""
    if proxy == "none":
        return None, "as --proxy or the profile says"
    if proxy != "env":
        return proxy, "as --proxy or the profile says"
    not_set = "neither %s_proxy nor all_proxy is set" % address.scheme
    has_system_settings = sys.platform in ("win32", "darwin")
    has_variables = any(name.lower().endswith("_proxy") for name in os.environ)
    if not has_system_settings and not has_variables:
        return None, not_set
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    scheme = address.scheme if proxies.get(address.scheme) else "all"
    if not proxies.get(scheme):
        return None, not_set
    # no_proxy may list ::1 as [::1].
    is_listed = proxy_bypass(address.host_and_port) or proxy_bypass(address.host)
    if is_listed or _is_in_network(address, proxies.get("no", "")):
        return None, "no_proxy has %s" % address.host
    return proxies[scheme], "from " + _variable_with(scheme + "_proxy", proxies[scheme])


def _is_in_network(address: Address, no_proxy: str) -> bool:
    """Whether no_proxy has a network with this address: 10.0.0.0/8, [fd00::]/8 or 10.0.0.0/8:80."""
    if "/" not in no_proxy:
        return False
    from ipaddress import ip_address, ip_network

    try:
        host = ip_address(address.host)
    except ValueError:
        return False
    for entry in no_proxy.replace(",", " ").split():
        network, slash, rest = entry.partition("/")
        length, _, port = rest.partition(":")
        if not slash or (port and port != str(address.port)):
            continue
        try:
            if host in ip_network("%s/%s" % (network.strip("[]"), length), strict=False):
                return True
        except (ValueError, TypeError):  # no network; TypeError: Python 3.6, IPv4 beside IPv6
            continue
    return False


def _variable_with(name: str, value: str) -> str:
    """The environment variable that holds a value, in either case; lower case wins."""
    found = [each for each in os.environ if each.lower() == name and os.environ[each] == value]
    return max(found) if found else "the system's settings"


def proxy_headers(route: Route) -> Dict[str, str]:
    """The headers for the proxy itself: its user name and password, if it has one."""
    if route.proxy is None or not route.proxy.userinfo:
        return {}
    return {"Proxy-Authorization": basic(route.proxy.userinfo)}


def basic(userinfo: str) -> str:
    """Basic authentication from a URL's 'user:password' (RFC 7617)."""
    from base64 import b64encode
    from urllib.parse import unquote

    return "Basic " + b64encode(unquote(userinfo).encode("utf-8")).decode("ascii")


def connect_request(route: Route) -> bytes:
    """The request that asks the proxy for a tunnel (RFC 9110, 9.3.6)."""
    target = route.address.host_and_port
    lines = ["CONNECT %s HTTP/1.1" % target, "Host: %s" % target]
    lines += ["%s: %s" % header for header in proxy_headers(route).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def proxy_refusal(route: Route, status: int, offers: str = "") -> Fault:
    """The fault for a proxy that refuses; `offers` is its Proxy-Authenticate header."""
    proxy = route.proxy
    name = "the proxy at %s" % proxy.authority if proxy else "the proxy"
    has_password = proxy is not None and proxy.userinfo != ""
    # tinyproxy answers 401 to a wrong password.
    needs_password = status == 407 or (status == 401 and has_password)
    if not needs_password:
        return Fault(
            "%s refused a tunnel to %s: %d" % (name, route.address.authority, status),
            "does no_proxy lack this host?",
            code=FaultCode.PROXY,
        )
    if offers and not re.search(r"(?:^|[\s,])basic\b", offers, re.IGNORECASE):
        known = [scheme for scheme in _SCHEMES if scheme.lower() in offers.lower()]
        advice = "it offers only %s, which --transport curl may answer" % (
            " and ".join(known) or "logins that pollkit does not know"
        )
    elif has_password:
        advice = "it does not accept the user name and password that it got"
    elif proxy is None:
        advice = "give its user name and password to the session or opener that you use"
    else:
        example = "%s_proxy=http://user:password@%s" % (route.address.scheme, proxy.authority)
        advice = "set its user name and password: " + example
    return Fault("%s refused: %d" % (name, status), advice, final=True, code=FaultCode.PROXY)
