"""Sends callbacks over real sockets."""

import socket

from pollkit.core.callbacks import sign

PATIENCE_S = 10.0  # for replies that should come at once, on a slow machine


class CallbackClient:
    """Sends callbacks to an address, signed with a secret."""

    def __init__(self, address, secret=b"s3cret"):
        host, _, port = address.rpartition(":")
        self._place = (host, int(port))
        self._secret = secret

    def connect(self):
        return socket.create_connection(self._place, PATIENCE_S)

    def post(self, target, body=b"", signature=None, header="X-Pollkit-Signature"):
        """Send a callback; the status of the reply."""
        value = sign(body, self._secret) if signature is None else signature
        return self.send(
            b"POST %s HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s"
            % (target.encode("ascii"), header.encode(), value.encode("ascii"), len(body), body)
        )

    def send(self, data):
        """Send bytes; the status of the reply, None if there was none."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_status(connection)


def read_status(connection):
    """The status of the reply on a connection, read to its end; None if there is none."""
    reply = b""
    data = b"more"
    while data:
        try:
            data = connection.recv(65536)
        except ConnectionError:
            data = b""
        reply += data
    return int(reply.split()[1]) if reply else None
