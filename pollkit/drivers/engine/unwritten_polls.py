"""Polls whose results the sink of an Engine has, but has not written yet.

Such a poll keeps its slot on the agenda: so a process that is killed repeats at most one poll per
slot, however many results are written together. To wait for more results must not cost polls:
it ends when no slot is free, or when no other poll is in flight.
"""

import threading
from typing import Any, Callable, Optional

from ...core.scheduling.agenda import Agenda


class UnwrittenPolls:
    """Counts them, and decides whether the sink may wait for more results.

    `on_error` is called with the error if the sink can't write.
    """

    def __init__(
        self,
        agenda: Agenda,
        lock: threading.Lock,
        sink: Any,
        on_error: Callable[[Exception], object],
    ) -> None:
        self._agenda = agenda
        self._lock = lock
        self._sink = sink
        self._on_error = on_error
        self._count = 0
        self.may_wait = True  # False once the engine stops

    @property
    def block_others(self) -> bool:
        """Whether a poll may have to wait for the slot of an unwritten one."""
        return self._count > 0 and not self._agenda.has_free_slot

    def add(self) -> None:
        """Keep the slot of one more poll."""
        self._count += 1

    def write(self) -> Optional[float]:
        """Have the sink write its results; then release the slots.

        If more results may join them: after how many seconds to call this again.
        """
        with self._lock:
            is_more_in_flight = self._agenda.in_flight > self._count
            can_wait = self.may_wait and is_more_in_flight and self._agenda.has_free_slot
        pause_s: Optional[float] = None
        try:
            pause_s = self._sink.write(can_wait)
        except Exception as error:
            self._on_error(error)
        finally:
            if pause_s is None:
                self._release_slots()
        return pause_s

    def _release_slots(self) -> None:
        with self._lock:
            for _ in range(self._count):
                self._agenda.release_slot()
            self._count = 0
