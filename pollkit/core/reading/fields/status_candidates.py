"""List the fields of a reply that look like a job's status, level by level.

A field is a candidate if its key, its value and its place are those of a status:

  key     status, state, phase, stage, lifecycle, or any key that ends in _status or _state, in any
          case, also in camelCase (jobStatus) and with dashes (job-status). On the top level, only
          the five plain keys and the usual paths (conventions.STATUS_PATHS)
  value   a string that is a single word, or one of the known words ("In Progress"). A field `done`
          is a candidate, too, if it is false
  place   up to four objects deep, but not inside `result`, `output`, `response` or an address; a
          list adds no depth, and all objects in it are searched. An unknown `state` beside a city,
          a street or a postal code is part of an address, too

The order is that of the reply, but objects come before lists, and anything with more than LARGE
fields or elements comes last. Each level is searched up to MOST_VALUES values. Because large
objects and lists come last, they can't use up this number before the job beside them is reached.
"""

import re
from itertools import islice
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from ....errors import ConfigError
from ...model import one_line
from . import conventions
from .json_paths import Path
from .status_words import LONGEST_WORD, StatusWords

DEEPEST_LEVEL = 4
MOST_VALUES = 20000  # per level; to search them takes less time than to decode them
LARGE = 1000
_LONGEST_KEY = 100  # characters; a longer key names no status
_LONGEST_PATH = 120  # characters of a path that are shown

_KEYS = frozenset(("status", "state", "phase", "stage", "lifecycle"))
_KEY_ENDINGS = ("_status", "_state", "-status", "-state")
_CAMEL_CASE_ENDINGS = ("Status", "State")
_USUAL_KEYS = [path.text.lower() for path in conventions.STATUS_PATHS if "." not in path.text]
_TOP_LEVEL_KEYS = _KEYS.union(_USUAL_KEYS) - {"done"}
_NOT_SEARCHED = frozenset(("result", "output", "response"))
_POSTAL_KEYS = frozenset(
    "city town street zip zipcode zip_code postcode postalcode postal_code".split()
)
_SINGLE_WORD = re.compile(r"[^\W\d_][\w.!-]*")  # begins with a letter

_Steps = Tuple[str, ...]
_Part = Tuple[_Steps, Any]  # an object or list, after the steps that lead to it


class Candidate(NamedTuple):
    """A field that looks like a status; `steps` are the keys and indexes that lead to it."""

    steps: _Steps
    word: str

    @property
    def path(self) -> str:
        """The path in the syntax of profiles."""
        return ".".join(self.steps)

    @property
    def shown_path(self) -> str:
        """The path on one line, truncated: the keys are untrusted text."""
        return one_line(self.path[: 10 * _LONGEST_PATH], _LONGEST_PATH)

    @property
    def can_be_named(self) -> bool:
        """Whether a profile can name the path: there is no way to quote a key."""
        if sum(map(len, self.steps)) > _LONGEST_PATH:
            return False
        try:
            is_path = Path(self.path).steps == self.steps
        except ConfigError:
            return False
        return is_path and self.path == self.shown_path

    @property
    def is_envelope(self) -> bool:
        """Whether the word may only mean that the call worked: see `status_field`."""
        return len(self.steps) == 1 and is_envelope_word(self.word)

    def __str__(self) -> str:
        return '%s "%s"' % (self.path, self.word)


def is_envelope_word(word: str) -> bool:
    """Whether a word on the top level may only mean that the call worked."""
    return word[:10].lower() in conventions.ENVELOPE_WORDS


def search_levels(
    data: Any, words: StatusWords, any_key: bool = False
) -> Iterator[List[List[Candidate]]]:
    """Yield the candidates of each level, the top level first, in one list per object.

    With `any_key`, a known word is enough: its key need not be that of a status.
    """
    level: List[_Part] = [((), data)] if isinstance(data, (dict, list)) else []
    for _ in range(DEEPEST_LEVEL + 1):
        candidates: List[List[Candidate]] = []
        next_level: List[_Part] = []
        values_left = MOST_VALUES
        for steps, fields in _objects(level):
            if values_left <= 0:
                break
            found = _candidates(steps, fields, words, values_left, any_key)
            candidates.append(list(found))
            next_level += _inner_parts(steps, fields, values_left)
            values_left -= 1 + len(fields)
        yield candidates
        level = next_level


def _objects(level: List[_Part]) -> Iterator[_Part]:
    """Yield the objects of a level, also those in its lists."""
    elements_left = MOST_VALUES
    for steps, value in sorted(level, key=_search_order):
        if isinstance(value, dict):
            yield steps, value
            continue
        for index, element in enumerate(islice(value, elements_left)):
            if isinstance(element, dict):
                yield steps + (str(index),), element
        elements_left = max(0, elements_left - len(value))


def _search_order(part: _Part) -> Tuple[bool, bool]:
    value = part[1]
    return len(value) > LARGE, isinstance(value, list)


def _inner_parts(steps: _Steps, fields: Dict[Any, Any], most: int) -> Iterator[_Part]:
    """Yield the objects and lists to search inside an object."""
    for key, value in islice(fields.items(), most):
        if isinstance(value, (dict, list)) and isinstance(key, str) and _is_searched(key):
            yield steps + (key,), value


def _is_searched(key: str) -> bool:
    lowered = key.lower()
    return lowered not in _NOT_SEARCHED and "address" not in lowered


def _candidates(
    steps: _Steps, fields: Dict[Any, Any], words: StatusWords, most: int, any_key: bool
) -> Iterator[Candidate]:
    """Yield the candidates among the fields of one object."""
    for key, value in islice(fields.items(), most):
        if value is False and key == "done":
            yield Candidate(steps + (key,), "false")
        if not isinstance(value, str) or not isinstance(key, str):
            continue
        has_status_key = _is_status_key(key, is_top_level=not steps)
        if not (has_status_key or any_key) or len(value) > LONGEST_WORD:
            continue
        word = value.strip()
        is_known = words.meaning(word) is not None
        is_word = _SINGLE_WORD.fullmatch(word) and not _is_federal_state(key, fields)
        if is_known or (has_status_key and is_word):
            yield Candidate(steps + (key,), word)


def _is_status_key(key: str, is_top_level: bool) -> bool:
    if len(key) > _LONGEST_KEY:
        return False
    lowered = key.lower()
    if is_top_level:
        return lowered in _TOP_LEVEL_KEYS
    is_snake_case = lowered in _KEYS or lowered.endswith(_KEY_ENDINGS)
    return is_snake_case or key.endswith(_CAMEL_CASE_ENDINGS)


def _is_federal_state(key: str, fields: Dict[Any, Any]) -> bool:
    """Whether a `state` is part of an address, such as "CA"."""
    if key.lower() != "state":
        return False
    keys = (other.lower() for other in islice(fields, LARGE) if isinstance(other, str))
    return not _POSTAL_KEYS.isdisjoint(keys)
