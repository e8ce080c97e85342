"""The types of arguments: each function parses one, or raises ConfigError with the remedy."""

import os
import re
from typing import Tuple

from ...core.profiles.profile import validate_size
from ...core.units import NEVER, to_seconds
from ...core.urls import is_secret, is_url, parse_url, redact_url
from ...errors import ConfigError

LARGEST_NUMBER = 1000000


def count(text: str, maximum: int = LARGEST_NUMBER) -> int:
    """A whole number from 1 on."""
    number = int(text) if text.isdecimal() and len(text) < 10 else 0
    if not 1 <= number <= maximum:
        raise ConfigError("%.40r is not a whole number from 1 to %d" % (text, maximum))
    return number


def timeout(text: str) -> float:
    """A timeout in seconds; NEVER for 'never'."""
    if text.lower() == "never":
        return NEVER
    try:
        return to_seconds(text)
    except ValueError:
        raise ConfigError(
            "%.40r is not a timeout: write 90s, 10m, 1h30m (up to ten years), never, "
            "or 0 to poll once" % text
        ) from None


def path(text: str) -> str:
    """The path of a file."""
    if not text:
        raise ConfigError("the name of a file is missing")
    # Without a locale, as in cron, Python 3.6 can open a path only in its undecoded form.
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def label(text: str) -> str:
    """The label of a job."""
    if not text.strip() or not text.isprintable():
        raise ConfigError("%.40r is not a label: it should be a word" % text)
    return text


def size(text: str) -> float:
    """The size of a job."""
    try:
        number = float(text)
    except ValueError:
        raise ConfigError("a size is a number, not %r" % text) from None
    return validate_size("a size", number)


def token_variable(text: str) -> str:
    """The name of the environment variable that holds the credential."""
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", text):
        raise ConfigError("give the name of an environment variable, never the credential itself")
    return text


def auth(text: str) -> str:
    """The scheme and the source of the credential, as in a profile."""
    from ...edges.credentials import credential_variable  # late: many waits need no credential

    variable = credential_variable(text)
    if variable is not None:
        token_variable(variable)
    return text


def header(text: str) -> Tuple[str, str]:
    """The name and the value of a header."""
    name, colon, value = map(str.strip, text.partition(":"))
    if not colon or not name:
        raise ConfigError("write it as 'Name: value'")
    scheme = re.match(r"(bearer|basic)\s", value, re.IGNORECASE)
    if is_secret(name) or scheme:
        kind = "header " + name
        if scheme and name.lower() == "authorization":
            kind = scheme.group(1).lower()
        raise ConfigError(
            "%s carries a secret, and others on this host can read the command line: "
            "use --auth '%s env:VAR', or auth = in a profile" % (name, kind)
        )
    return name, value


def proxy(text: str) -> str:
    """The URL or address of a proxy, 'none' or 'env'."""
    if text.lower() in ("none", "env"):
        return text.lower()
    if not text:
        raise ConfigError("the URL of the proxy is missing; write none to use no proxy")
    if is_url(text) and not text.lower().startswith("http://"):
        raise ConfigError("%s can't be used: only http:// proxies are supported" % redact_url(text))
    if parse_url(text if is_url(text) else "http://" + text).userinfo:
        raise ConfigError(
            "others on this host can read a password on the command line: "
            "set http_proxy or https_proxy, or proxy = in a profile"
        )
    return text
