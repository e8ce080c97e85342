"""A job that this process has leased from a ledger."""

from ....edges.ledger.records import Claim

LEASE_S = 60.0  # how long a job stays leased by a process that was killed


class LeasedJob:
    """A job that this process has leased."""

    __slots__ = ("claim", "origin", "url", "is_probe", "was_polled", "is_nudged")

    def __init__(self, claim: Claim, url: str, origin: str, is_probe: bool) -> None:
        self.claim = claim
        self.url = url
        self.origin = origin
        self.is_probe = is_probe  # it is polled although its origin is down
        self.was_polled = False
        self.is_nudged = False  # since its poll ended, while its progress is written
