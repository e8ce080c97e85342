"""Checks of any parser that takes bytes as they arrive: whole and in pieces, time and memory."""

import random
import time
import tracemalloc
from typing import Any, Callable, Iterable, List, Tuple

from .common import Violation

MOST_MEMORY = 256 * 1024  # bytes; a parser without limits would take 4 MB for a gzip bomb
MOST_CPU_S = 0.05  # per input, and for each byte of it (it takes about 3 us):
MOST_CPU_PER_BYTE_S = 0.0001

# Parses pieces; a summary of the outcome, and what must be the same for any pieces.
Parse = Callable[[List[bytes]], Tuple[str, Any]]


def check_in_pieces(parse: Parse, data: bytes, rng: random.Random, is_thorough: bool) -> str:
    """Parse the data whole and cut in several ways; a summary of the outcome, or a Violation."""
    started_at = time.process_time()
    whole = parse([data])
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice([1, 1, 2, 5, 20])))
    _compare(whole, parse(_pieces(data, cuts)), cuts)
    if is_thorough or rng.random() < 0.2:
        _compare(whole, parse(_pieces(data, range(len(data)))), "every byte")
    _check_time(parse, data, time.process_time() - started_at)
    if is_thorough or rng.random() < 0.02:
        _check_memory(parse, data)
    return whole[0]


def _pieces(data: bytes, cuts: Iterable[int]) -> List[bytes]:
    places = [0] + list(cuts) + [len(data)]
    return [data[start:end] for start, end in zip(places, places[1:])]


def _compare(whole: Tuple[str, Any], other: Tuple[str, Any], cuts: object) -> None:
    if whole != other:
        raise Violation("whole and in pieces differ: %r and %r, cut at %s" % (whole, other, cuts))


def _check_time(parse: Parse, data: bytes, took_s: float) -> None:
    allowed_s = MOST_CPU_S + MOST_CPU_PER_BYTE_S * len(data)
    if took_s <= allowed_s:
        return
    # Once more, in case the garbage collector or another process was the reason.
    started_at = time.process_time()
    parse([data])
    parse(_pieces(data, range(len(data))))
    again_s = time.process_time() - started_at
    if again_s > allowed_s:
        raise Violation("%d bytes took %.2f s of CPU time" % (len(data), again_s))


def _check_memory(parse: Parse, data: bytes) -> None:
    tracemalloc.start()
    try:
        parse([data])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > MOST_MEMORY + 8 * len(data):
        raise Violation("%d bytes took %d kB of memory" % (len(data), peak // 1024))
