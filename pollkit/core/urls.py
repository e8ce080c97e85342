"""URLs as text: origins, templates, and what of a URL may be shown.

House rules: nothing here opens anything. An origin is scheme, host and port (RFC 6454); it is
what credentials are bound to.
"""

import re
from typing import Iterable, NamedTuple, Optional, Set

from ..errors import ConfigError

_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:(.*)@)?(\[[0-9a-fA-F:.%]+\]|[^\s:@\[\]\\]+)(?::(\d{0,5}))?")
_PARAMETER = re.compile(r"([?&;#])([^=?&;#]*)=([^?&;#]*)")
_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|pwd|credential|cookie|signature|authoriz|authentication|bearer|jwt"
    r"|api-?key|sess(?:ion)?-?id|(?:^|[-_.])(?:key|sig|auth|session|code)(?:$|[-_.])",
    re.IGNORECASE,
)
LONGEST_LINK = 8000  # characters that a server may send as a link: RFC 9110, 4.1, asks for so many
SHORTEST_SECRET = 4  # to look for anything shorter would make *** of half a sentence
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_UNSAFE = re.compile(r"[^!-~]+")
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """A URL taken apart: where to connect, what to ask for, and who to say we are."""

    scheme: str
    host: str
    port: int
    target: str
    userinfo: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port; equal text means the same origin."""
        return "%s://%s:%d" % (self.scheme, self.host, self.port)

    @property
    def authority(self) -> str:
        """The Host header: the port only where it isn't the scheme's own (RFC 9110, 7.2)."""
        host = "[%s]" % self.host if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else "%s:%d" % (host, self.port)


def is_url(text: str) -> bool:
    """Whether text is meant as a URL (of any scheme) rather than as an id."""
    return _SCHEME.match(text) is not None


def parse_url(url: str) -> Address:
    """A URL taken apart, or a ConfigError that says what is wrong with it."""
    match = _URL.match(url.strip())
    if not match:
        raise ConfigError(
            "%r is not a URL pollkit can poll: only http:// and https:// are" % redact_url(url)
        )
    scheme, target = match.group(1).lower(), match.group(3)
    authority = _AUTHORITY.fullmatch(match.group(2))
    port = int(authority.group(3) or _PORTS[scheme]) if authority else 0
    if not authority or not 0 < port < 65536:
        raise ConfigError("%r names no usable host and port" % redact_url(url))
    host = authority.group(2).strip("[]").lower()
    try:
        host = (
            host
            if host.isprintable() and not _UNSAFE.search(host)
            else host.encode("idna").decode("ascii")
        )
    except UnicodeError:
        raise ConfigError("%r names no usable host" % redact_url(url)) from None
    if not target.startswith("/"):
        target = "/" + target
    # Whatever isn't visible ASCII is encoded, so that no id or link can smuggle in a header.
    target = _UNSAFE.sub(lambda found: percent_encode(found.group()), target)
    return Address(scheme, host, port, target, authority.group(1) or "")


def fill_template(template: str, **values: str) -> str:
    """A URL template with its {placeholders} filled in, each value percent-encoded whole.

    >>> fill_template("https://api.internal/jobs/{id}", id="a/b c")
    'https://api.internal/jobs/a%2Fb%20c'
    """

    def value(match: "re.Match[str]") -> str:
        name = match.group(1)
        if name not in values:
            raise ConfigError(
                "URL template %r: nothing is known for {%s}%s"
                % (
                    redact_url(template),
                    name,
                    ": the job needs a label (--label)" if name == "label" else "",
                )
            )
        # RFC 3986, 3.3: '.' and '..' are steps in a path, also when percent-encoded.
        if values[name] in (".", "..", ""):
            raise ConfigError("%r can't stand in a URL as {%s}" % (values[name], name))
        return percent_encode(values[name])

    return _PLACEHOLDER.sub(value, template)


def fill_ids(template: str, ids: Iterable[str]) -> str:
    """A URL template with {ids} filled in: each percent-encoded, a comma between them."""
    listed = ",".join(map(percent_encode, ids))
    for name in _PLACEHOLDER.findall(template):
        if name != "ids":
            raise ConfigError(
                "URL template %r: nothing is known for {%s}" % (redact_url(template), name)
            )
    return template.replace("{ids}", listed)


def join_url(base: str, link: str) -> Optional[str]:
    """A Location (RFC 9110, 10.2.2), which may be relative, as a whole URL; None if it is unusable."""
    if len(link) > LONGEST_LINK:
        return None
    from urllib.parse import quote, urljoin

    try:
        # Headers were read as Latin-1; most links beyond ASCII are UTF-8, and keep their bytes.
        link = quote(link, safe=_PUNCTUATION, encoding="latin-1")
    except UnicodeError:
        pass
    try:
        whole = urljoin(base, link)
        here, there = parse_url(base), parse_url(whole)
    except ValueError:  # also a ConfigError
        return None
    if here.userinfo and not there.userinfo and here.origin == there.origin:
        whole = whole.replace("://", "://%s@" % here.userinfo, 1)
    return whole


def redact_url(url: str) -> str:
    """A URL as it may be shown: no password, and no query value that looks like a secret.

    >>> redact_url("https://me:pw@api.internal/jobs?id=1&api_key=abc")
    'https://***@api.internal/jobs?id=1&api_key=***'
    """
    scheme, mark, rest = url.partition("://")
    if mark:
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        if "@" in authority:
            rest = (
                "***" + rest[rest.rindex("@") :]
            )  # the last: a password may have an @ and a / that nobody encoded
        elif "@" in rest and ":" in authority and not _AUTHORITY.fullmatch(authority):
            rest = (
                "***" + rest[rest.rindex("@") :]
            )  # a password with a / ? or # that nobody encoded
    return _PARAMETER.sub(_parameter, scheme + mark + rest)


def is_secret(name: str) -> bool:
    """Whether a parameter or header of that name is likely to carry a secret."""
    return _SECRET_NAME.search(name) is not None


def secrets_in_url(url: str) -> Set[str]:
    """The secrets in a URL, as it has them and decoded: what `redacted` hides."""
    found = {value for _, name, value in _PARAMETER.findall(url) if is_secret(name)}
    userinfo = url.partition("://")[2].rpartition("@")[0]
    if userinfo:
        found.update([userinfo, userinfo.partition(":")[2]])
    if not found:
        return found
    from urllib.parse import unquote

    return {
        secret
        for value in found
        for secret in (value, unquote(value))
        if len(secret) >= SHORTEST_SECRET
    }


def secrets_in_header(header: str) -> Set[str]:
    """The secrets in a header's value: all of it, without the scheme, and what Basic encodes."""
    scheme, _, rest = header.partition(" ")
    found = {header, rest}
    if scheme.lower() == "basic":
        from base64 import b64decode

        try:
            plain = b64decode(rest).decode("utf-8", "replace")
        except ValueError:
            plain = ""
        found.update([plain, plain.partition(":")[2]])
    return {secret for secret in found if len(secret) >= SHORTEST_SECRET}


def percent_encode(text: str, safe: str = "") -> str:
    """Percent-encoded, all but what is safe anywhere, or here."""
    from urllib.parse import (
        quote,
    )  # late, as everything of urllib here: most waits have no use for it

    return quote(text, safe=safe)


def _parameter(match: "re.Match[str]") -> str:
    mark, name, value = match.groups()
    return "%s%s=%s" % (mark, name, "***" if value and is_secret(name) else value)
