"""Which origins a profile's credentials may be sent to, and which hosts are internal.

House rules: nothing here connects or resolves a name. An origin is scheme, host and port, in the
form of `Address.origin`.
"""

import re
from typing import TYPE_CHECKING, Optional, Tuple

from ...errors import ConfigError
from ..urls import PLACEHOLDER, REPEATED_IDS, Address, is_url, parse_url, redact_url

if TYPE_CHECKING:
    from .profile import Profile

REDIRECT_POLICIES = ("safe", "same-origin", "any")
_ANY_TEXT = "pollkit-placeholder"  # replaces a placeholder; a valid part of a host name
_NAT64 = b"\x00\x64\xff\x9b" + b"\x00" * 8  # 64:ff9b::/96 (RFC 6052); an IPv4 address follows
# Compiled when they are first used: few polls are redirected to an address.
_LEADING_ZERO = r"(?:^|\.)0[0-9][0-9.]*\Z"
_NUMBER = r"[0-9]+|0[xX][0-9a-fA-F]*"


def parse_origin(text: str) -> str:
    """An origin such as https://api.internal:8443, in its shortest form; or a ConfigError.

    >>> parse_origin("HTTPS://API.internal:443/")
    'https://api.internal'
    """
    example = "write it as https://api.internal or https://api.internal:8443"
    if not is_url(text):
        raise ConfigError("%r is not an origin: %s" % (redact_url(text), example))
    address = parse_url(text)
    has_more = address.target != "/" or address.userinfo or "#" in text
    if has_more or set(address.host) & set("*{}"):
        raise ConfigError("%r is not just an origin: %s" % (redact_url(text), example))
    return origin_text(address)


def origin_text(address: Address) -> str:
    """The origin of an address in its usual form: without the scheme's default port."""
    return "%s://%s" % (address.scheme, address.authority)


def credential_origins(profile: "Profile") -> Optional[Tuple[Address, ...]]:
    """The origins that a profile's credentials may be sent to; None if it names none at all.

    These are the origins of its URLs, and those listed in `origins`. If `url` is https, an http
    origin is never among them: one in `origins` is a ConfigError.
    """
    all_urls = (profile.url, profile.batch_url, profile.submit_url, profile.submit_lookup)
    urls = [url for url in all_urls if url]
    if not urls and not profile.origins:
        return None
    url_origins = [_template_origin(url, profile.base) for url in urls]
    origins = [origin for origin in url_origins if origin is not None]
    only_https = bool(origins) and origins[0].scheme == "https"
    for text in profile.origins:
        origin = parse_url(text)
        if only_https and origin.scheme == "http":
            raise ConfigError(
                "origins has %s, but url is https: credentials for an https URL are "
                "never sent over plain http" % origin_text(origin)
            )
        origins.append(origin)
    if only_https:
        origins = [origin for origin in origins if origin.scheme == "https"]
    return tuple(dict.fromkeys(origins))


def check_credential_origin(url: str, origins: Optional[Tuple[Address, ...]]) -> None:
    """Raise a ConfigError if a job's URL is outside the origins that credentials are bound to."""
    if origins is None:
        return
    address = parse_url(url)
    if any(_matches(origin, address) for origin in origins):
        return
    job_origin = origin_text(address)
    if not origins:
        raise ConfigError(
            "the base of the profile's url is not known, so its credential can't be "
            "sent to the job at %s: give --base-url, or add origins = %s to the profile"
            % (redact_url(url), job_origin)
        )
    if address.scheme == "http" and all(origin.scheme == "https" for origin in origins):
        remedy = "the profile's URLs are https, and so must the job's be"
    else:
        remedy = "if you trust {0} with it, add origins = {0} to the profile".format(job_origin)
    allowed = ", ".join(origin_text(origin).replace(_ANY_TEXT, "*") for origin in origins)
    raise ConfigError(
        "the job at %s is outside %s, where the profile's credential belongs: %s"
        % (redact_url(url), allowed, remedy)
    )


def is_internal(host: str) -> bool:
    """Whether a host is on this machine or in a private network, according to its text alone.

    True for addresses that are not globally reachable (loopback, link-local, private, shared,
    unspecified), for localhost, and for numeric forms of an address that resolvers accept, such as
    127.1 or 0x7f000001. False for any other name, which only a resolver could decide.
    """
    host = host.partition("%")[0].rstrip(".").lower()  # fe80::1%eth0
    last = host.rpartition(".")[2]
    if last == "localhost":
        return True
    from ipaddress import IPv4Address, IPv6Address, ip_address  # late: few polls need it

    if re.search(_LEADING_ZERO, host):
        return True  # octal for resolvers, decimal for some versions of ipaddress
    try:
        address = ip_address(host)
    except ValueError:
        return re.fullmatch(_NUMBER, last) is not None
    if isinstance(address, IPv6Address):  # it may contain an IPv4 address
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address.packed.startswith(_NAT64):
            inner = IPv4Address(address.packed[-4:])
        if inner is not None:
            address = inner
        elif address.is_site_local:
            return True
    return address.is_multicast or not address.is_global


def _template_origin(template: str, base: Optional[str]) -> Optional[Address]:
    """The origin of a URL template; None if it is unknown."""
    if base is not None:
        template = template.replace("{base}", base)
    try:
        template = re.sub(REPEATED_IDS, _ANY_TEXT, template)
        address = parse_url(re.sub(PLACEHOLDER, _ANY_TEXT, template))
    except ConfigError:  # the base is unknown, or the template is not a URL
        return None
    return address._replace(target="/", userinfo="")


def _matches(origin: Address, address: Address) -> bool:
    """Whether an address is at an origin, whose host may have a placeholder in it."""
    if _ANY_TEXT not in origin.host:
        return origin.origin == address.origin
    parts = [re.escape(part) for part in origin.origin.split(_ANY_TEXT)]
    return re.fullmatch(".+".join(parts), address.origin) is not None
