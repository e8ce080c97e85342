"""scripts/deflate.py writes streams that zlib reads, and the same bytes on each Python."""

import hashlib
import os
import random
import zlib

import pytest

from paths import ROOT


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "scripts"))
    import deflate

    return deflate


def inflate(stream):
    """The data of a raw stream, which must be complete and have nothing after its end."""
    reader = zlib.decompressobj(-15)
    data = reader.decompress(stream)
    assert reader.eof
    assert reader.unused_data == b""
    return data


def fibonacci(count):
    numbers = [1, 1]
    while len(numbers) < count:
        numbers.append(numbers[-1] + numbers[-2])
    return numbers[:count]


def kraft_sum(lengths):
    """1 for a complete code: each sequence of bits has a meaning, and only one."""
    return sum(2.0**-length for length in lengths if length)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a",
        b"ab",
        b"abc",
        b"aaaa",
        b"abcabc",
        bytes(range(256)),
        b"x" * 257,
        b"x" * 258,
        b"x" * 259,
        b"x" * 260,
        b"x" * 261,
        b"x" * 10000,
        bytes(range(256)) * 20,
        b"far" + bytes(32765) + b"far",
        b"far" + bytes(32766) + b"far",
        b"abcde bcdef abcdef",
        b"".join(b"%d " % (i * i) for i in range(3000)),
        bytes(random.Random(1).choices(range(256), k=20000)),
        bytes(random.Random(2).choices(b"ab", k=20000)),
    ],
    ids=lambda data: "%d bytes" % len(data),
)
def test_zlib_decompresses_it_to_the_same_data(module, data):
    assert inflate(module.deflate(data)) == data


@pytest.mark.parametrize("size", [3, 200, 1499, 1500, 1501])
def test_zlib_reads_several_blocks_and_matches_with_earlier_ones(module, monkeypatch, size):
    monkeypatch.setattr(module, "BLOCK_SIZE", size)
    data = b"".join(b"%d " % (i * i % 89) for i in range(600))[:1500]
    stream = module.deflate(data)
    assert inflate(stream) == data
    assert size == 3 or len(stream) < len(data) / 2


def encode_match(module, before, length, distance):
    """The data of the two kinds of block with some literals and a match."""
    symbols = [(byte, "") for byte in before]
    symbols += [module._LENGTHS[length], module._DISTANCES[distance], (module.END_OF_BLOCK, "")]
    return [
        inflate(module._pack(module._fixed_block(symbols, True))),
        inflate(module._pack(module._dynamic_block(symbols, True))),
    ]


def test_zlib_reads_every_length_of_a_match(module):
    for length in range(3, 259):
        assert encode_match(module, b"a", length, 1) == [b"a" * (length + 1)] * 2


def test_zlib_reads_distances_around_each_power_of_two(module):
    powers = [1 << exponent for exponent in range(2, 16)]
    for distance in [near for power in powers for near in (power - 1, power, power + 1)][:-1]:
        before = b"abc" + bytes(distance - 3)
        assert encode_match(module, before, 3, distance) == [before + b"abc"] * 2


def test_source_code_is_compressed_to_less_than_two_fifths(module):
    folder = os.path.join(ROOT, "pollkit", "core")
    before = 0
    after = 0
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            stream = module.deflate(data)
            assert inflate(stream) == data
            before += len(data)
            after += len(stream)
    assert 0 < after < before * 0.4


def test_short_data_uses_the_fixed_codes_and_long_data_its_own(module):
    def block_type(stream):
        return stream[0] >> 1 & 3

    assert block_type(module.deflate(b"short")) == 1
    assert block_type(module.deflate(b"".join(b"%d " % (i * i) for i in range(3000)))) == 2


@pytest.mark.parametrize("limit, count", [(15, 24), (7, 19)])
def test_no_code_is_longer_than_the_limit(module, limit, count):
    """Counts like the Fibonacci numbers make the longest codes."""
    counts = fibonacci(count)
    unlimited = module._code_lengths(counts, count)
    assert max(unlimited) == count - 1
    lengths = module._code_lengths(counts, limit)
    assert max(lengths) == limit
    assert min(lengths) > 0
    assert kraft_sum(lengths) == kraft_sum(unlimited) == 1


def test_zlib_reads_a_block_whose_codes_reach_the_limit(module):
    counts = fibonacci(22)  # the first is that of the end of the block
    data = b"".join(bytes([byte]) * count for byte, count in enumerate(counts[1:]))
    assert max(module._code_lengths(counts, 30)) == 21
    symbols = [(byte, "") for byte in data] + [(module.END_OF_BLOCK, "")]
    assert inflate(module._pack(module._dynamic_block(symbols, True))) == data


def test_the_code_lengths_are_those_of_huffman_if_they_are_below_the_limit(module):
    assert module._code_lengths([5, 0, 9, 12, 13, 16, 45], 15) == [4, 0, 4, 3, 3, 3, 1]
    assert module._code_lengths([0, 7], 15) == [0, 1]
    assert module._code_lengths([0, 0], 15) == [0, 0]


def test_the_codes_are_those_of_the_example_in_the_rfc(module):
    """RFC 1951, 3.2.2."""
    assert module._codes([3, 3, 3, 3, 3, 2, 4, 4]) == (
        ["010", "011", "100", "101", "110", "00", "1110", "1111"]
    )


@pytest.mark.parametrize(
    "lengths, numbers",
    [
        ([5, 5, 5], [5, 5, 5]),
        ([5] * 4, [5, 16]),
        ([5] * 8, [5, 16, 5]),
        ([0] * 2, [0, 0]),
        ([0] * 10, [17]),
        ([0] * 11, [18]),
        ([0] * 138, [18]),
        ([0] * 141, [18, 17]),
        ([0] * 3 + [4] * 5 + [0], [17, 4, 16, 0]),
    ],
)
def test_equal_code_lengths_become_runs(module, lengths, numbers):
    """RFC 1951, 3.2.7."""
    assert [number for number, _ in module._join_runs(lengths)] == numbers


def test_every_python_version_makes_the_same_stream(module):
    """The tests run on each version, so the hash is compared with a constant."""
    data = "".join("%d: %d\n" % (i, i * i % 97) for i in range(2000)).encode()
    assert hashlib.sha256(module.deflate(data)).hexdigest() == (
        "3f4da0ce7eb6fe9ea7fd3b2b524a59b78afc56f5b3cd2b89749a5616f59f08f3"
    )
