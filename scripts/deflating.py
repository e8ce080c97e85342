"""Deflate (RFC 1951), slowly, and always the same: what zlib makes of a text depends on which zlib it is.

    stream = deflated(data)

zlib's own releases differ little, zlib-ng and those of other vendors much; a file that is to have
the same SHA-256 wherever it is built can't be left to them. This finds repeats the way they all
do, and writes them with the fixed codes, which makes it about a fifth longer.
"""

from typing import Dict, Iterator, List, Tuple

SHORTEST, LONGEST, FARTHEST = 3, 258, 32768
TRIES = 64  # earlier places that a repeat is looked for
GOOD_ENOUGH = 32  # a repeat that ends the search

Code = Tuple[int, int]  # bits, the first to be sent lowest; how many


def deflated(data: bytes) -> bytes:
    """The data as a raw deflate stream of one block."""
    out, bits, count = bytearray(), 0b011, 3  # the last block; fixed codes
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
    for length, what in _parts(data):
        if length:
            yield _LENGTHS[length]
            yield _distance(what)
        else:
            yield _SYMBOLS[what]
    yield _SYMBOLS[256]


def _parts(data: bytes) -> Iterator[Tuple[int, int]]:
    """The data as literals (0, byte) and repeats (length, distance)."""
    places: Dict[bytes, List[int]] = {}
    at, held = 0, (0, 0)  # a repeat is held back: the next byte may begin a longer one
    while at < len(data):
        found = _repeat(data, at, places)
        _note(data, at, places)
        if held[0] and found[0] <= held[0]:
            yield held
            for passed in range(at + 1, at + held[0] - 1):
                _note(data, passed, places)
            at, held = at + held[0] - 1, (0, 0)
            continue
        if held[0]:
            yield 0, data[at - 1]
        if not found[0]:
            yield 0, data[at]
        held = found
        at += 1
    if held[0]:
        yield held


def _note(data: bytes, at: int, places: Dict[bytes, List[int]]) -> None:
    places.setdefault(data[at : at + SHORTEST], []).append(at)


def _repeat(data: bytes, at: int, places: Dict[bytes, List[int]]) -> Tuple[int, int]:
    """The longest repeat of what stands there, the nearest of them; (0, 0) where there is none."""
    best, distance, most = SHORTEST - 1, 0, min(LONGEST, len(data) - at)
    if most < SHORTEST:
        return 0, 0
    for place in reversed(places.get(data[at : at + SHORTEST], [])[-TRIES:]):
        if at - place > FARTHEST or best >= min(most, GOOD_ENOUGH):
            break
        if data[place : place + best + 1] == data[at : at + best + 1]:
            best += 1
            while best < most and data[place + best] == data[at + best]:
                best += 1
            distance = at - place
    return (best, distance) if distance else (0, 0)


def _reversed(code: int, width: int) -> Code:
    return int(format(code, "0%db" % width)[::-1], 2), width


def _symbols() -> List[Code]:
    """RFC 1951, 3.2.6."""
    return (
        [_reversed(0x30 + i, 8) for i in range(144)]
        + [_reversed(0x190 + i, 9) for i in range(112)]
        + [_reversed(i, 7) for i in range(24)]
        + [_reversed(0xC0 + i, 8) for i in range(8)]
    )


def _lengths(symbols: List[Code]) -> Dict[int, Code]:
    """RFC 1951, 3.2.5: each length's symbol and extra bits."""
    codes, length = {}, SHORTEST
    for symbol in range(257, 285):
        extra = max(0, (symbol - 261) // 4)
        bits, width = symbols[symbol]
        for i in range(1 << extra):
            codes[length + i] = bits | i << width, width + extra
        length += 1 << extra
    codes[LONGEST] = symbols[285]
    return codes


def _distance(distance: int) -> Code:
    """RFC 1951, 3.2.5: as above; a symbol for each half of each power of two."""
    value = distance - 1
    extra = max(0, value.bit_length() - 2)
    symbol = value if extra == 0 else 2 * extra + (value >> extra)
    bits, width = _reversed(symbol, 5)
    return bits | (value & ((1 << extra) - 1)) << width, width + extra


_SYMBOLS = _symbols()
_LENGTHS = _lengths(_SYMBOLS)
