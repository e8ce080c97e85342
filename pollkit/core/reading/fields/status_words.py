"""The meaning of status words: done, failed, pending, or unknown.

House rules: case and separators do not matter ('In Progress', 'in-progress', 'IN_PROGRESS' and
'InProgress' are one word). A word that only may lead to an end ('cancelling', 'retry') means
pending.

A word is literal if it is in the table as the server sent it, apart from case and separators. Only
a literal word may be shown and stored unchanged. Any other word is untrusted text, even if its
meaning is known: everything before 'state_' is ignored, so 'SECRETstate_running' means pending.
"""

from sys import intern
from typing import Any, FrozenSet, Iterable, Optional, Tuple

from ...model import one_line

LONGEST_WORD = 60  # characters of a word that are stored; Python 3.12 never frees an interned one
LONGEST_KNOWN = 200  # characters; a longer word is unknown, unless a profile names one that long

DONE: FrozenSet[str] = frozenset(
    """
    done completed complete success succeeded successful successfully finished finish ready ok
    passed ended available processed resolved fulfilled
    """.split()
)
FAILED: FrozenSet[str] = frozenset(
    """
    failed failure fail error errored cancelled canceled aborted expired dismissed revoked stopped
    timeout timedout terminated killed rejected crashed dead deleted invalid unsuccessful
    upstreamfailed nodefail outofmemory
    """.split()
)
PENDING: FrozenSet[str] = frozenset(
    """
    pending queued queueing queuing enqueued waiting wait running run processing process started
    starting start inprogress progress active working created new submitted accepted received
    scheduled validating validated finalizing finalising preparing initializing initialising
    generating rendering uploading downloading executing cancelling canceling cancelrequested
    stopping aborting terminating retry retrying upforretry upforreschedule deferred paused
    suspended notstarted delayed assigned throttled transcoding training updating creating deleting
    resuming held blocked idle sent
    """.split()
)


def parse_word(value: Any) -> Optional[str]:
    """A field's value as a status word; None if it can't be one."""
    if isinstance(value, str):
        word = value.strip()
        if len(word) <= LONGEST_WORD:
            word = intern(word)  # one copy for 100,000 jobs with the same status
        return word or None
    if isinstance(value, int):  # also True and False
        return str(value).lower()
    return None


def flatten_word(word: str) -> str:
    """An untrusted status word on one line, truncated."""
    flat = one_line(word[: 10 * LONGEST_WORD], LONGEST_WORD)
    return word if flat == word else flat  # keep the interned copy


def normalize_word(word: str) -> str:
    """The form in which words are compared: 'JOB_STATE_SUCCEEDED' becomes 'succeeded'."""
    return _remove_separators(word.strip().lower().rpartition("state_")[2])


def _remove_separators(word: str) -> str:
    return word.replace("_", "").replace("-", "").replace(" ", "")


class StatusWords:
    """The meaning of the status words of one API.

    If a profile lists its words for a meaning, only these have that meaning. The usual words serve
    the other meanings, unless the profile gives them another one.
    """

    __slots__ = ("_meanings", "_longest")

    def __init__(
        self,
        done: Optional[Iterable[str]] = None,
        failed: Optional[Iterable[str]] = None,
        pending: Optional[Iterable[str]] = None,
    ) -> None:
        listed = {"pending": pending, "failed": failed, "done": done}
        usual = {"pending": PENDING, "failed": FAILED, "done": DONE}
        meanings = {"true": "done", "false": "pending"}
        for meaning, words in usual.items():
            if listed[meaning] is None:
                meanings.update(dict.fromkeys(words, meaning))
        own = [(word, meaning) for meaning in listed for word in listed[meaning] or ()]
        for word, meaning in own:
            meanings[normalize_word(word)] = meaning
        for word, meaning in own:  # JOB_STATE_SUCCEEDED is literal, too, if it is listed in full
            meanings.setdefault(_remove_separators(word.strip().lower()), meaning)
        self._meanings = meanings
        self._longest = max([LONGEST_KNOWN] + [len(word) for word, _ in own])

    def meaning(self, word: str) -> Optional[str]:
        """'done', 'failed' or 'pending'; None for an unknown word."""
        return self._meanings.get(word) or self.look_up(word)[0]

    def look_up(self, word: str) -> Tuple[Optional[str], bool]:
        """The meaning of a word, as `meaning` returns it, and whether the word is literal."""
        meaning = self._meanings.get(word)
        if meaning is not None:
            return meaning, True
        if len(word) > self._longest:
            return None, False
        if len(word) <= LONGEST_WORD:
            meaning = self._meanings.get(_remove_separators(word.lower()))
            if meaning is not None:
                return meaning, True
        return self._meanings.get(normalize_word(word)), False
