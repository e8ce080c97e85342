"""JSON as servers send it, decoded within limits of memory, time and depth.

Decoding takes up to 90 times as much memory as the text: `{},` takes 260 bytes on Python 3.6. So
the memory is estimated beforehand, from the characters that each value needs. The figures are the
highest that were measured for such a character on 3.6 to 3.13, with keys that are all distinct.
"""

import json
import re
from typing import Any

DEEPEST = 100  # levels of lists and objects in a result: other JSON libraries accept few more
LONGEST_NUMBER = 4300  # digits, the limit of Python 3.11 and later: 2 million took 17 s before
MOST_MEMORY = 48 << 20  # for a body and its data; with the overhead of malloc this is below 64 MB
_MOST_INNER_MEMORY = MOST_MEMORY // 2  # for JSON inside a string, in addition to the body
_HARMLESS_BYTES = 300000  # of JSON take 27 MB at most, and need no estimate
_MEMORY_PER = ((b"{", 260), (b"[", 125), (b":", 180), (b",", 85))
_MEMORY_PER_PIECE = 82  # older Pythons build a list of the pieces of a text with escapes
_FOUR_BYTE_LEADS = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
_FOUR_DIGITS = rb"[0-9]{4}"  # compiled when it is first used, like _SPACE
_INFINITY = float("inf")
_WHITE_SPACE = " \t\r\n"  # RFC 8259, 2
_SPACE = "[ \t\r\n]*"


def _parse_int(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number of over %d digits" % LONGEST_NUMBER)
    return int(digits)


def _parse_constant(name: str) -> None:
    """NaN and Infinity become null: they are not JSON, and can't be in an outcome."""


_DECODER = json.JSONDecoder(parse_constant=_parse_constant)
# Calls _parse_int for each number, which takes 0.2 us: used only if there may be a long one.
_CAREFUL_DECODER = json.JSONDecoder(parse_constant=_parse_constant, parse_int=_parse_int)


class JsonTooCostly(ValueError):
    """The body may be JSON, but to decode it would exceed a limit; the message names the limit."""


def decode_json(body: bytes) -> Any:
    """The data of a JSON body; a ValueError if it is not JSON, or is too costly to decode."""
    # JSON is written in UTF-8 (RFC 8259, 8.1), but older software may send UTF-16 or UTF-32.
    is_utf_8 = body[:1] < b"\x80" and b"\0" not in body[:4]
    most_memory = MOST_MEMORY
    if not is_utf_8:
        most_memory -= len(body)
        body = body.decode(json.detect_encoding(body)).encode("utf-8")
    try:
        return _decode(_decoder_for(body, most_memory), body.decode("utf-8"))
    except RecursionError:
        raise JsonTooCostly("JSON that can't be read: it is nested too deep") from None
    except ValueError as error:
        # Other errors than that of a long number have a class derived from ValueError.
        if type(error) is ValueError:
            raise JsonTooCostly("JSON that can't be read: a number in it is too long") from None
        raise


def try_decode_json(body: bytes) -> Any:
    """The data of a JSON body; None if it is not JSON, or is too costly to decode."""
    try:
        return decode_json(body)
    except ValueError:
        return None


def decode_inner_json(text: Any) -> Any:
    """The data of JSON inside a string; None if it is not JSON, or is too costly to decode."""
    try:
        # The encoded text is not kept: a result may have MB of JSON in one string.
        decoder = _decoder_for(text.encode("utf-8", "surrogatepass"), _MOST_INNER_MEMORY)
        return _decode(decoder, text)
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None


def _decode(decoder: json.JSONDecoder, text: str) -> Any:
    """What `decoder.decode` returns, in 4/5 of the time: it searches for white space twice."""
    start = 0
    if len(text) <= _HARMLESS_BYTES:
        text = text.strip(_WHITE_SPACE)
    else:  # skip the white space: to strip it would copy the text
        start = re.match(_SPACE, text).end()  # type: ignore[union-attr]  # it always matches
    data, end = decoder.raw_decode(text, start)
    if end != len(text) and re.compile(_SPACE).fullmatch(text, end) is None:
        raise json.JSONDecodeError("Extra data", text, end)
    return data


def _decoder_for(body: bytes, most_memory: int) -> json.JSONDecoder:
    """A decoder for this JSON in UTF-8; JsonTooCostly if it could take too much memory."""
    if len(body) <= LONGEST_NUMBER:
        return _DECODER
    if len(body) > _HARMLESS_BYTES and estimate_memory(body) > most_memory:
        raise JsonTooCostly(
            "JSON that can't be read: it has so many values, or such a long text, "
            "that it could take over %d MB of memory" % (MOST_MEMORY >> 20)
        )
    # Every 1000th character is enough: a number that is too long covers at least four of them.
    may_have_long_number = re.search(_FOUR_DIGITS, body[::1000]) is not None
    return _CAREFUL_DECODER if may_have_long_number else _DECODER


def estimate_memory(body: bytes) -> int:
    """An upper limit of the memory, in bytes, that JSON in UTF-8 and its data take."""
    # In parts, to avoid a copy of the whole body.
    characters = sum(
        len(body[at : at + 65536].translate(None, _CONTINUATION_BYTES))
        for at in range(0, len(body), 65536)
    )
    # Python stores a text in 1, 2 or 4 bytes per character, as its widest character needs.
    text_width = 1
    if characters < len(body):
        text_width = 4 if any(lead in body for lead in _FOUR_BYTE_LEADS) else 2
    escapes = body.count(b"\\")
    code_escapes = body.count(b"\\u")
    value_width = max(text_width, 2 if code_escapes else 1)
    if b"\\ud" in body or b"\\uD" in body:  # surrogates: two of them are one wide character
        value_width = 4
    texts = characters * (text_width + value_width)
    if value_width > text_width:  # the text is copied when its first wide character is decoded
        texts += characters * text_width
    # The pieces of a text are its escapes and the text between them. Python keeps one object for
    # each character of Latin-1, so that a piece of one such character takes no memory.
    unescaped = len(body) - 6 * code_escapes - 2 * (escapes - code_escapes)
    between = min(escapes, max(0, unescaped) // 2)
    pieces = 10 * escapes + _MEMORY_PER_PIECE * (code_escapes + between)
    values = sum(cost * body.count(mark) for mark, cost in _MEMORY_PER)
    return len(body) + texts + pieces + values


def to_plain_json(data: Any) -> Any:
    """Decoded JSON that can be encoded again; a ValueError if it is nested too deep.

    A number such as 1e999, which would be encoded as Infinity, becomes null. It is replaced in
    place: a copy of the data could take too much memory.

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
