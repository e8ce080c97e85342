"""Ports for servers that are other processes."""

import contextlib
import random
import socket


def unused_port():
    """A port below those that the system gives to connections: no other test takes it."""
    while True:
        port = random.randrange(15000, 32000)
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
