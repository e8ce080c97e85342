"""What the words of job APIs mean: done, failed, pending, or unknown.

House rules: a word counts in any case and however it is joined ('In Progress', 'in-progress',
'IN_PROGRESS', 'InProgress' are one word). A word that only may lead to an end ('cancelling',
'retry') is no end.
"""
from typing import FrozenSet, Iterable, Optional

DONE: FrozenSet[str] = frozenset((
    "done completed complete success succeeded successful successfully finished finish ready "
    "ok passed ended available processed resolved fulfilled").split())
FAILED: FrozenSet[str] = frozenset((
    "failed failure fail error errored cancelled canceled aborted expired dismissed "
    "revoked stopped timeout timedout terminated killed rejected crashed dead deleted invalid "
    "unsuccessful upstreamfailed nodefail outofmemory").split())
PENDING: FrozenSet[str] = frozenset((
    "pending queued queueing queuing enqueued waiting wait running run processing process started "
    "starting start inprogress progress active working created new submitted accepted received "
    "scheduled validating validated finalizing finalising preparing initializing initialising "
    "generating rendering uploading downloading executing cancelling canceling cancelrequested "
    "stopping aborting terminating retry retrying upforretry upforreschedule deferred "
    "paused suspended notstarted delayed assigned throttled transcoding training updating creating "
    "deleting resuming held blocked idle sent").split())


LONGEST = 500  # characters; a longer text is no status that anybody has listed


def normal(word: str) -> str:
    """A word as it is compared: 'JOB_STATE_SUCCEEDED' and 'Succeeded' are both 'succeeded'."""
    word = word.strip().lower()
    if "state_" in word:
        word = word.rpartition("state_")[2]
    return word.replace("_", "").replace("-", "").replace(" ", "")


class Words:
    """The meaning of status words for one API; its own words stand before the common ones."""

    __slots__ = ("_meanings",)

    def __init__(self, done: Optional[Iterable[str]] = None, failed: Optional[Iterable[str]] = None,
                 pending: Optional[Iterable[str]] = None) -> None:
        # An API that names its words of one kind means just those; the common words then serve
        # the other kinds only, and never contradict one that was named.
        meanings = {"true": "done", "false": "pending"}
        for meaning, own, common in (("pending", pending, PENDING), ("failed", failed, FAILED),
                                     ("done", done, DONE)):
            for word in (common if own is None else ()):
                meanings[word] = meaning
        for meaning, own in (("pending", pending), ("failed", failed), ("done", done)):
            for word in own or ():
                meanings[normal(word)] = meaning
        self._meanings = meanings

    def meaning(self, word: str) -> Optional[str]:
        """'done', 'failed', 'pending', or None for a word nobody has heard of."""
        if len(word) > LONGEST:
            return None
        return self._meanings.get(word) or self._meanings.get(normal(word))
