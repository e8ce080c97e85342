"""Durations of jobs: a distribution, a file with a list, the duration history, or a ledger."""

import os
from typing import Dict, List, Optional, Union

from ...core.learning.durations import point_between
from ...core.model import one_line
from ...core.units import to_seconds
from ...drivers.simulation.distributions import Distribution, Measured, parse_distribution
from ...edges.history_file import Kind, default_path, read_history
from ...errors import ConfigError
from ..arguments import argument_types

LARGEST_FILE = 64 * 1024 * 1024
LEDGER = "ledger:"
HISTORY = "history:"


def read_durations(text: str) -> Union[Distribution, Dict[str, Measured]]:
    """The durations that a --durations argument names; those of a ledger by profile and label."""
    if text.startswith(LEDGER):
        path = text[len(LEDGER) :]
        if not path:
            raise ConfigError("ledger: the path of the ledger is missing: write ledger:PATH")
        return _measured_by_kind(LEDGER, path, ledger_durations(path))
    if text.startswith(HISTORY):
        path = history_path(text[len(HISTORY) :] or None)
        kinds = read_history(path)
        durations = {kind: kinds[kind].as_dict()["durations"] for kind in kinds}
        return _measured_by_kind(HISTORY, path, durations)
    if text.lower().split()[:1] in (["uniform"], ["lognormal"]):
        return parse_distribution(text)
    return Measured.from_durations(_read_file(text), one_line(text))


def _read_file(path: str) -> List[float]:
    """The durations in a file: one per line; blank lines and # comments are skipped."""
    try:
        with open(path and argument_types.path(path), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            "durations %r: write 'uniform 2m..15m' or 'lognormal 5m x1.6', or name a readable file "
            "(%s), or ledger:PATH, or history:PATH" % (path, reason)
        ) from None
    if len(data) > LARGEST_FILE:
        raise ConfigError("%s is too large for a list of durations" % path)
    durations = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        line = line.strip("\ufeff \t")
        if line and not line.startswith("#"):
            try:
                durations.append(to_seconds(line))
            except ConfigError as error:
                raise ConfigError("%s:%d: %s" % (path, number, error)) from None
    return durations


def history_path(path: Optional[str]) -> str:
    """The path of the duration history: the given one, which must exist, or the usual one."""
    if path is not None:
        path = os.path.expanduser(argument_types.path(path))
        if not os.path.exists(path):
            raise ConfigError("%s: there is no such file" % path)
        return path
    usual = default_path()
    if usual is None:
        raise ConfigError(
            "there is no home directory, and so no usual history: "
            "name its file with --history FILE, or history:FILE"
        )
    return usual


def ledger_durations(path: str) -> Dict[Kind, List[float]]:
    """The durations of a ledger's jobs, by profile and label; `run` learns from the same ones."""
    from ...edges.ledger.ledger import Ledger  # late: it imports sqlite3

    with Ledger(argument_types.path(path), create=False) as ledger:
        kinds = ledger.statistics.durations_by_kind()
    return {
        Kind(profile, label or None): [
            point_between(least_s, most_s, i) for i, (least_s, most_s) in enumerate(bounds, 1)
        ]
        for (profile, label), bounds in kinds.items()
    }


def _measured_by_kind(
    source: str, path: str, kinds: Dict[Kind, List[float]]
) -> Dict[str, Measured]:
    """The durations of each kind of job for a simulation."""
    useful = {kind: durations for kind, durations in kinds.items() if any(durations)}
    if not useful:
        raise ConfigError("%s has no durations yet: no job in it was seen to finish" % path)
    name = source + path
    if len(useful) > 1:
        name += ", %d kinds of jobs" % len(useful)
    return {
        ":".join(filter(None, kind)): Measured.from_durations(durations, one_line(name))
        for kind, durations in useful.items()
    }
