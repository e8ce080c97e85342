"""Guess which part of a job's URL is its id: 'https://api.internal/v1/jobs/{id}'."""

import re
from itertools import islice
from typing import Any, List, Sequence, Set

from ...core.urls import parse_url
from ...errors import ConfigError

_SEPARATOR = re.compile(r"([/?&=])")
_VERSION = re.compile(r"v\d+(?:\.\d+)*", re.IGNORECASE)
_BRACES = {"{": "%7B", "}": "%7D"}
_MOST_VALUES = 1000  # of a reply that are compared with the parts of the URL
_DEEPEST_LEVEL = 4


def guess_template(urls: Sequence[str], replies: Sequence[Any]) -> str:
    """The URL with {id}. Two URLs differ in the id; the id of a single one may be in its reply."""
    address = parse_url(urls[0])
    parts = _split(address.target)
    if len(urls) > 1 and urls[0] != urls[1]:
        places = _differing_places(urls)
    else:
        places = [_likely_place(parts, _scalars(replies))]
    for place in places:
        parts[place] = "{id}"
    return "%s://%s%s" % (address.scheme, address.authority, "".join(parts))


def _split(target: str) -> List[str]:
    """The parts of a path and query at the even places, with the separators between them."""
    for brace, encoded in _BRACES.items():
        target = target.replace(brace, encoded)
    return _SEPARATOR.split(target)


def _differing_places(urls: Sequence[str]) -> List[int]:
    """The places of the id: those at which the URLs differ, all in the same way."""
    first, second = (parse_url(url) for url in urls[:2])
    one = _split(first.target)
    other = _split(second.target)
    places = [place for place in range(min(len(one), len(other))) if one[place] != other[place]]
    pairs = {(one[place], other[place]) for place in places}
    have_same_shape = len(one) == len(other) and one[1::2] == other[1::2]
    if first.origin != second.origin or not have_same_shape or len(pairs) != 1:
        raise ConfigError(
            "the URLs differ in more than the id: give those of two jobs of the same API"
        )
    return places


def _likely_place(parts: List[str], values: Set[str]) -> int:
    """The place of the id: a part that the reply has, too, or has a digit, or is the last."""
    from urllib.parse import unquote

    places = [place for place in range(0, len(parts), 2) if _can_be_id(parts, place)]
    query = parts.index("?") if "?" in parts else len(parts)
    in_path = [place for place in places if place < query]
    preferences = [
        [place for place in places if unquote(parts[place]) in values],
        [place for place in in_path if _has_digit(parts[place])],
        in_path,
        places,
    ]
    for preferred in preferences:
        if preferred:
            return preferred[-1]
    raise ConfigError("the URL has no part that could be an id: give the URL of a job")


def _can_be_id(parts: List[str], place: int) -> bool:
    is_name = parts[place + 1 : place + 2] == ["="]  # of a parameter
    return bool(parts[place]) and not is_name


def _has_digit(part: str) -> bool:
    return any(char.isdigit() for char in part) and not _VERSION.fullmatch(part)


def _scalars(replies: Sequence[Any]) -> Set[str]:
    """The texts and whole numbers in decoded replies, as texts."""
    found: Set[str] = set()
    level = list(replies)
    for _ in range(_DEEPEST_LEVEL):
        inner: List[Any] = []
        for value in islice(level, _MOST_VALUES):
            if isinstance(value, dict):
                inner += islice(value.values(), _MOST_VALUES)
            elif isinstance(value, list):
                inner += value[:_MOST_VALUES]
            elif isinstance(value, (str, int)) and not isinstance(value, bool):
                found.add(str(value)[:200])
        level = inner
    return found
