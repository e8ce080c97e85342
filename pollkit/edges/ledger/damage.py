"""Stored values that no pollkit has written: the row was damaged, or edited by hand.

They are found where rows are read, so that the error names the job and the column. Elsewhere such a
value would look like a bug, or keep a run from ending.
"""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ...core.model import Counts, State
from ...core.submitting.intent import Stage
from ...core.units import LONGEST_S, NEVER
from ...errors import LedgerError

LATEST = 1e11  # the year 5138
REMEDY = "restore a backup, or remove the job (pollkit forget) and add it again"
REMEDY_FOR_ALL = "restore a backup, or add the jobs to a new ledger"
MOST_COUNTED = 1 << 63
_NUMBERS = (int, float)
_STATES = ("waiting", *(state.value for state in State))
_STAGES = tuple(stage.value for stage in Stage)


class _Rule(NamedTuple):
    """The values that a column may have: the listed ones, or texts, or numbers in a range."""

    wanted: str
    listed: Tuple[Any, ...] = ()
    is_text: bool = False
    least: float = 0.0
    most: float = -1.0  # no number


_TEXT = _Rule("text", is_text=True)
_INSTANT = _Rule("an instant", most=LATEST)
_COUNT = _Rule("a number from 0", most=MOST_COUNTED)
_RULES: Dict[str, _Rule] = {
    **dict.fromkeys(("key", "notify_attempts", "failed_probes", "minute"), _COUNT),
    **dict.fromkeys(Counts._fields, _COUNT),
    **dict.fromkeys(("added_at", "free_at", "due_at", "ended_at", "notify_at"), _INSTANT),
    **dict.fromkeys(("notified_at", "first_sent_at", "sent_at"), _INSTANT),
    **dict.fromkeys(("began_at", "next_probe_at", "now", "wall", "at"), _INSTANT),
    "size": _Rule("a number", least=-1e308, most=1e308),
    "timeout_s": _Rule("a duration", listed=(NEVER,), most=LONGEST_S),
    "notice_delay_s": _Rule("a duration", most=LATEST),
    "duration": _Rule("a number of seconds", least=-LATEST, most=LATEST),
    "state": _Rule("a state", listed=_STATES),
    "stage": _Rule("a stage of a submission", listed=_STAGES),
}


def rules_for(columns: Iterable[str]) -> List[_Rule]:
    """The rules for the values of these columns; a column without a rule has text."""
    return [_RULES.get(column, _TEXT) for column in columns]


def find_damage(values: Iterable[Any], rules: Iterable[_Rule]) -> Optional[int]:
    """The place of the first value that a column can't have, if any; None is always allowed."""
    # This runs for each row of a ledger: one loop without calls takes 3 us.
    for place, (value, rule) in enumerate(zip(values, rules)):
        if value is None:
            continue
        if rule.is_text:
            is_valid = type(value) is str
        elif type(value) in _NUMBERS:
            is_valid = rule.least <= value <= rule.most or value in rule.listed  # not if it is nan
        else:
            is_valid = value in rule.listed
        if not is_valid:
            return place
    return None


def check_values(values: Sequence[Any], columns: Sequence[str], ledger: str, job: Any) -> None:
    """Raise a LedgerError if a column of a job has a value that no pollkit has written."""
    place = find_damage(values, rules_for(columns))
    if place is not None:
        raise damage_error(ledger, job, columns[place], values[place])


def check_rows(
    rows: Sequence[Tuple[Any, ...]], columns: Sequence[str], ledger: str
) -> Sequence[Tuple[Any, ...]]:
    """These rows, which name no job, or the LedgerError of `check_values`."""
    for row in rows:
        check_values(row, columns, ledger, None)
    return rows


def damage_error(ledger: str, job: Any, column: str, value: Any) -> LedgerError:
    """The LedgerError for a value; `job` is the id of its job, None if it has none we know."""
    name = "a row" if job is None else "the job %.80r" % (job,)
    remedy = REMEDY if isinstance(job, str) else REMEDY_FOR_ALL
    return LedgerError(
        "%s is damaged, or another program has changed it: %s has %.40r as %s, which must be %s: %s"
        % (ledger, name, value, column, _RULES.get(column, _TEXT).wanted, remedy)
    )
