"""The address that callbacks are sent to: parsed, then opened as a listening socket."""

import re
import socket
from typing import NamedTuple

from ...errors import ConfigError

BACKLOG = 128  # connections that the system accepts before the server does
_LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(\[[^][]+\]|[^][:\s]+):)?([0-9]{1,9})")


class Address(NamedTuple):
    """A host, by name or number, and a port; port 0 lets the system choose one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """An address such as 127.0.0.1:8099, [::1]:8099, or 8099 on the loopback interface.

        >>> Address.parse("8099")
        Address(host='127.0.0.1', port=8099)
        """
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ConfigError(
                "%.60r is not an address: write 127.0.0.1:8099, [::1]:8099, or only the port"
                % (text,)
            )
        host, port = match.groups()
        if int(port) > 65535:
            raise ConfigError("%s is not a port: ports are numbers from 1 to 65535" % port)
        return cls((host or _LOOPBACK).strip("[]"), int(port))

    def __str__(self) -> str:
        host = "[%s]" % self.host if ":" in self.host else self.host
        return "%s:%d" % (host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this host can reach this address, which is a number."""
        return self.host.startswith("127.") or self.host == "::1"


def open_socket(address: Address) -> socket.socket:
    """A socket that listens at an address; a ConfigError if that is not possible."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, place = found[0]
        listening = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ConfigError(_problem(address, error)) from None
    try:
        if hasattr(socket, "SO_REUSEADDR"):  # a run that ended just now does not block the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise ConfigError(_problem(address, error)) from None
    return listening


def address_of(listening: socket.socket) -> Address:
    """The address of a listening socket, with numbers."""
    host, port = listening.getsockname()[:2]
    return Address(host, port)


def _problem(address: Address, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or "its host is not a valid name"
    return "can't listen on %s: %s: name another address or port" % (address, reason)
