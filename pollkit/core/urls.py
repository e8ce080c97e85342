"""URLs as text: parse them, fill in templates, join links, and find and hide their secrets.

House rules: nothing here opens a connection. urllib.parse is imported late: most waits don't need
it. An origin is scheme, host and port (RFC 6454); credentials are bound to it.
"""

import re
from functools import lru_cache
from typing import Iterable, NamedTuple, Optional, Set, Union

from ..errors import ConfigError

# ASCII: otherwise an s in any case includes the long s, U+017F.
_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE | re.ASCII)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE | re.ASCII)
_AUTHORITY = re.compile(r"(?:(.*)@)?(\[[0-9a-fA-F:.%]+\]|[^\s:@\[\]\\]+)(?::(\d{0,5}))?")
# The next ones are compiled when they are first used: most URLs of jobs have no parameters, login
# or placeholders, and to compile them takes 1.4 million instructions per start.
_PARAMETER = r"([?&;#])([^=?&;#]*)=([^?&;#]*)"
_NESTED_LOGIN = r"(?<=://)[^/?#@\s]+@"  # also in a URL within a URL
PLACEHOLDER = r"\{(\w*)\}"
REPEATED_IDS = r"\{([\w.%\[\]-]+)=ids\}"
# Words that are secret on their own or beside a separator, as in "key[]" and "user[pin]".
_SEPARATOR = r"[-_.\[\]]|%5[bd]"
_SECRET_NAME = (
    r"(?i)token|secret|passw|passphrase|passcode|pwd|credential|cookie|signature|authoriz"
    r"|authentication|bearer|jwt|hmac|(?:api|app|auth|access|account|license|private)-?key"
    r"|sess(?:ion)?-?id"
    r"|(?:^|%s)(?:key|sig|sign|sas|auth|session|code|otp|totp|pin|pass|pw|ticket)(?:$|%s)"
    % (_SEPARATOR, _SEPARATOR)
)
LONGEST_LINK = 8000  # characters of a link that are accepted: RFC 9110, 4.1, asks for this many
SHORTEST_SECRET = 4  # to hide anything shorter would replace parts of ordinary words
_UNSAFE = re.compile(r"[^!-~]+")
_DELIMITERS = frozenset("/?#@:[]\\%")  # of the parts of a URL
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """A parsed URL; `userinfo` is the user and password in it."""

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
        """The Host header, without the port if it is the scheme's default (RFC 9110, 7.2)."""
        if self.port != _PORTS[self.scheme]:
            return self.host_and_port
        return "[%s]" % self.host if ":" in self.host else self.host

    @property
    def host_and_port(self) -> str:
        """The host, in brackets if it is an IPv6 address, and the port in any case."""
        host = "[%s]" % self.host if ":" in self.host else self.host
        return "%s:%d" % (host, self.port)


def is_url(text: str) -> bool:
    """Whether a text is a URL (of any scheme) rather than an id."""
    return _SCHEME.match(text) is not None


@lru_cache(maxsize=64)  # a wait parses its URL twice or more: 25,000 instructions each time
def parse_url(url: str) -> Address:
    """A parsed http or https URL; a ConfigError if it can't be polled."""
    match = _URL.match(url.strip())
    if not match:
        raise ConfigError(
            "%r is not a URL that pollkit can poll: only http:// and https:// are" % redact_url(url)
        )
    scheme = match.group(1).lower()
    authority = _AUTHORITY.fullmatch(match.group(2))
    port = int(authority.group(3) or _PORTS[scheme]) if authority else 0
    if not authority or not 0 < port < 65536:
        raise ConfigError("%r has no usable host and port" % redact_url(url))
    host = _plain_host(authority.group(2))
    if not host:
        raise ConfigError("%r has no usable host" % redact_url(url))
    target = match.group(3)
    if not target.startswith("/"):
        target = "/" + target
    # Everything but visible ASCII is encoded, so that no id or link can smuggle in a header.
    target = _UNSAFE.sub(lambda unsafe: percent_encode(unsafe.group()), target)
    return Address(scheme, host, port, target, authority.group(1) or "")


def _plain_host(text: str) -> str:
    """A host in lower-case ASCII, without brackets; '' if no host can have that name."""
    if text.startswith("["):
        host = text[1:-1].lower()
        return host if ":" in host.partition("%")[0] else ""  # a zone may follow: fe80::1%2
    if "%" in text:  # RFC 3986, 3.2.2; other clients and proxies decode it, too
        from urllib.parse import unquote

        text = unquote(text)
    host = text.lower()
    if _UNSAFE.search(host):
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            return ""
    # IDNA leaves control characters as they are, and turns some letters into delimiters.
    is_name = _UNSAFE.search(host) is None and _DELIMITERS.isdisjoint(host)
    return host if is_name else ""


def fill_template(template: str, **values: str) -> str:
    """A URL template with its {placeholders} filled in, each value percent-encoded.

    >>> fill_template("https://api.internal/jobs/{id}", id="a/b c")
    'https://api.internal/jobs/a%2Fb%20c'
    """

    def encode_value(match: "re.Match[str]") -> str:
        name = match.group(1)
        if name not in values:
            remedy = ": the job needs a label (--label)" if name == "label" else ""
            raise ConfigError(
                "URL template %r: no value for {%s}%s" % (redact_url(template), name, remedy)
            )
        return _encode_value(name, values[name])

    return re.sub(PLACEHOLDER, encode_value, template)


def _encode_value(name: str, value: str) -> str:
    """A value for a placeholder, percent-encoded."""
    # RFC 3986, 3.3: '.' and '..' are steps in a path, also when percent-encoded.
    if value in (".", "..", ""):
        raise ConfigError("%r can't be used as {%s} in a URL" % (value, name))
    return percent_encode(value)


def is_link_template(text: str) -> bool:
    """Whether `result_url` or `cancel_url` is a URL, not the path of a link in the reply."""
    return "{" in text or "://" in text or text.startswith("/")


def fill_ids(template: str, ids: Iterable[str]) -> str:
    """A URL template with the ids filled in, each percent-encoded.

    {ids} has commas between them; {NAME=ids} repeats a parameter. A template without either asks
    for all jobs.

    >>> fill_ids("https://api.internal/jobs?{id=ids}", ["a", "b"])
    'https://api.internal/jobs?id=a&id=b'
    """
    for name in re.findall(PLACEHOLDER, template):
        if name != "ids":
            raise ConfigError("URL template %r: no value for {%s}" % (redact_url(template), name))
    encoded = [_encode_value("ids", job_id) for job_id in ids]
    filled = template.replace("{ids}", ",".join(encoded))
    return re.sub(
        REPEATED_IDS,
        lambda match: "&".join("%s=%s" % (match.group(1), value) for value in encoded),
        filled,
    )


def has_ids(template: str) -> bool:
    """Whether a template names the jobs that it asks about."""
    return "{ids}" in template or re.search(REPEATED_IDS, template) is not None


def join_url(base: str, link: str, encoding: str = "utf-8") -> Optional[str]:
    """The absolute URL of a link, which may be relative (RFC 9110, 10.2.2); None if unusable.

    `encoding` is Latin-1 for a header, which was decoded with it: most links are UTF-8, and this
    restores their bytes.
    """
    if len(link) > LONGEST_LINK:
        return None
    from urllib.parse import quote, urljoin

    try:
        link = quote(link, safe=_PUNCTUATION, encoding=encoding)
    except UnicodeError:
        pass
    try:
        url = urljoin(base, link)
        address = parse_url(url)
        base_address = parse_url(base)
    except ValueError:  # also a ConfigError
        return None
    is_same_origin = base_address.origin == address.origin
    if is_same_origin and base_address.userinfo and not address.userinfo:
        url = url.replace("://", "://%s@" % base_address.userinfo, 1)
    return url


def redact_url(url: str) -> str:
    """A URL for display: without a password, and without query values that look like secrets.

    >>> redact_url("https://me:pw@api.internal/jobs?id=1&api_key=abc")
    'https://***@api.internal/jobs?id=1&api_key=***'
    """
    scheme, mark, rest = url.partition("://")
    if mark and "@" in rest:
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        # A password may have an @, / ? or # that was not percent-encoded.
        has_odd_password = ":" in authority and not _AUTHORITY.fullmatch(authority)
        if "@" in authority or has_odd_password:
            rest = "***" + rest[rest.rindex("@") :]
    shown = scheme + mark + rest
    if "@" in shown:
        shown = re.sub(_NESTED_LOGIN, "***@", shown)
    if "=" in shown:
        shown = re.sub(_PARAMETER, _redact_parameter, shown)
    return shown


def _redact_parameter(match: "re.Match[str]") -> str:
    mark, name, value = match.groups()
    if value and is_secret(name):
        value = "***"
    return "%s%s=%s" % (mark, name, value)


def is_secret(name: str) -> bool:
    """Whether a parameter or header of this name is likely to hold a secret."""
    return re.search(_SECRET_NAME, name) is not None


def secrets_in_url(url: str) -> Set[str]:
    """The secrets that `redact_url` hides, both as they are in the URL and decoded."""
    found: Set[str] = set()
    if "=" in url:
        parameters = re.findall(_PARAMETER, url)
        found.update(value for _, name, value in parameters if is_secret(name))
    rest = url.partition("://")[2]
    if "@" in rest:
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        # A password may have an @, / ? or # that was not percent-encoded; so may a path.
        for userinfo in (authority.rpartition("@")[0], rest.rpartition("@")[0]):
            found.update([userinfo, userinfo.partition(":")[2]])
    if not found:
        return found
    from urllib.parse import unquote

    found.update([unquote(value) for value in found])
    return _long_enough(found)


def secrets_in_header(header: str) -> Set[str]:
    """The secrets in a header: the value, its part after the scheme, and a decoded password."""
    scheme, _, rest = header.partition(" ")
    found = {header, rest}
    if scheme.lower() == "basic":
        from base64 import b64decode

        try:
            plain = b64decode(rest).decode("utf-8", "replace")
        except ValueError:
            plain = ""
        found.update([plain, plain.partition(":")[2]])
    return _long_enough(found)


def _long_enough(secrets: Set[str]) -> Set[str]:
    return {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}


def percent_encode(text: Union[str, bytes], safe: str = "") -> str:
    """A text with all but its unreserved and `safe` characters percent-encoded."""
    from urllib.parse import quote

    return quote(text, safe=safe)
