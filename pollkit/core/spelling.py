"""Which known name a misspelled or abbreviated one probably means."""

from typing import Iterable, Optional

SIMILAR = 0.7  # difflib's ratio: two letters swapped in a word of four, or two wrong ones in seven
SHORTEST_ABBREVIATION = 3


def similar_name(name: str, known: Iterable[str]) -> Optional[str]:
    """The known name that `name` abbreviates or misspells; None if none is near.

    Hyphens at the start don't count, or two short flags would be similar because of them.

    >>> similar_name("--timout", ["--timeout", "--limit"])
    '--timeout'
    """
    import difflib  # late: only errors need it

    word = name.lstrip("-").lower()
    words = {one.lstrip("-").lower(): one for one in known}
    longer = [one for one in words if one.startswith(word)]
    if longer and len(word) >= SHORTEST_ABBREVIATION:
        return words[longer[0]]
    close = difflib.get_close_matches(word, list(words), 1, SIMILAR)
    return words[close[0]] if close else None
