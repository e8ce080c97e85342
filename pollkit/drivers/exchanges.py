"""What a batch hands from one of its parts to the next: ways of asking, and what came of it."""
from typing import List, NamedTuple

from ..core.agenda import Lane, Step
from ..core.machine import Rules
from ..core.reading import Reading
from .asking import Manner


class Stats(NamedTuple):
    """What a batch has asked so far, counted in exchanges."""

    polls: int = 0
    faults: int = 0
    rate_limited: int = 0


class Polled(NamedTuple):
    """An exchange that is over, and what it changed."""

    steps: List[Step]
    readings: List[Reading]
    heard: Reading
    at: float


class Way(NamedTuple):
    """How some jobs are asked about, and under which limit."""

    manner: Manner
    home: str         # the origin that credentials belong to
    is_many: bool     # one exchange asks about many of them
    lane: Lane
    rules: Rules
