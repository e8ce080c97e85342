"""The exit codes, and which one applies to several jobs or processes."""

from typing import Iterable

from ..core.model import State

ALL_DONE = 0
FAILED = 1
USAGE = 2
TIMED_OUT = 3
UNREACHABLE = 4
WAITING = 5
INTERRUPTED = 130
OUTPUT_CLOSED = 141
TERMINATED = 143

# If several apply, the first one counts.
_STATE_CODES = (
    (State.FAILED, FAILED),
    (State.UNREACHABLE, UNREACHABLE),
    (State.TIMED_OUT, TIMED_OUT),
    (State.CANCELLED, TIMED_OUT),
)
_PROCESS_CODES = (TERMINATED, INTERRUPTED, OUTPUT_CLOSED, USAGE, FAILED, UNREACHABLE, TIMED_OUT)


def exit_code(states: Iterable[State]) -> int:
    """The exit code for jobs that finished in these states."""
    present = set(states)
    return next((code for state, code in _STATE_CODES if state in present), ALL_DONE)


def combine_exit_codes(codes: Iterable[int]) -> int:
    """The exit code of a command whose processes exited with these codes."""
    present = set(codes)
    return next((code for code in _PROCESS_CODES if code in present), ALL_DONE)
