"""Deflate (RFC 1951), slow but reproducible.

    stream = deflate(data)

The output of zlib depends on its version, and much more on its vendor (zlib-ng, for example). A
file with the same SHA-256 wherever it is built can't use it.

A stream consists of literals (single bytes) and matches (repetitions of earlier bytes). This module
chooses the sequence with the fewest bits. The codes depend on that choice, so it estimates their
lengths for it. Each block of the stream has its own codes. The streams of source code are about 2 %
shorter than those of zlib.
"""

from collections import Counter
from itertools import groupby, islice
from typing import Dict, Iterator, List, Tuple

SHORTEST = 3
LONGEST = 258
FARTHEST = 32768
BLOCK_SIZE = 65536
MOST_PLACES = 64  # earlier places that are compared
LONG_ENOUGH = 24  # a match that makes a search at the next position needless

# The symbols (3.2.5). Literals and lengths share a code; the distances have another one, and are
# numbered after the lengths here. Numbers 286 and 287 have fixed codes, but no meaning.
END_OF_BLOCK = 256
FIRST_LENGTH = 257
FIRST_DISTANCE = 288
FIXED_LITERALS = [8] * 144 + [9] * 112 + [7] * 24 + [8] * 8  # 3.2.6
FIXED_DISTANCES = [5] * 30
LONGEST_CODE = 15

# The alphabet of the code lengths: the lengths 0 to 15, then runs of them (3.2.7).
RUNS_OF_ZEROS = [(18, 11, 7), (17, 3, 3)]  # number, shortest run, extra bits
REPETITIONS = [(16, 3, 2)]
HEADER_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
LONGEST_HEADER_CODE = 7

Match = Tuple[int, int]  # length, distance
Bits = str  # of 0 and 1, in the order in which they are sent
Symbol = Tuple[int, Bits]  # its number, and the extra bits that follow its code
Package = Tuple[int, Tuple[int, ...]]  # the sum of the counts of its symbols; their numbers

LITERAL: Match = (1, 0)


def deflate(data: bytes) -> bytes:
    """The data as a raw deflate stream."""
    matches = _find_matches(data)
    blocks = []
    for start in range(0, max(1, len(data)), BLOCK_SIZE):
        part = data[start : start + BLOCK_SIZE]
        choices = _cheapest_matches(part, list(islice(matches, len(part))))
        symbols = _symbols(part, choices)
        is_last = start + BLOCK_SIZE >= len(data)
        blocks.append(
            min(_fixed_block(symbols, is_last), _dynamic_block(symbols, is_last), key=len)
        )
    return _pack("".join(blocks))


def _find_matches(data: bytes) -> Iterator[List[Match]]:
    """The matches at each position, the nearest first, and each longer than the one before."""
    places: Dict[bytes, List[int]] = {}
    matches: List[Match] = []
    for at in range(len(data)):
        earlier = places.setdefault(data[at : at + SHORTEST], [])
        if matches and matches[-1][0] > LONG_ENOUGH:  # it continues here
            matches = [(length - 1, distance) for length, distance in matches if length > SHORTEST]
        else:
            matches = _compare(data, at, earlier[: -MOST_PLACES - 1 : -1])
        yield matches
        earlier.append(at)


def _compare(data: bytes, at: int, places: List[int]) -> List[Match]:
    """The matches of this position with earlier places that begin with the same three bytes."""
    matches: List[Match] = []
    if not places:
        return matches
    rest = data[at : at + LONGEST]
    most = len(rest)
    length = SHORTEST - 1
    next_byte = rest[length]
    for place in places:
        # The next byte is compared first, because it differs at most places.
        if data[place + length] == next_byte and data[place : place + length] == rest[:length]:
            if at - place > FARTHEST:
                break
            length += 1
            while length < most and data[place + length] == rest[length]:
                length += 1
            matches.append((length, at - place))
            if length == most:
                break
            next_byte = rest[length]
    return matches


def _cheapest_matches(data: bytes, matches: List[List[Match]]) -> List[Match]:
    """The match or literal at each position that makes the rest of the block shortest."""
    literal_costs = _estimate_literals(data)
    costs = [0] * (len(data) + 1)  # of the data from each position to the end
    choices = [LITERAL] * len(data)
    for at in range(len(data) - 1, -1, -1):
        cheapest = costs[at + 1] + literal_costs[data[at]]
        shortest = SHORTEST
        size_of_rest = len(data) - at
        for longest, distance in matches[at]:
            longest = min(longest, size_of_rest)  # a match ends with its block
            distance_cost = _DISTANCE_COSTS[distance]
            for length in range(shortest, longest + 1):
                cost = costs[at + length] + _LENGTH_COSTS[length] + distance_cost
                if cost < cheapest:
                    cheapest = cost
                    choices[at] = (length, distance)
            shortest = longest + 1
        costs[at] = cheapest
    return choices


def _estimate_literals(data: bytes) -> List[int]:
    """The bits that each byte will need: fewer for a frequent one."""
    rarities = [len(data) // max(1, data.count(byte)) for byte in range(256)]
    return [max(4, rarity.bit_length()) for rarity in rarities]


def _symbols(data: bytes, choices: List[Match]) -> List[Symbol]:
    symbols = []
    at = 0
    while at < len(data):
        length, distance = choices[at]
        if distance:
            symbols += [_LENGTHS[length], _DISTANCES[distance]]
        else:
            symbols.append((data[at], ""))
        at += length
    return symbols + [(END_OF_BLOCK, "")]


def _fixed_block(symbols: List[Symbol], is_last: bool) -> Bits:
    """A block with the fixed codes (3.2.6)."""
    return (
        _number(is_last, 1)
        + "10"
        + _encode(symbols, _codes(FIXED_LITERALS) + _codes(FIXED_DISTANCES))
    )


def _dynamic_block(symbols: List[Symbol], is_last: bool) -> Bits:
    """A block with codes for these symbols, whose lengths are in its header (3.2.7)."""
    counts = _count(symbols, FIRST_DISTANCE + 30)
    literals = _code_lengths(counts[:FIRST_DISTANCE], LONGEST_CODE)
    distances = _code_lengths(counts[FIRST_DISTANCE:], LONGEST_CODE)
    codes = _codes(literals) + _codes(distances)
    literals = _strip_zeros(literals, 257)
    distances = _strip_zeros(distances, 1)
    runs = _join_runs(literals + distances)
    run_lengths = _code_lengths(_count(runs, 19), LONGEST_HEADER_CODE)
    ordered = _strip_zeros([run_lengths[number] for number in HEADER_ORDER], 4)
    return (
        _number(is_last, 1)
        + "01"
        + _number(len(literals) - 257, 5)
        + _number(len(distances) - 1, 5)
        + _number(len(ordered) - 4, 4)
        + "".join(_number(length, 3) for length in ordered)
        + _encode(runs, _codes(run_lengths))
        + _encode(symbols, codes)
    )


def _join_runs(lengths: List[int]) -> List[Symbol]:
    """The code lengths, with one symbol for several equal ones."""
    symbols = []
    for length, equal in groupby(lengths):
        rest = len(list(equal))
        kinds = RUNS_OF_ZEROS
        if length:
            symbols.append((length, ""))
            rest -= 1
            kinds = REPETITIONS
        for number, shortest, extra in kinds:
            while rest >= shortest:
                run = min(rest, shortest + (1 << extra) - 1)
                symbols.append((number, _number(run - shortest, extra)))
                rest -= run
        symbols += [(length, "")] * rest
    return symbols


def _strip_zeros(lengths: List[int], fewest: int) -> List[int]:
    """The lengths without the zeros at the end, but at least the given number of them."""
    count = len(lengths)
    while count > fewest and lengths[count - 1] == 0:
        count -= 1
    return lengths[:count]


def _count(symbols: List[Symbol], size: int) -> List[int]:
    counts = Counter(number for number, _ in symbols)
    return [counts[number] for number in range(size)]


def _code_lengths(counts: List[int], limit: int) -> List[int]:
    """The code lengths up to the limit that need the fewest bits, by package-merge."""
    single: List[Package] = [(n, (number,)) for number, n in enumerate(counts) if n]
    packages: List[Package] = []
    for _ in range(limit):
        items = sorted(single + packages)
        packages = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(items[::2], items[1::2])]
    if len(single) == 1:
        packages = single  # one bit, because a length of 0 means that there is no code
    lengths = [0] * len(counts)  # one bit for each cheap package that contains the symbol
    for _, numbers in packages[: max(1, len(single) - 1)]:
        for number in numbers:
            lengths[number] += 1
    return lengths


def _codes(lengths: List[int]) -> List[Bits]:
    """The codes with these lengths (3.2.2); their first bit is sent first (3.1.1)."""
    codes = [""] * len(lengths)
    code = 0
    previous = 0
    used = [(length, number) for number, length in enumerate(lengths) if length]
    for length, number in sorted(used):
        code <<= length - previous
        codes[number] = format(code, "0%db" % length)
        code += 1
        previous = length
    return codes


def _encode(symbols: List[Symbol], codes: List[Bits]) -> Bits:
    return "".join([codes[number] + extra for number, extra in symbols])


def _number(value: int, width: int) -> Bits:
    """A number, whose lowest bit is sent first (3.1.1)."""
    return format(value, "0%db" % width)[::-1] if width else ""


def _pack(bits: Bits) -> bytes:
    """The bits in bytes, each of which begins with its lowest bit (3.1.1)."""
    return int(bits[::-1], 2).to_bytes((len(bits) + 7) // 8, "little")


def _expand(first: int, extras: List[int]) -> List[Symbol]:
    """The symbols of consecutive values; the numbers from the first on have these extra bits."""
    symbols = []
    for number, extra in enumerate(extras, first):
        symbols += [(number, _number(value, extra)) for value in range(1 << extra)]
    return symbols


# The symbol of each length and distance (3.2.5), and the estimated bits of code and extra bits.
_LENGTHS = [(0, "")] * SHORTEST + _expand(FIRST_LENGTH, [max(0, i // 4 - 1) for i in range(28)])
_LENGTHS[LONGEST] = (285, "")
_DISTANCES = [(0, "")] + _expand(FIRST_DISTANCE, [max(0, i // 2 - 1) for i in range(30)])
_LENGTH_COSTS = [4 + (number - FIRST_LENGTH) // 3 + len(extra) for number, extra in _LENGTHS]
_DISTANCE_COSTS = [max(8, 2 + distance.bit_length()) for distance in range(FARTHEST + 1)]
