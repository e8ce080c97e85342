"""Connections that are kept open between requests, by origin.

Each connection is checked right before it is used again. If the server has closed it, it is
dropped. If the server has sent bytes that no request asked for, for example a second reply to the
previous request, they could be read as the reply about the next job. The check can't prevent that
if they arrive just after it. So once an origin has sent such bytes, the process reuses no
connection to it any more, and if a reply came on a reused connection, the poll is repeated.
"""

import sys
from typing import Dict, List, Optional, Set

from .connection import Connection, IdleState

MAX_ORIGINS = 32
_stray_senders: Set[str] = set()  # origins that sent bytes unasked; for the whole process


def is_stray_sender(origin: str) -> bool:
    """Whether the origin has sent bytes that no request asked for."""
    return origin in _stray_senders


def add_stray_sender(origin: str) -> None:
    """Stop reusing connections to an origin, and log a warning the first time."""
    if origin in _stray_senders:
        return
    _stray_senders.add(origin)
    if "logging" in sys.modules:  # otherwise the log has no reader, and it is slow to import
        import logging

        logging.getLogger("pollkit").warning(
            "%s sent a reply that was not asked for: every request now uses a new connection",
            origin,
        )


class ConnectionPool:
    """Open connections that no exchange uses at the moment; the last one returned is taken first.

    It needs no lock: appending to a list and popping from it are atomic. If another thread
    closes the pool in between, a connection that is returned late is dropped with its list.
    """

    def __init__(self) -> None:
        self._idle: Dict[str, List[Connection]] = {}

    def take(self, origin: str) -> Optional[Connection]:
        """A connection that is still open and quiet; the caller owns it now."""
        connections = self._idle.get(origin)
        while connections:
            try:
                connection = connections.pop()
            except IndexError:  # another thread took it
                break
            if origin not in _stray_senders:
                if connection.is_surely_quiet():
                    return connection
                state = connection.idle_state()
                if state is IdleState.QUIET:
                    return connection
                if state is IdleState.STRAY:
                    add_stray_sender(origin)
            connection.close()
        return None

    def put(self, origin: str, connection: Connection) -> None:
        """Keep a connection for the next request, unless the origin sends stray replies."""
        if origin in _stray_senders:
            connection.close()
            return
        connections = self._idle.get(origin)
        if connections is None:
            for oldest in list(self._idle)[: -MAX_ORIGINS + 1]:
                _close_all(self._idle.pop(oldest, []))
            connections = self._idle.setdefault(origin, [])
        connections.append(connection)

    def close(self) -> None:
        """Close every idle connection."""
        idle = self._idle
        self._idle = {}
        for connections in list(idle.values()):
            _close_all(connections)


def _close_all(connections: List[Connection]) -> None:
    while connections:
        try:
            connections.pop().close()
        except IndexError:  # another thread took the last one
            return
