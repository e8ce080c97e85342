"""JSON as servers send it, and dotted paths into it: 'data.state', 'items.0.id', 'data.resultJson|json.resultUrls'.

House rules: a path that leads nowhere finds None; no path raises for the data's sake.
"""

import json
import re
from typing import Any, NamedTuple, Tuple

from ...errors import ConfigError
from ..model import LONGEST_TEXT

DEEPEST = 100  # levels of lists and objects: whoever reads an outcome may not bear many more

# Decoding takes up to 90 times as much memory as the text: `{},` is 260 bytes on Python 3.6. So the
# memory is estimated beforehand, from the characters that each value needs. The figures are the
# most that was measured for such a character on 3.6 to 3.13, with keys that are all distinct.
MOST_MEMORY = 48 << 20  # of a body and its data; with what malloc keeps, this is below 64 MB
_MOST_INSIDE = MOST_MEMORY // 2  # of JSON inside a string, which comes on top of it
_HARMLESS_BYTES = 300000  # of JSON, which take 27 MB at most: these need no estimate
_MEMORY_PER = ((b"{", 260), (b"[", 125), (b":", 180), (b",", 85))
_MEMORY_PER_PIECE = 82  # older Pythons build a list of the pieces of a text with escapes
_FOUR_BYTE_LEADS = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
LONGEST_NUMBER = 4300  # digits, as Python has it from 3.11 on: 2 million took 17 s before
_FOUR_DIGITS = re.compile(rb"[0-9]{4}")


def _whole_number(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number of over %d digits" % LONGEST_NUMBER)
    return int(digits)


def _no_constant(name: str) -> None:
    """NaN and Infinity are not JSON, nor would they be in an outcome."""


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
# It calls a function of ours for each number, which takes 0.2 us: only if there may be a long one.
_CAREFUL_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_int=_whole_number)
_DECODE = "|json"
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
_INFINITY = float("inf")


class Path(NamedTuple("Path", [("text", str), ("steps", Tuple[str, ...])])):
    """A compiled path; `|json` reads JSON inside a string.

    >>> Path("data.made|json.urls.0").find({"data": {"made": '{"urls": ["a"]}'}})
    'a'
    """

    __slots__ = ()

    def __new__(cls, text: str) -> "Path":
        steps = []
        for part in text.strip().split("."):
            key, bar, filter_name = part.partition("|")
            if not key or (bar and filter_name != "json"):
                raise ConfigError(
                    "path %r: write it as data.state, items.0.id or data.made|json.urls" % text
                )
            steps += [key, _DECODE] if bar else [key]
        return super().__new__(cls, text.strip(), tuple(steps))

    def find(self, data: Any, otherwise: Any = None) -> Any:
        """What stands at the path, or `otherwise` where it leads nowhere."""
        for step in self.steps:
            if step is _DECODE:
                data = _inside(data)
            elif isinstance(data, dict):
                data = data.get(step, otherwise)
            elif isinstance(data, list) and step.isdecimal() and int(step) < len(data):
                data = data[int(step)]
            else:
                return otherwise
        return data


class JsonTooCostly(ValueError):
    """It may well be JSON, but Python can't take it; says why."""


def decode_json(body: bytes) -> Any:
    """The data of a JSON body, or a ValueError."""
    # UTF-8 is what JSON is written in (RFC 8259, 8.1); older software may still send UTF-16 or 32.
    is_usual = (
        body[0] < 0x80 and b"\0" not in body[:4]
    )  # no byte-order mark, and no wide characters
    most = MOST_MEMORY
    if not is_usual:
        most -= len(body)
        body = body.decode(json.detect_encoding(body)).encode("utf-8")
    try:
        return _decoder_for(body, most).decode(body.decode("utf-8"))
    except RecursionError:
        raise JsonTooCostly("JSON that can't be read: it is nested too deep") from None
    except ValueError as error:
        if type(error) is ValueError:  # what is no JSON, or no text, has a class of its own
            raise JsonTooCostly("JSON that can't be read: a number in it is too long") from None
        raise


def _decoder_for(body: bytes, most: int) -> json.JSONDecoder:
    """A decoder for this JSON in UTF-8; Unbearable if it could take more memory than `most`."""
    if len(body) <= LONGEST_NUMBER:
        return _DECODER
    if len(body) > _HARMLESS_BYTES and memory_needed(body) > most:
        raise JsonTooCostly(
            "JSON that can't be read: it has so many values, or such a long text, "
            "that it could take over %d MB of memory" % (MOST_MEMORY >> 20)
        )
    # A number that is too long has at least four digits among each thousandth of the characters.
    may_have_long_number = _FOUR_DIGITS.search(body[::1000]) is not None
    return _CAREFUL_DECODER if may_have_long_number else _DECODER


def memory_needed(body: bytes) -> int:
    """An upper limit of the memory, in bytes, that JSON in UTF-8 and its data take."""
    # Python stores a text in 1, 2 or 4 bytes per character, as its widest character needs.
    characters = sum(
        len(body[at : at + 65536].translate(None, _CONTINUATION_BYTES))
        for at in range(0, len(body), 65536)
    )  # in parts: no copy of the whole
    text_width = 1
    if characters < len(body):
        text_width = 4 if any(lead in body for lead in _FOUR_BYTE_LEADS) else 2
    escapes = body.count(b"\\")
    code_escapes = body.count(b"\\u")
    value_width = max(text_width, 2 if code_escapes else 1)
    if b"\\ud" in body or b"\\uD" in body:  # surrogates: two of them are one wide character
        value_width = 4
    texts = characters * (text_width + value_width)
    if value_width > text_width:  # it is copied when the first wide character comes
        texts += characters * text_width
    # The pieces of a text are its escapes and what is between them; Python keeps one object for
    # each single character of Latin-1, so that pieces of one such character take no memory.
    unescaped = len(body) - 6 * code_escapes - 2 * (escapes - code_escapes)
    between = min(escapes, max(0, unescaped) // 2)
    pieces = 10 * escapes + _MEMORY_PER_PIECE * (code_escapes + between)
    values = sum(cost * body.count(mark) for mark, cost in _MEMORY_PER)
    return len(body) + texts + pieces + values


def data_text(value: Any) -> str:
    """Untrusted data as text to be shown, truncated."""
    text = ""
    try:
        for piece in _ENCODER.iterencode(value):
            text += piece[: LONGEST_TEXT + 1]
            if len(text) > LONGEST_TEXT:
                return text[:LONGEST_TEXT] + "..."
    except (ValueError, RecursionError):  # it holds itself, or is nested too deep
        return "data that can't be shown"
    return text


def to_plain_json(data: Any) -> Any:
    """Decoded JSON as it can be written again, or a ValueError where it is nested too deep.

    A number such as 1e999, which would be Infinity then, becomes null, in place: a copy of the
    data could take too much memory.

    >>> to_plain_json({"a": [1e999, 2]})
    {'a': [None, 2]}
    """
    level = [data]
    for _ in range(DEEPEST + 1):
        containers = [value for value in level if isinstance(value, (dict, list))]
        level = []
        for container in containers:
            values = container.values() if isinstance(container, dict) else container
            if _INFINITY in values or -_INFINITY in values:
                _remove_infinities(container)
            level.extend(values)
        if not level:
            return None if data in (_INFINITY, -_INFINITY) else data
    raise ValueError("it is nested more than %d levels deep" % DEEPEST)


def _remove_infinities(container: Any) -> None:
    """Replace infinities in a dict or list by None."""
    keys = list(container) if isinstance(container, dict) else range(len(container))
    for key in keys:
        if container[key] in (_INFINITY, -_INFINITY):
            container[key] = None


def _inside(text: Any) -> Any:
    """The data of JSON inside a string; None if it is none, or takes too much memory."""
    try:
        return _decoder_for(text.encode("utf-8", "surrogatepass"), _MOST_INSIDE).decode(text)
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None
