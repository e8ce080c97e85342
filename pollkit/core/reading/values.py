"""Single values as replies write them: a status word, an amount, a progress."""

from sys import intern
from typing import Any, Optional

from ..model import one_line

LONGEST_WORD = 60  # that is interned: Python 3.12 never lets go of one; and that is stored


def parse_word(value: Any) -> Optional[str]:
    """A status word."""
    if isinstance(value, str):
        word = value.strip()
        return (
            intern(word) if len(word) <= LONGEST_WORD else word
        ) or None  # one for all 100,000 jobs that say so
    return str(value).lower() if isinstance(value, int) else None  # also True and False


def flat_word(word: str) -> str:
    """Return an untrusted status word on one line, and truncated."""
    flat = one_line(word[: 10 * LONGEST_WORD], LONGEST_WORD)
    return word if flat == word else flat  # keep the interned one


def parse_fraction(value: Any) -> Optional[float]:
    """A progress as a fraction: '45%' and 45 are percents, and so is any number above 1."""
    if isinstance(value, str):
        amount = parse_amount(value.strip().rstrip("%"))
        return (
            None
            if amount is None
            else min(1.0, amount / 100 if "%" in value or amount > 1 else amount)
        )
    amount = parse_amount(value)
    if amount is None:
        return None
    # A whole number counts in percent: 1 is the first of a hundred far more often than the end.
    return min(1.0, amount / 100 if isinstance(value, int) or amount > 1 else amount)


def parse_amount(value: Any) -> Optional[float]:
    """A number, or text that is one; None for what is negative or absurd."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        amount = float(value)
    except (ValueError, OverflowError):
        return None
    return amount if 0 <= amount < 1e15 else None  # also false for nan
