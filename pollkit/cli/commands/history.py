"""Show or clear the durations that adaptive paces have learned.

wait and batch save the durations of finished jobs, by profile (or by origin, for jobs without a
profile) and label, in ~/.local/state/pollkit/history.json. A run saves them in its ledger:
--ledger shows those.

examples:
  pollkit history                                     every profile and label
  pollkit history --profile knowhere --json
  pollkit history --ledger /var/lib/jobs.db           the durations in a ledger
  pollkit history clear --profile knowhere --label small
  pollkit history clear                               everything
"""

import argparse
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional

from ...core.model import iso_text, one_line
from ...core.units import rounded_duration
from ...drivers.simulation.figures import percentile
from ...edges.history_file import Kind, read_history, remove_kinds
from ...errors import ConfigError
from ..arguments import argument_types
from ..exit_codes import ALL_DONE
from ..inputs.duration_lists import history_path, ledger_durations
from ..output.streams import as_json, write
from ..output.tables import format_table, terminal_width

HEADINGS = ("PROFILE", "LABEL", "JOBS", "MEDIAN", "P90", "LAST")
LONGEST_NAME = 60  # characters of a profile or label that are shown


class Learned(NamedTuple):
    """The durations of one kind of job; `last_at` is when the latest of them finished, if known."""

    kind: Kind
    durations: List[float]
    last_at: Optional[float] = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "action",
        nargs="?",
        default="show",
        choices=("show", "clear"),
        help="show (the default) prints a table; clear removes durations",
    )
    parser.add_argument("--profile", metavar="NAME", help="only this profile, or origin")
    parser.add_argument(
        "--label", metavar="L", type=argument_types.label, help="only jobs with this label"
    )
    parser.add_argument(
        "--history",
        metavar="FILE",
        type=argument_types.path,
        help="the file (default: ~/.local/state/pollkit/history.json)",
    )
    parser.add_argument(
        "--ledger",
        metavar="FILE",
        type=argument_types.path,
        help="show the durations in this ledger instead",
    )
    parser.add_argument("--json", action="store_true", help="show them as one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    """Show or clear."""
    if arguments.ledger is not None and arguments.history is not None:
        raise ConfigError("--ledger and --history both name the durations: give one")
    if arguments.action == "clear":
        return _clear(arguments)
    learned = [one for one in _read(arguments) if _is_chosen(arguments, one.kind)]
    if arguments.json:
        sys.stdout.write(as_json({"kinds": [_as_dict(one) for one in learned]}))
    elif not learned:
        write("%s has no durations%s\n" % (_path(arguments), _filter_text(arguments)))
    else:
        now = time.time()
        rows = [HEADINGS] + [_row(one, now) for one in learned]
        write(format_table(rows, terminal_width()))
    return ALL_DONE


def _clear(arguments: argparse.Namespace) -> int:
    if arguments.ledger is not None:
        raise ConfigError("a ledger keeps its durations: history clear is for a --history file")
    if arguments.json:
        raise ConfigError("history clear prints no JSON: leave --json out")
    path = _path(arguments)
    removed = remove_kinds(path, lambda kind: _is_chosen(arguments, kind))
    if not removed and _filter_text(arguments):
        raise ConfigError(
            "%s has no durations%s: see pollkit history" % (path, _filter_text(arguments))
        )
    if not removed:
        write("%s has no durations\n" % path)
    for kind in removed:
        profile, label = map(_name, kind)
        write("removed the durations of %s, label %s\n" % (profile, label))
    return ALL_DONE


def _path(arguments: argparse.Namespace) -> str:
    if arguments.ledger is not None:
        return str(arguments.ledger)
    return history_path(arguments.history)


def _read(arguments: argparse.Namespace) -> List[Learned]:
    if arguments.ledger is not None:
        found = ledger_durations(arguments.ledger)
        return [Learned(kind, durations) for kind, durations in found.items()]
    learned = []
    for kind, durations in read_history(_path(arguments)).items():
        values = durations.as_dict()
        ends = [start + lasted for start, lasted in zip(values["begun"], values["durations"])]
        learned.append(Learned(kind, values["durations"], max(ends, default=None)))
    return learned


def _is_chosen(arguments: argparse.Namespace, kind: Kind) -> bool:
    is_profile = arguments.profile in (None, kind.profile)
    return is_profile and arguments.label in (None, kind.label)


def _filter_text(arguments: argparse.Namespace) -> str:
    names = []
    if arguments.profile is not None:
        names.append("profile %s" % arguments.profile)
    if arguments.label is not None:
        names.append("label %s" % arguments.label)
    return " of " + " and ".join(names) if names else ""


def _name(name: Optional[str]) -> str:
    return one_line(name or "-", LONGEST_NAME)


def _row(learned: Learned, now: float) -> List[str]:
    ordered = sorted(learned.durations)
    found = [percentile(ordered, share) for share in (0.5, 0.9)]
    durations = ["-" if each is None else rounded_duration(each) for each in found]
    last = "-"
    if learned.last_at is not None:
        last = rounded_duration(max(0.0, now - learned.last_at)) + " ago"
    return [*map(_name, learned.kind), str(len(ordered)), *durations, last]


def _as_dict(learned: Learned) -> Dict[str, Any]:
    ordered = sorted(learned.durations)
    return {
        "profile": learned.kind.profile or None,
        "label": learned.kind.label,
        "jobs": len(ordered),
        "median_s": percentile(ordered, 0.5),
        "p90_s": percentile(ordered, 0.9),
        "last_at": None if learned.last_at is None else iso_text(learned.last_at),
    }
