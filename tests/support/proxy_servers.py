"""Proxies for tests."""

import contextlib
import socket
import threading

from tls_servers import pass_on


def tunnel(connection, request):
    """A proxy's answer to CONNECT: pass bytes both ways, as long as both sides want."""
    assert request.method == "CONNECT", request
    host, _, port = request.target.rpartition(":")
    with contextlib.closing(socket.create_connection((host.strip("[]"), int(port)))) as far:
        connection.send(b"HTTP/1.1 200 Connection established\r\nX-Proxy: 1\r\n\r\n")
        upward = threading.Thread(target=pass_on, args=(connection.sock, far))
        upward.start()
        pass_on(far, connection.sock)
        connection.wake()
        upward.join()
    connection.close()
