"""The interface of a target."""

import random
from typing import Callable, NamedTuple, Sequence


class Violation(Exception):
    """An input for which the target breaks a promise."""


class Target(NamedTuple):
    """Something to fuzz.

    `check` takes an input, a source of random numbers, and whether to be thorough: to make every
    check, also those that are too slow for each input. It returns a short summary of the outcome;
    inputs with a new outcome are changed further. It raises Violation; any other exception is a
    failure, too.
    """

    help: str
    corpus: Sequence[bytes]  # inputs to begin with
    tokens: Sequence[bytes]  # parts of inputs that mean something
    prepare: Callable[[], None]
    check: Callable[[bytes, random.Random, bool], str]
