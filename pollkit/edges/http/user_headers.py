"""Headers from users: validated before anything is sent, and merged."""

import re
from typing import Dict, Mapping

from ...errors import ConfigError

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2


def validate_headers(headers: Mapping[str, str]) -> Dict[str, str]:
    """The headers, if they can be sent as they are; errors name the header, never its value."""
    for name, value in headers.items():
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            raise ConfigError("%r can't be a header's name" % (name,))
        if not isinstance(value, str) or not value.replace("\t", " ").isprintable():
            raise ConfigError("the header %s has a value that is not one line of text" % name)
        try:
            value.encode("latin-1")
        except UnicodeError:
            raise ConfigError(
                "the header %s has characters that headers can't carry" % name
            ) from None
        if name.lower() in ("host", "content-length", "transfer-encoding", "connection"):
            raise ConfigError("the header %s is not yours to set" % name)
    return dict(headers)


def merge_headers(headers: Mapping[str, str], stronger: Mapping[str, str]) -> Dict[str, str]:
    """Both, each header once, in any case; a header of `stronger` replaces its namesake."""
    replaced = {name.lower() for name in stronger}
    return {
        **{name: value for name, value in headers.items() if name.lower() not in replaced},
        **stronger,
    }
