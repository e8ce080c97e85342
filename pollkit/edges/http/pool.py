"""Connections that are kept open between requests, by origin."""
from typing import Dict, List, Optional, Set

from .connection import Connection, IdleState

MAX_ORIGINS = 32


class ConnectionPool:
    """Open connections that no exchange uses at the moment; the last one returned is taken first.

    It needs no lock: appending to a list and popping from it are atomic. If another thread
    closes the pool in between, a connection that is returned late is dropped with its list.
    """

    def __init__(self) -> None:
        self._idle: Dict[str, List[Connection]] = {}
        self._distrusted: Set[str] = set()   # origins that sent a reply nobody asked for

    def take(self, origin: str) -> Optional[Connection]:
        """A connection that is still open and quiet; the caller owns it now."""
        connections = self._idle.get(origin)
        while connections:
            try:
                connection = connections.pop()
            except IndexError:  # another thread took it
                break
            state = connection.idle_state()
            if state is IdleState.QUIET:
                return connection
            if state is IdleState.STRAY:
                self.distrust(origin)
            connection.close()
        return None

    def put(self, origin: str, connection: Connection) -> None:
        """Keep a connection for the next request."""
        if origin in self._distrusted:
            connection.close()
            return
        connections = self._idle.get(origin)
        if connections is None:
            for oldest in list(self._idle)[:-MAX_ORIGINS + 1]:
                _close_all(self._idle.pop(oldest, []))
            connections = self._idle.setdefault(origin, [])
        connections.append(connection)

    def distrust(self, origin: str) -> None:
        """The origin sent a stray reply: never again send two requests on one connection to it."""
        self._distrusted.add(origin)
        _close_all(self._idle.pop(origin, []))

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
