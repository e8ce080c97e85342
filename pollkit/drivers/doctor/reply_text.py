"""A reply as text for people: indented, short, and without secrets.

House rules: the reply is untrusted, and may be shown to others. Values of fields with secret names
are hidden, and so are the secrets that were sent. Long texts, lists and objects are shortened, and
no character of the result can control a terminal.
"""

import json
from itertools import islice
from typing import Any, Callable, Dict, List

from ...core.model import Reply
from ...core.reading.json_decoding import decode_json
from ...core.urls import is_secret, is_url, redact_url

MOST_LINES = 200
LONGEST_LINE = 300
LONGEST_STRING = 200
MOST_ELEMENTS = 10  # of a list
MOST_FIELDS = 60  # of an object
DEEPEST_LEVEL = 12
MOST_VALUES = 1000  # after so many, objects and lists are left out
_LONGEST_BODY = 8000  # bytes of a body that is not JSON

Scrub = Callable[[str], str]


def reply_lines(reply: Reply, scrub: Scrub) -> List[str]:
    """The body of a reply as lines; `scrub` removes the secrets that were sent from a text."""
    try:
        data = decode_json(reply.body)
    except ValueError:
        text = scrub(reply.body[:_LONGEST_BODY].decode("utf-8", "replace"))
        is_cut = len(reply.body) > _LONGEST_BODY
    else:
        text = json.dumps(_Shortener(scrub).shorten(data), indent=2, ensure_ascii=False)
        text = "\n".join(map(scrub, text.split("\n")))  # a number may be a secret, too
        is_cut = False
    lines = [_printable(line) for line in text.split("\n")]
    if len(lines) > MOST_LINES or is_cut:
        lines = lines[:MOST_LINES] + ["... (cut)"]
    return lines


class _Shortener:
    """Makes a short copy of decoded JSON, without secrets."""

    def __init__(self, scrub: Scrub) -> None:
        self._scrub = scrub
        self._values_left = MOST_VALUES

    def shorten(self, value: Any, level: int = 0) -> Any:
        """The beginning of a value; `level` is the number of lists and objects around it."""
        self._values_left -= 1
        if isinstance(value, str):
            return self._shorten_string(value)
        if not isinstance(value, (dict, list)) or not value:
            return value
        if level >= DEEPEST_LEVEL or self._values_left <= 0:
            return "..."
        if isinstance(value, dict):
            return self._shorten_object(value, level)
        shown = [self.shorten(each, level + 1) for each in value[:MOST_ELEMENTS]]
        if len(value) > MOST_ELEMENTS:
            shown.append("... (%d more)" % (len(value) - MOST_ELEMENTS))
        return shown

    def _shorten_string(self, text: str) -> str:
        text = self._scrub(text)
        if is_url(text):
            text = redact_url(text)
        return text if len(text) <= LONGEST_STRING else text[:LONGEST_STRING] + "..."

    def _shorten_object(self, fields: Dict[str, Any], level: int) -> Dict[str, Any]:
        shown: Dict[str, Any] = {}
        for key, value in islice(fields.items(), MOST_FIELDS):
            hides_value = _is_secret_field(key) and isinstance(value, (str, int, float))
            shown_key = self._shorten_string(key)
            shown[shown_key] = "***" if hides_value else self.shorten(value, level + 1)
        if len(fields) > MOST_FIELDS:
            shown["..."] = "%d more fields" % (len(fields) - MOST_FIELDS)
        return shown


def _is_secret_field(key: str) -> bool:
    """Whether a field may hold a secret. In a reply, a code is that of an error."""
    return is_secret(key) and not key.lower().endswith("code")


def _printable(line: str) -> str:
    """A line without characters that could control a terminal, truncated."""
    if len(line) > LONGEST_LINE:
        line = line[:LONGEST_LINE] + "..."
    return "".join(char if char.isprintable() else "?" for char in line)
