"""How many faults of each kind the polls of a run have met."""

import threading
from collections import Counter

from ....core.model import Counts
from ....core.scheduling.schedule import Step
from ....edges.ledger.job_statistics import Statistics


class FaultCounts:
    """Counts faults, and writes them to the ledger now and then, because many polls may fail."""

    def __init__(self, statistics: Statistics, lock: threading.Lock) -> None:
        self._statistics = statistics
        self._lock = lock
        self._unwritten: "Counter[str]" = Counter()  # by kind

    def add(self, step: Step, counts: Counts) -> None:
        """Count the faults of a poll."""
        if counts.faults and step.reading is not None:
            with self._lock:
                self._unwritten[step.reading.fault_kind] += counts.faults

    def write(self) -> None:
        """Write the faults since the last call."""
        with self._lock:
            faults = self._unwritten
            self._unwritten = Counter()
        self._statistics.add_faults(faults)
