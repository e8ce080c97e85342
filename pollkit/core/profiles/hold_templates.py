"""How a profile asks a server to hold a poll: {hold}, {hold_ms} and {index} in its requests.

A server with long polling holds a request until the job changes, or for as long as the request
says. {hold} is that time in whole seconds, {hold_ms} the same in milliseconds, and {index} the
header X-Consul-Index (or X-Nomad-Index, or another X-...-Index) of the last reply.

House rules: an ordinary poll does not mention holding. A query parameter or header with one of the
placeholders is left out, because 0 is not 'at once' for every server: Consul takes wait=0s for its
default of 5 minutes, and Google's operations take an empty timeout for the longest one. Nothing can
be left out of a body, so an ordinary poll has 0 there; with `hold_url`, a body that mentions the
hold is sent with held polls only.
"""

import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Tuple

from ...errors import ConfigError
from ..units import duration_text
from ..urls import is_secret
from .bodies import has_id

if TYPE_CHECKING:
    from .profile import Profile

SHORTEST_S = 1.0  # servers count in whole seconds
LONGEST_S = 600.0  # Consul's maximum; most proxies cut a connection long before
PLACEHOLDERS = ("hold", "hold_ms", "index")
# Compiled when they are first used: few profiles hold polls.
_PLACEHOLDER = r"\{(hold|hold_ms|index)\}"
_ORIGIN = r"\{base\}|https?://[^/?#]*"
_INDEX_HEADER = r"x-[a-z]+-index"
_INDEX = r"[!-~]{1,100}"
_NOT_IN_QUERY = (
    "has {hold}, {hold_ms} or {index} outside of the query, so it can't be left out of ordinary "
    "polls: write the address of held polls in hold_url"
)
_NO_PLACEHOLDER = (
    "has no effect: write {hold} or {hold_ms} in url, a header or the body, as the API wants it, "
    "or the address of held polls in hold_url"
)


def validate_hold(name: str, seconds: float) -> float:
    """A valid longest time of a held poll; otherwise a ConfigError."""
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise ConfigError("%s must be from 1s to 10m, not %s" % (name, duration_text(seconds)))
    return seconds


def mentions_hold(text: Any) -> bool:
    """Whether a part of a request is about holding; False if it is no text."""
    if not isinstance(text, str) or "{" not in text:
        return False
    return re.search(_PLACEHOLDER, text) is not None


def without_hold(url: str) -> str:
    """A URL template without the query parameters that are about holding.

    >>> without_hold("http://consul:8500/v1/kv/{id}?index={index}&wait={hold}s&dc=east")
    'http://consul:8500/v1/kv/{id}?dc=east'
    """
    path, mark, query = url.partition("?")
    if not mentions_hold(query):
        return url
    kept = [part for part in query.split("&") if not mentions_hold(part)]
    return path + mark + "&".join(kept) if kept else path


def hold_headers(headers: Mapping[str, str]) -> Dict[str, str]:
    """The headers that only held polls have."""
    return {name: value for name, value in headers.items() if mentions_hold(value)}


def hold_values(hold_s: float, index: Optional[str]) -> Dict[str, str]:
    """The values of the placeholders."""
    return {"hold": "%d" % hold_s, "hold_ms": "%d" % (1000 * hold_s), "index": index or "0"}


NO_HOLD = hold_values(0.0, None)


def fill_hold(text: str, values: Mapping[str, str]) -> str:
    """A header's value with its placeholders filled in."""
    return re.sub(_PLACEHOLDER, lambda match: values[match.group(1)], text)


def index_from_headers(headers: Mapping[str, str]) -> Optional[str]:
    """The index of a reply; its header names are in lower case."""
    for name, value in headers.items():
        if re.fullmatch(_INDEX_HEADER, name) and re.fullmatch(_INDEX, value):
            return value
    return None


def needs_index(profile: "Profile") -> bool:
    """Whether held polls repeat the index of the last reply."""
    texts = [profile.hold_url or profile.url, profile.body, *profile.headers.values()]
    return any("{index}" in (text or "") for text in texts)


def is_hold_in_url(profile: "Profile") -> bool:
    """Whether only polls of the profile's own URL can be held, not those of any other URL."""
    texts = [profile.body, *profile.headers.values()]
    return profile.hold_url is not None or not any(map(mentions_hold, texts))


def hold_mistakes(profile: "Profile") -> Iterator[Tuple[str, str]]:
    """Yield the keys about holding that make no sense beside the others, each with the reason."""
    url = profile.url or ""
    held_headers = hold_headers(profile.headers)
    for name in held_headers:
        if is_secret(name):
            yield "header." + name, "can't have a placeholder: its name looks secret"
    if profile.hold_method and not profile.hold_url:
        yield "hold_method", "has no effect without hold_url"
    if profile.hold is None:
        remedy = "has no effect without hold: write hold = 25s, or the longest time of the API"
        if profile.hold_url:
            yield "hold_url", remedy
        if mentions_hold(url):
            yield "url", "has a placeholder that " + remedy
        for name in held_headers:
            yield "header." + name, "has a placeholder that " + remedy
        return
    if mentions_hold(url.partition("?")[0]):
        yield "url", _NOT_IN_QUERY
    if not profile.hold_url:
        if not held_headers and not mentions_hold(url) and not mentions_hold(profile.body):
            yield "hold", _NO_PLACEHOLDER
        return
    if not profile.url:
        yield "hold_url", "has no effect without url"
    elif _origin(profile.hold_url) != _origin(url):
        yield "hold_url", "must begin like url, with the same scheme, host and port"
    if "{id}" not in profile.hold_url and not has_id(profile.body or ""):
        yield "hold_url", "has no {id}: write it where the URL needs it, or in the body"
    if mentions_hold(url):
        yield "url", "has {hold}, {hold_ms} or {index}, but held polls go to hold_url"


def _origin(url: str) -> str:
    match = re.match(_ORIGIN, url, re.IGNORECASE | re.ASCII)
    return match.group().lower() if match else url
