"""The durations for a simulation: a distribution, a file of durations, or the jobs of a ledger."""

from typing import Dict, List, Union

from ..core.learning.durations import point_between
from ..core.model import one_line
from ..core.units import to_seconds
from ..drivers.simulation.distributions import Distribution, Measured, parse_distribution
from ..errors import ConfigError
from . import argument_types

LARGEST_FILE = 64 * 1024 * 1024
LEDGER = "ledger:"


def read_durations(text: str) -> Union[Distribution, Dict[str, Measured]]:
    """The durations that a --durations argument names; those of a ledger by profile and label."""
    if text.startswith(LEDGER):
        return _read_ledger(text[len(LEDGER) :])
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
            "(%s), or ledger:PATH" % (path, reason)
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


def _read_ledger(path: str) -> Dict[str, Measured]:
    """The durations of finished jobs, by profile and label; `run` learns from the same ones."""
    if not path:
        raise ConfigError("ledger: the path of the ledger is missing: write ledger:PATH")
    from ..edges.ledger.ledger import Ledger  # late: it imports sqlite3

    with Ledger(argument_types.path(path), create=False) as ledger:
        kinds = {
            kind: bounds
            for kind, bounds in ledger.statistics.durations_by_kind().items()
            if max(bounds)[1] > 0.0
        }
    if not kinds:
        raise ConfigError("%s has no durations yet: no job in it was seen to finish" % path)
    name = LEDGER + path
    if len(kinds) > 1:
        name += ", %d kinds of jobs" % len(kinds)
    measured = {}
    for kind, bounds in kinds.items():
        durations = [
            point_between(least_s, most_s, i) for i, (least_s, most_s) in enumerate(bounds, 1)
        ]
        measured[":".join(filter(None, kind))] = Measured.from_durations(durations, one_line(name))
    return measured
