"""The doctor's findings about the server of a ledger (postgresql://...)."""

from typing import Iterator, Optional

from ...core.units import duration_text, rounded_duration
from ...edges.clock import Clock
from ...errors import LedgerError
from .findings import SKEW_S, Finding, Level

OLD_TRANSACTION_S = 300.0  # an older one makes claims slow, because dead rows can't be removed
SLOW_ROUND_TRIP_S = 0.02


def examine_server(url: str) -> Iterator[Finding]:
    """Connect to the server of a ledger, and judge its settings."""
    from ...edges.ledger.postgres import facts, schema  # late: a job's doctor does not need them

    try:
        found = facts.read_facts(url, Clock())
    except LedgerError as error:
        yield Finding(Level.PROBLEM, "server", str(error))
        return
    yield Finding(Level.OK, "server", "PostgreSQL %s, with %s" % (found.version, found.driver))
    if found.is_read_only:
        yield Finding(
            Level.PROBLEM,
            "writing",
            "the server is read-only: a standby, or a fail-over that has not ended",
            "name the primary",
        )
    if found.tables is None:
        yield Finding(Level.WARNING, "tables", "no ledger yet", "pollkit add makes one")
    elif found.tables == len(schema.MIGRATIONS):
        yield Finding(Level.OK, "tables", "version %d" % found.tables)
    else:
        yield Finding(
            Level.PROBLEM,
            "tables",
            "version %d, this pollkit needs %d" % (found.tables, len(schema.MIGRATIONS)),
            "pollkit ledger migrate, or the pollkit that the other hosts have",
        )
    trip = "a round trip takes " + duration_text(round(found.round_trip_s, 4))
    is_slow = found.round_trip_s > SLOW_ROUND_TRIP_S
    yield Finding(Level.WARNING if is_slow else Level.OK, "network", trip)
    yield _clock_finding(found.ahead_s)
    vacuum = vacuum_finding(found.oldest_transaction_s)
    if vacuum is not None:
        yield vacuum


def vacuum_finding(oldest_transaction_s: float) -> Optional[Finding]:
    """A warning if a transaction is so old that it makes claims slow; pollkit status shows it."""
    if oldest_transaction_s <= OLD_TRANSACTION_S:
        return None
    return Finding(
        Level.WARNING,
        "vacuum",
        "a transaction has been open for %s: dead rows pile up, and claims get slower"
        % rounded_duration(oldest_transaction_s),
        "end it (pg_stat_activity shows it), or limit such queries",
    )


def _clock_finding(ahead_s: float) -> Finding:
    if abs(ahead_s) <= SKEW_S:
        return Finding(Level.OK, "clock", "this host and the server agree")
    text = "the server is %s %s" % (
        rounded_duration(abs(ahead_s)),
        "ahead" if ahead_s > 0 else "behind",
    )
    return Finding(Level.WARNING, "clock", text, "the server's clock counts; set the wrong one")
