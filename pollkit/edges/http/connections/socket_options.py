"""Socket options that replace calls in which other threads take over the interpreter.

poll(), send() and recv() release the interpreter lock, and among 16 busy threads each release
costs about 15 us. Setting or reading a socket option keeps the lock. With these two options, a poll
needs only send() and recv(): 113 us -> 76 us with 16 threads, without TLS.
"""

import os
import socket
import struct
import sys

_TIMEVAL = struct.Struct("ll")
CAN_LIMIT_READS = os.name == "posix" and _TIMEVAL.size == 16

_SO_MEMINFO = 55  # on these machines; since Linux 4.12
_HAS_MEMINFO = sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64")
_NOTHING_QUEUED = bytes(4)


def limit_reads(sock: socket.socket, seconds: float) -> None:
    """Make each read of a blocking socket raise BlockingIOError after so many seconds."""
    whole_s = int(seconds)
    microseconds = int((seconds - whole_s) * 1e6)
    if whole_s == 0:
        microseconds = max(1, microseconds)  # 0 would mean 'no limit'
    limit = _TIMEVAL.pack(whole_s, microseconds)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def is_surely_quiet(sock: socket.socket) -> bool:
    """Whether nothing is queued for reading, not even the end; False if that is unknown.

    A connection that the server has reset looks quiet, too. The next request then fails before any
    byte of a reply, and is sent again on a new connection.
    """
    if not _HAS_MEMINFO:
        return False
    try:
        return sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4) == _NOTHING_QUEUED
    except OSError:
        return False
