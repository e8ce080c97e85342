"""Deflate (RFC 1951), slow but reproducible.

    stream = deflate(data)

The output of zlib depends on its version, and much more on its vendor (zlib-ng, for example). A
file with the same SHA-256 wherever it is built can't use it. This module finds repetitions as zlib
does, but writes them with the fixed codes, which makes the stream about a fifth longer.
"""

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

SHORTEST = 3
LONGEST = 258
FARTHEST = 32768
MOST_PLACES = 64  # earlier places that are compared
LONG_ENOUGH = 32  # a repetition that ends the search
END_OF_BLOCK = 256

Code = Tuple[int, int]  # bits, the first to be sent lowest; their number


class Repetition(NamedTuple):
    """A part of the data that occurred before, so many bytes earlier."""

    length: int
    distance: int


def deflate(data: bytes) -> bytes:
    """The data as a raw deflate stream of one block."""
    out = bytearray()
    bits = 0b011  # the last block; fixed codes
    count = 3
    for more, width in _codes(data):
        bits |= more << count
        count += width
        while count >= 8:
            out.append(bits & 255)
            bits >>= 8
            count -= 8
    if count:
        out.append(bits)
    return bytes(out)


def _codes(data: bytes) -> Iterator[Code]:
    position = 0
    for start, repetition in _repetitions(data):
        for byte in data[position:start]:
            yield _SYMBOLS[byte]
        yield _LENGTHS[repetition.length]
        yield _distance_code(repetition.distance)
        position = start + repetition.length
    for byte in data[position:]:
        yield _SYMBOLS[byte]
    yield _SYMBOLS[END_OF_BLOCK]


def _repetitions(data: bytes) -> Iterator[Tuple[int, Repetition]]:
    """The repetitions to use, each with its position; they don't overlap."""
    places: Dict[bytes, List[int]] = {}
    held: Optional[Repetition] = None  # until it is clear that the next byte begins no longer one
    at = 0
    while at < len(data):
        found = _longest_repetition(data, at, places)
        _add_place(data, at, places)
        if held is not None and (found is None or found.length <= held.length):
            yield at - 1, held
            end = at - 1 + held.length
            for passed in range(at + 1, end):
                _add_place(data, passed, places)
            at = end
            held = None
        else:
            held = found
            at += 1
    if held is not None:
        yield at - 1, held


def _add_place(data: bytes, at: int, places: Dict[bytes, List[int]]) -> None:
    places.setdefault(data[at : at + SHORTEST], []).append(at)


def _longest_repetition(
    data: bytes, at: int, places: Dict[bytes, List[int]]
) -> Optional[Repetition]:
    """The longest repetition at this position, and the nearest of equal ones; None without any."""
    most = min(LONGEST, len(data) - at)
    if most < SHORTEST:
        return None
    length = SHORTEST - 1
    distance = 0
    for place in reversed(places.get(data[at : at + SHORTEST], [])[-MOST_PLACES:]):
        if at - place > FARTHEST or length >= min(most, LONG_ENOUGH):
            break
        if data[place : place + length + 1] == data[at : at + length + 1]:
            length += 1
            while length < most and data[place + length] == data[at + length]:
                length += 1
            distance = at - place
    return Repetition(length, distance) if distance else None


def _reverse_bits(code: int, width: int) -> Code:
    return int(format(code, "0%db" % width)[::-1], 2), width


def _symbol_codes() -> List[Code]:
    """The fixed codes (RFC 1951, 3.2.6)."""
    return (
        [_reverse_bits(0x30 + i, 8) for i in range(144)]
        + [_reverse_bits(0x190 + i, 9) for i in range(112)]
        + [_reverse_bits(i, 7) for i in range(24)]
        + [_reverse_bits(0xC0 + i, 8) for i in range(8)]
    )


def _length_codes(symbols: List[Code]) -> Dict[int, Code]:
    """The symbol of each length, with its extra bits (RFC 1951, 3.2.5)."""
    codes = {}
    length = SHORTEST
    for symbol in range(257, 285):
        extra = max(0, (symbol - 261) // 4)
        bits, width = symbols[symbol]
        for i in range(1 << extra):
            codes[length + i] = (bits | i << width, width + extra)
        length += 1 << extra
    codes[LONGEST] = symbols[285]
    return codes


def _distance_code(distance: int) -> Code:
    """The symbol of a distance, with its extra bits: two symbols per power of two (3.2.5)."""
    value = distance - 1
    extra = max(0, value.bit_length() - 2)
    symbol = value if extra == 0 else 2 * extra + (value >> extra)
    bits, width = _reverse_bits(symbol, 5)
    return bits | (value & ((1 << extra) - 1)) << width, width + extra


_SYMBOLS = _symbol_codes()
_LENGTHS = _length_codes(_SYMBOLS)
