"""Random changes to bytes, and the search for a smaller input that still fails."""

import random
import re
import time
from typing import Callable, List, NamedTuple, Sequence

LONGEST_INPUT = 6000
INTERESTING_BYTES = b'\r\n\t :;,.=-+0159afAF{}[]"\\\x00\x1f\x7f\x80\xff'
INTERESTING_NUMBERS = [
    b"0",
    b"00",
    b"1",
    b"-1",
    b"+1",
    b"1e3",
    b"0x10",
    b"1.0",
    b"1_0",
    b"",
    b"10485761",
    b"18446744073709551616",
    b"ffffffffffffffff",
    b"9" * 40,
]
REPEATS = [1, 1, 1, 1, 1, 1, 2, 5, 40, 400]
_NUMBER = re.compile(rb"[0-9]+")


class Material(NamedTuple):
    """The material for inputs: whole inputs, and tokens that mean something to the target."""

    corpus: Sequence[bytes]
    tokens: Sequence[bytes]


def mutate(material: Material, rng: random.Random) -> bytes:
    """An input of the corpus with one to eight random changes."""
    data = rng.choice(material.corpus)
    for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3, 8])):
        data = rng.choice(MUTATIONS)(data, material, rng)[:LONGEST_INPUT]
    return data


def _flip_bit(data: bytes, material: Material, rng: random.Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _replace_byte(data: bytes, material: Material, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.choice(INTERESTING_BYTES)]) + data[at + 1 :]


def _insert_bytes(data: bytes, material: Material, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    count = rng.choice([1, 1, 2, 3, 50, 500])
    return data[:at] + bytes([rng.choice(INTERESTING_BYTES)]) * count + data[at:]


def _insert_token(data: bytes, material: Material, rng: random.Random) -> bytes:
    at = _line_start(data, rng) if rng.random() < 0.7 else rng.randrange(len(data) + 1)
    return data[:at] + _repeat(rng.choice(material.tokens), rng) + data[at:]


def _delete_part(data: bytes, material: Material, rng: random.Random) -> bytes:
    start, end = _part(data, rng)
    return data[:start] + data[end:]


def _duplicate_part(data: bytes, material: Material, rng: random.Random) -> bytes:
    start, end = _part(data, rng)
    return data[:end] + _repeat(data[start:end], rng) + data[end:]


def _move_part(data: bytes, material: Material, rng: random.Random) -> bytes:
    start, end = _part(data, rng)
    rest = data[:start] + data[end:]
    at = rng.randrange(len(rest) + 1)
    return rest[:at] + data[start:end] + rest[at:]


def _truncate(data: bytes, material: Material, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _splice(data: bytes, material: Material, rng: random.Random) -> bytes:
    other = rng.choice(material.corpus)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _lie_about_a_number(data: bytes, material: Material, rng: random.Random) -> bytes:
    numbers = list(_NUMBER.finditer(data))
    if not numbers:
        return data
    found = rng.choice(numbers)
    nearby = [b"%d" % max(0, int(found.group()[:18]) + step) for step in (-2, -1, 1, 2, 100)]
    lie = rng.choice(nearby + INTERESTING_NUMBERS)
    return data[: found.start()] + lie + data[found.end() :]


MUTATIONS = [
    _flip_bit,
    _replace_byte,
    _insert_bytes,
    _insert_token,
    _delete_part,
    _duplicate_part,
    _move_part,
    _truncate,
    _splice,
    _lie_about_a_number,
]


def _repeat(part: bytes, rng: random.Random) -> bytes:
    most = LONGEST_INPUT // max(1, len(part)) + 1
    return part * min(most, rng.choice(REPEATS))


def _line_start(data: bytes, rng: random.Random) -> int:
    starts = [0] + [i + 1 for i, byte in enumerate(data) if byte == 10]
    return rng.choice(starts)


def _part(data: bytes, rng: random.Random) -> List[int]:
    """The start and the end of a part of the data: half of the time, some whole lines."""
    if rng.random() < 0.5:
        start = end = _line_start(data, rng)
        for _ in range(rng.choice([1, 1, 2, 3])):
            end = data.find(b"\n", end) + 1 or len(data)
        return [start, end]
    return sorted([rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)])


def minimise(data: bytes, fails: Callable[[bytes], bool], seconds: float) -> bytes:
    """The data without the parts that the failure does not need, as far as the time goes."""
    give_up_at = time.monotonic() + seconds
    size = len(data) // 2
    while size >= 1:
        at = 0
        while at < len(data) and time.monotonic() < give_up_at:
            shorter = data[:at] + data[at + size :]
            if fails(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data
