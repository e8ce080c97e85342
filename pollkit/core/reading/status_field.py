"""Find the field of a reply that holds the job's status.

If the profile names the field, only that field counts. Otherwise the common places are tried in
order (places.STATUS_PLACES); a known word beats an unknown one.

Envelopes. Many APIs wrap every reply, and the top-level status (`success`, `ok`, `true`) only says
that the call worked. To read such a word as the job's own would report a job as done that still
runs. So an envelope word counts only if no field inside the envelope looks like a status:

  key     status, state, phase, stage, lifecycle, or anything that ends in _status or _state,
          in any case, also in camelCase (jobStatus) and with dashes (job-status)
  value   a string that is a single word, or one of the known words ("In Progress")
          A field `done` counts, too, if it is false
  place   one to four objects deep, not inside `result`, `output`, `response` or an address; a
          list adds no depth, and all objects in it are searched. An unknown `state` beside a
          city, a street or a postal code is part of an address, too
  top     on the top level itself, the five plain keys and the common places are searched: in
          {"status": "ok", "phase": "ORDERED"} the phase is the job's status

Which candidate decides:

  1. A common place inside the envelope decides if its word is pending, failed or unknown.
  2. Otherwise the nearest level that has candidates decides; deeper levels are ignored. An
     unknown word on the top level decides only if there is no candidate inside.
  3. Within one object: pending, then failed, then done, then unknown.
  4. Between the objects of one level: pending, then unknown (which counts as pending), then
     failed, then done. So a level counts as done only if all of its objects do.
  5. Among equals the first one decides, in the order of the reply, objects before lists.
     What has more than LARGE fields or elements comes last.

A top level that also says when the job finished (`finished_at`, `end_date`) is the job itself, and
its `success` counts: a GitLab pipeline, for example, has a user whose state is "active".

Each level is searched up to MOST_VALUES values. Because large objects and lists come last, they
can't use up this number before the job beside them is reached.
"""

import re
from itertools import islice
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ..model import one_line
from . import conventions as places
from . import headers as hints
from .json_paths import Path
from .status_words import StatusWords
from .values import LONGEST_WORD, parse_word

DEEPEST_LEVEL = 4
MOST_VALUES = 20000  # per level; searching them takes less time than decoding them did
LARGE = 1000
MOST_LISTED = 20
_LONGEST_KEY = 100  # characters; a longer key names no status
_LONGEST_PLACE = 120  # characters of a path that are shown

_KEYS = frozenset(("status", "state", "phase", "stage", "lifecycle"))
_ENDINGS = ("_status", "_state", "-status", "-state")
_CAMEL_ENDINGS = ("Status", "State")
_TOP_KEYS = _KEYS.union(
    path.text.lower() for path in places.STATUS_PLACES if "." not in path.text
) - {"done"}
_NOT_SEARCHED = frozenset(("result", "output", "response"))
_POSTAL = frozenset("city town street zip zipcode zip_code postcode postalcode postal_code".split())
_SINGLE_WORD = re.compile(r"[^\W\d_][\w.!-]*")  # begins with a letter
_END_TIMES = tuple(path for path in places.FINISHED_PLACES if "." not in path.text) + tuple(
    map(Path, "end_date date_done finishTime finish_time complete_time stopped_at".split())
)

# Smaller decides; see rules 3 and 4.
_RANK_IN_OBJECT: Dict[Optional[str], int] = {"pending": 0, "failed": 1, "done": 2, None: 3}
_RANK_IN_LEVEL: Dict[Optional[str], int] = {"pending": 0, None: 1, "failed": 2, "done": 3}

_Found = Tuple[Optional[str], str]  # a status word and its path
_Part = Tuple[Tuple[str, ...], Any]  # the steps that lead to an object or list, and it


class Candidate(NamedTuple):
    """A field that looks like a status; `steps` are the keys and indexes that lead to it."""

    steps: Tuple[str, ...]
    word: str

    @property
    def path(self) -> str:
        """The path as a profile has it."""
        return ".".join(self.steps)

    @property
    def can_be_named(self) -> bool:
        """Whether a profile can name the path: there is no way to quote a key."""
        if sum(map(len, self.steps)) > _LONGEST_PLACE:
            return False
        is_plain = all(step and "." not in step and "|" not in step for step in self.steps)
        return is_plain and self.path == _shown_path(self)

    @property
    def is_envelope(self) -> bool:
        """Whether it may only say that the call worked."""
        return len(self.steps) == 1 and _is_envelope_word(self.word)

    def __str__(self) -> str:
        return '%s "%s"' % (self.path, self.word)


class StatusFinder:
    """Finds the status in the replies of one API."""

    __slots__ = ("_places", "_words", "known_places", "is_guess")

    def __init__(self, own: Optional[str], words: StatusWords) -> None:
        self._places = places.STATUS_PLACES if own is None else (Path(own),)
        self._words = words
        self.is_guess = own is None
        # Paths that quote nothing from a reply; the path is empty if the reply itself is the word.
        self.known_places = frozenset([""] + [path.text for path in self._places])

    def find(self, data: Any) -> _Found:
        """Return the status word and its path; the word is None if there is none."""
        if isinstance(data, str):
            return parse_word(data), ""
        if not self.is_guess:
            path = self._places[0]
            return parse_word(path.find(data)), path.text
        envelope: _Found = (None, "")
        unknown: _Found = (None, "")
        for path in self._places:  # those at the top come first
            value = path.find(data)
            # A number such as in {"status": 200} is HTTP's status, not the job's.
            word = None if type(value) is int else parse_word(value)
            if word is None:
                continue
            inside = "." in path.text
            if not inside and path.text != "done" and _is_envelope_word(word):
                envelope = envelope if envelope[0] else (word, path.text)
                continue
            meaning = self._words.meaning(word)
            if meaning == "done" and inside and envelope[0]:
                return self._find_inside(data) or (word, path.text)
            if meaning is not None:
                return word, path.text
            if unknown[0] is None or (inside and envelope[0]):
                unknown = word, path.text
        if envelope[0] is None or "." in unknown[1]:
            return unknown
        return self._find_inside(data) or envelope

    def list_candidates(self, data: Any) -> List[Candidate]:
        """Return the fields that may be the status, nearest first, if it is uncertain which is.

        That is if no status was found, or an envelope. Only paths that a profile can name.
        """
        word, _ = self.find(data)
        in_envelope = self.is_guess and _has_envelope(data) and not _has_ended(data)
        if word is not None and not in_envelope:
            return []
        found = (one for level in self._levels(data) for group in level for one in group)
        listed = list(islice((one for one in found if one.can_be_named), MOST_LISTED))
        return [] if all(one.is_envelope for one in listed) else listed

    def _find_inside(self, data: Any) -> Optional[_Found]:
        """Return the status inside an envelope, by the rules of this module."""
        if _has_ended(data):
            return None
        at_top: Optional[Candidate] = None
        for depth, groups in enumerate(self._levels(data)):
            chosen = self._choose(groups)
            if chosen is None:
                continue
            if depth == 0 and self._words.meaning(chosen.word) is None:
                at_top = chosen
                continue
            return parse_word(chosen.word), _shown_path(chosen)
        return None if at_top is None else (parse_word(at_top.word), _shown_path(at_top))

    def _choose(self, groups: Iterable[List[Candidate]]) -> Optional[Candidate]:
        """Return the candidate that decides for one level; each group is from one object."""

        def rank_in_object(candidate: Candidate) -> int:
            return _RANK_IN_OBJECT[self._words.meaning(candidate.word)]

        def rank_in_level(candidate: Candidate) -> int:
            return _RANK_IN_LEVEL[self._words.meaning(candidate.word)]

        without_envelopes = ([one for one in group if not one.is_envelope] for group in groups)
        firsts = [min(group, key=rank_in_object) for group in without_envelopes if group]
        return min(firsts, key=rank_in_level) if firsts else None

    def _levels(self, data: Any) -> Iterator[List[List[Candidate]]]:
        """Yield the candidates of each level, the nearest level first, in one list per object."""
        level: List[_Part] = [((), data)] if isinstance(data, (dict, list)) else []
        for _ in range(DEEPEST_LEVEL + 1):
            groups: List[List[Candidate]] = []
            deeper: List[_Part] = []
            left = MOST_VALUES
            for steps, value in _objects(level):
                if left <= 0:
                    break
                found, inside = self._search(steps, value, left)
                groups.append(found)
                deeper += inside
                left -= 1 + len(value)
            yield groups
            level = deeper

    def _search(
        self, steps: Tuple[str, ...], data: Dict[Any, Any], most: int
    ) -> Tuple[List[Candidate], List[_Part]]:
        """Return the candidates in one object, and the objects and lists to search inside it."""
        found: List[Candidate] = []
        inside: List[_Part] = []
        for key, value in islice(data.items(), most):
            if not isinstance(key, str):
                continue
            if isinstance(value, (dict, list)):
                if _is_searched(key):
                    inside.append((steps + (key,), value))
            elif isinstance(value, str) and _names_status(key, is_top=not steps):
                word = self._status_word(key, value, data)
                if word is not None:
                    found.append(Candidate(steps + (key,), word))
            elif value is False and key == "done":
                found.append(Candidate(steps + (key,), "false"))
        return found, inside

    def _status_word(self, key: str, value: str, siblings: Dict[Any, Any]) -> Optional[str]:
        """Return the value as a status word, or None if it does not look like one."""
        if len(value) > LONGEST_WORD:
            return None
        word = value.strip()
        if self._words.meaning(word) is not None:
            return word
        is_place = key.lower() == "state" and not _POSTAL.isdisjoint(
            name.lower() for name in islice(siblings, LARGE) if isinstance(name, str)
        )
        return word if _SINGLE_WORD.fullmatch(word) and not is_place else None


def _objects(level: List[_Part]) -> Iterator[_Part]:
    """Yield the objects of a level, also those in its lists, in the order of rule 5."""
    elements_left = MOST_VALUES
    for steps, value in sorted(level, key=_search_order):
        if isinstance(value, dict):
            yield steps, value
        else:
            for i, element in enumerate(islice(value, elements_left)):
                if isinstance(element, dict):
                    yield steps + (str(i),), element
            elements_left = max(0, elements_left - len(value))


def _search_order(part: _Part) -> Tuple[bool, bool]:
    value = part[1]
    return len(value) > LARGE, isinstance(value, list)


def _is_searched(key: str) -> bool:
    lowered = key.lower()
    return lowered not in _NOT_SEARCHED and "address" not in lowered


def _names_status(key: str, is_top: bool) -> bool:
    if len(key) > _LONGEST_KEY:
        return False
    lowered = key.lower()
    if is_top:
        return lowered in _TOP_KEYS
    return lowered in _KEYS or lowered.endswith(_ENDINGS) or key.endswith(_CAMEL_ENDINGS)


def _is_envelope_word(word: str) -> bool:
    return word[:10].lower() in places.ENVELOPE


def _has_envelope(data: Any) -> bool:
    """Whether a common place on the top level has a word that may only say that the call worked."""
    words = (
        parse_word(path.find(data))
        for path in places.STATUS_PLACES
        if "." not in path.text and path.text != "done"
    )
    return any(word is not None and _is_envelope_word(word) for word in words)


def _has_ended(data: Any) -> bool:
    """Whether the top level says when the job finished: then it is no envelope, but the job."""
    return any(hints.parse_timestamp(path.find(data)) is not None for path in _END_TIMES)


def _shown_path(candidate: Candidate) -> str:
    """Return the path as it may be shown; its keys are the server's."""
    return one_line(candidate.path[: 10 * _LONGEST_PLACE], _LONGEST_PLACE)
