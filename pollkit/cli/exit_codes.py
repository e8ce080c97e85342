"""Exit codes: what they mean, and which one a list of outcomes has."""

from typing import Iterable

from ..core.model import State

ALL_DONE, FAILED, USAGE, TIMED_OUT, UNREACHABLE, WAITING = 0, 1, 2, 3, 4, 5
NOBODY_READS, INTERRUPTED, TERMINATED = 141, 130, 143

# What counts most comes first: a job that failed, before one that nobody could ask about.
_CODES = (
    (State.FAILED, FAILED),
    (State.UNREACHABLE, UNREACHABLE),
    (State.TIMED_OUT, TIMED_OUT),
    (State.CANCELLED, TIMED_OUT),
)
_ORDER = (TERMINATED, INTERRUPTED, NOBODY_READS, USAGE, FAILED, UNREACHABLE, TIMED_OUT)


def exit_code(states: Iterable[State]) -> int:
    """The exit code for jobs that ended so."""
    ended = set(states)
    return next((code for state, code in _CODES if state in ended), ALL_DONE)


def combine_exit_codes(codes: Iterable[int]) -> int:
    """The exit code for processes that ended with these."""
    found = set(codes)
    return next((code for code in _ORDER if code in found), ALL_DONE)
