"""Durations that all processes have recorded in a ledger, for the pace to learn from."""

from typing import Dict, List

from ....core.learning.durations import Completion, Durations
from ....edges.ledger.job_statistics import Statistics
from ...endpoints.endpoint import Endpoint


class LedgerDurations:
    """Reads the durations for the endpoints that learn from them."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._known: Dict[Durations, List[Completion]] = {}  # as last read

    def read_first(self, endpoint: Endpoint) -> None:
        """Read the durations for an endpoint, unless that was done before."""
        if endpoint.settings.durations not in self._known:
            self.read(endpoint)

    def read(self, endpoint: Endpoint) -> None:
        """Read the durations for an endpoint."""
        durations = endpoint.settings.durations
        if durations is None:
            return
        completions, pending = self._statistics.observed(endpoint.profile.name, endpoint.kind.label)
        if completions != self._known.get(durations):
            self._known[durations] = completions
            durations.relearn(completions, pending)
        else:
            durations.replace_pending(pending)
