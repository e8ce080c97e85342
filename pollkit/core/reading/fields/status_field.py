"""Find the field of a reply that holds the job's status.

If the profile names the field, only that field counts. Otherwise the usual paths are tried in
order (conventions.STATUS_PATHS); a known word takes precedence over an unknown one.

Envelopes. Many APIs wrap every reply, and the status on the top level (`success`, `ok`, `true`)
only means that the call worked. To read such a word as the job's own status would report a job as
done that is still running. So it counts only if no field inside looks like a status (these fields
are the candidates: see `status_candidates`). Inside an envelope:

  1. A usual path decides if its word means pending or failed, or is unknown.
  2. Otherwise the nearest level that has candidates decides; deeper levels are ignored. An
     unknown word on the top level decides only if there is no candidate inside: in
     {"status": "ok", "phase": "ORDERED"} the phase is the job's status.
  3. Within one object: pending, then failed, then done, then unknown.
  4. Between the objects of one level: pending, then unknown (which counts as pending), then
     failed, then done. So a level counts as done only if all of its objects do.
  5. Among equals the first one decides.

A top level that also has the time when the job finished (`finished_at`, `end_date`) is the job
itself, not an envelope, and its `success` counts: a GitLab pipeline, for example, has a user whose
state is "active".
"""

from itertools import chain, islice
from sys import intern
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from . import conventions
from .json_paths import Path
from .status_candidates import Candidate, is_envelope_word, search_levels
from .status_words import StatusWords, parse_word
from .timestamps import parse_timestamp

MOST_LISTED = 20

_TOP_PATHS = tuple(path for path in conventions.STATUS_PATHS if "." not in path.text)
_INNER_PATHS = tuple(path for path in conventions.STATUS_PATHS if "." in path.text)
_FINISHED_PATHS = tuple(
    path for path in conventions.FINISHED_PATHS if "." not in path.text
) + tuple(map(Path, "date_done finishTime finish_time complete_time stopped_at".split()))

# The smallest rank decides: rules 3 and 4.
_RANK_IN_OBJECT: Dict[Optional[str], int] = {"pending": 0, "failed": 1, "done": 2, None: 3}
_RANK_IN_LEVEL: Dict[Optional[str], int] = {"pending": 0, None: 1, "failed": 2, "done": 3}

_Found = Tuple[str, str]  # a status word and its path


class StatusFinder:
    """Finds the status in the replies of one API."""

    __slots__ = ("_path", "_words", "known_paths", "is_guess")

    def __init__(self, named: Optional[str], words: StatusWords) -> None:
        self._path = None if named is None else Path(named)
        self._words = words
        self.is_guess = self._path is None
        # These paths quote nothing from a reply. The path is empty if the reply itself is the word.
        paths = conventions.STATUS_PATHS if self._path is None else (self._path,)
        self.known_paths = frozenset([""] + [path.text for path in paths])

    def find(self, data: Any) -> Tuple[Optional[str], str]:
        """The status word and its path; the word is None if there is none."""
        if isinstance(data, str):
            return parse_word(data), ""
        if self._path is not None:
            return parse_word(self._path.find(data)), self._path.text
        return self._guess(data) or (None, "")

    def list_candidates(self, data: Any) -> List[Candidate]:
        """The fields that may be the status, nearest first, if it is uncertain which one is.

        That is if no status was found, or if it is inside an envelope. If no key is that of a
        status, the fields with a known status word are listed. Only paths that a profile can name
        are listed.
        """
        word, _ = self.find(data)
        is_certain = not self.is_guess or not _has_envelope_word(data) or _has_finish_time(data)
        if word is not None and is_certain:
            return []
        listed = self._list_candidates(data, any_key=False)
        if word is None and not listed:
            listed = self._list_candidates(data, any_key=True)
        return [] if all(one.is_envelope for one in listed) else listed

    def _list_candidates(self, data: Any, any_key: bool) -> List[Candidate]:
        levels = search_levels(data, self._words, any_key)
        candidates = (one for level in levels for group in level for one in group)
        return list(islice((one for one in candidates if one.can_be_named), MOST_LISTED))

    def _guess(self, data: Any) -> Optional[_Found]:
        envelope = None
        unknown = []
        for found in _words_at(_TOP_PATHS, data):
            word, path = found
            if _may_be_envelope(word, path):
                envelope = envelope or found
            elif self._words.meaning(word) is not None:
                return found
            else:
                unknown.append(found)
        if envelope is not None:
            return self._find_in_envelope(data) or envelope
        return self._first_known(chain(unknown, _words_at(_INNER_PATHS, data)))

    def _first_known(self, words: Iterable[_Found]) -> Optional[_Found]:
        """The first known word; the first one if none is known."""
        first = None
        for found in words:
            if self._words.meaning(found[0]) is not None:
                return found
            first = first or found
        return first

    def _find_in_envelope(self, data: Any) -> Optional[_Found]:
        usual = self._first_known(_words_at(_INNER_PATHS, data))
        if usual is not None and self._words.meaning(usual[0]) != "done":
            return usual  # rule 1
        decisive = None if _has_finish_time(data) else self._decisive_candidate(data)
        if decisive is None:
            return usual
        return intern(decisive.word), decisive.shown_path

    def _decisive_candidate(self, data: Any) -> Optional[Candidate]:
        """The candidate on the nearest level: rule 2."""
        at_top = None
        for depth, level in enumerate(search_levels(data, self._words)):
            decisive = self._decisive_in_level(level)
            if decisive is None:
                continue
            if depth > 0 or self._words.meaning(decisive.word) is not None:
                return decisive
            at_top = decisive
        return at_top

    def _decisive_in_level(self, level: List[List[Candidate]]) -> Optional[Candidate]:
        """The candidate that decides for one level, which has a list per object: rules 3 to 5."""
        of_objects = []
        for group in level:
            candidates = [one for one in group if not one.is_envelope]
            if candidates:
                of_objects.append(self._first_by(_RANK_IN_OBJECT, candidates))
        return self._first_by(_RANK_IN_LEVEL, of_objects) if of_objects else None

    def _first_by(self, ranks: Dict[Optional[str], int], candidates: List[Candidate]) -> Candidate:
        """The first candidate whose meaning has the smallest rank."""
        return min(candidates, key=lambda one: ranks[self._words.meaning(one.word)])


def _words_at(paths: Iterable[Path], data: Any) -> Iterator[_Found]:
    """Yield the status words at some paths, each with its path."""
    for path in paths:
        value = path.find(data)
        # A number such as in {"status": 200} is the HTTP status, not the job's.
        word = None if type(value) is int else parse_word(value)
        if word is not None:
            yield word, path.text


def _may_be_envelope(word: str, path: str) -> bool:
    return path != "done" and is_envelope_word(word)


def _has_envelope_word(data: Any) -> bool:
    return any(_may_be_envelope(word, path) for word, path in _words_at(_TOP_PATHS, data))


def _has_finish_time(data: Any) -> bool:
    """Whether the top level has the time when the job finished: then it is the job itself."""
    return any(parse_timestamp(path.find(data)) is not None for path in _FINISHED_PATHS)
