"""What the words of job APIs mean: done, failed, pending, or unknown.

House rules: a word counts in any case and however it is joined ('In Progress', 'in-progress',
'IN_PROGRESS', 'InProgress' are one word). A word that only may lead to an end ('cancelling',
'retry') is no end.

A word is literal if it is in the table as it was sent, apart from case and joints. Only a literal
word may be shown and stored as it is. Any other word is untrusted text, even if its meaning is
known: everything before 'state_' is ignored, so 'SECRETstate_running' means pending.
"""

from typing import FrozenSet, Iterable, Optional, Tuple

from .values import LONGEST_WORD

LONGEST_KNOWN = 200  # characters; a longer word is unknown, unless a profile names one that long

DONE: FrozenSet[str] = frozenset(
    (
        "done completed complete success succeeded successful successfully finished finish ready "
        "ok passed ended available processed resolved fulfilled"
    ).split()
)
FAILED: FrozenSet[str] = frozenset(
    (
        "failed failure fail error errored cancelled canceled aborted expired dismissed "
        "revoked stopped timeout timedout terminated killed rejected crashed dead deleted invalid "
        "unsuccessful upstreamfailed nodefail outofmemory"
    ).split()
)
PENDING: FrozenSet[str] = frozenset(
    (
        "pending queued queueing queuing enqueued waiting wait running run processing process started "
        "starting start inprogress progress active working created new submitted accepted received "
        "scheduled validating validated finalizing finalising preparing initializing initialising "
        "generating rendering uploading downloading executing cancelling canceling cancelrequested "
        "stopping aborting terminating retry retrying upforretry upforreschedule deferred "
        "paused suspended notstarted delayed assigned throttled transcoding training updating creating "
        "deleting resuming held blocked idle sent"
    ).split()
)


def normalize_word(word: str) -> str:
    """A word as it is compared: 'JOB_STATE_SUCCEEDED' and 'Succeeded' are both 'succeeded'."""
    word = word.strip().lower()
    if "state_" in word:
        word = word.rpartition("state_")[2]
    return _without_joints(word)


def _without_joints(word: str) -> str:
    return word.replace("_", "").replace("-", "").replace(" ", "")


class StatusWords:
    """The meaning of status words for one API; its own words stand before the common ones."""

    __slots__ = ("_meanings", "_longest")

    def __init__(
        self,
        done: Optional[Iterable[str]] = None,
        failed: Optional[Iterable[str]] = None,
        pending: Optional[Iterable[str]] = None,
    ) -> None:
        # An API that names its words of one kind means just those; the common words then serve
        # the other kinds only, and never contradict one that was named.
        meanings = {"true": "done", "false": "pending"}
        for meaning, own, common in (
            ("pending", pending, PENDING),
            ("failed", failed, FAILED),
            ("done", done, DONE),
        ):
            for word in common if own is None else ():
                meanings[word] = meaning
        own_by_meaning = (("pending", pending), ("failed", failed), ("done", done))
        own_words = [(word, meaning) for meaning, own in own_by_meaning for word in own or ()]
        for word, meaning in own_words:
            meanings[normalize_word(word)] = meaning
        for word, meaning in own_words:  # JOB_STATE_SUCCEEDED, if named in full, is literal, too
            meanings.setdefault(_without_joints(word.strip().lower()), meaning)
        self._meanings = meanings
        self._longest = max([LONGEST_KNOWN] + [len(word) for word, _ in own_words])

    def meaning(self, word: str) -> Optional[str]:
        """'done', 'failed', 'pending', or None for a word nobody has heard of."""
        return self._meanings.get(word) or self.look_up(word)[0]

    def look_up(self, word: str) -> Tuple[Optional[str], bool]:
        """Return the meaning of a word, as `meaning` does, and whether the word is literal."""
        meaning = self._meanings.get(word)
        if meaning is not None:
            return meaning, True
        if len(word) > self._longest:
            return None, False
        if len(word) <= LONGEST_WORD:
            meaning = self._meanings.get(_without_joints(word.lower()))
            if meaning is not None:
                return meaning, True
        return self._meanings.get(normalize_word(word)), False
