"""Download: the body of a response goes to a file while it arrives."""

import time

from ..http.streaming import StreamingParser
from .result_file import ResultFile

# A download has no deadline as a whole, but each LEAST_BYTES must arrive within the request's
# timeout (30 s): so a server that sends a byte now and then can't hold it up for ever.
LEAST_BYTES = 32 * 1024
_WRITE_SIZE = 64 * 1024


class Download:
    """Writes the body of a response to a file; `timeout_s` is that of a request."""

    def __init__(self, file: ResultFile, timeout_s: float) -> None:
        self._file = file
        self._timeout_s = timeout_s
        self._parser = StreamingParser()
        self._unwritten = bytearray()
        self._arrived = 0  # bytes since the deadline was last extended
        self.has_begun = False

    def new_parser(self) -> StreamingParser:
        """The parser of the next response: a redirect or a broken connection needs another."""
        self._parser = StreamingParser()
        self._unwritten = bytearray()
        self._arrived = 0
        self.has_begun = False
        return self._parser

    def accept(self, deadline: float, is_complete: bool) -> float:
        """Write the bytes that have arrived; the deadline, later if there were enough of them."""
        parser = self._parser
        if not parser.is_streaming:
            return deadline
        if not self.has_begun:
            self._file.begin(parser.status, parser.headers)
            self.has_begun = True
        data = parser.take()
        self._unwritten += data
        if is_complete or len(self._unwritten) >= _WRITE_SIZE:
            self._file.write(bytes(self._unwritten))
            self._unwritten = bytearray()
        self._arrived += len(data)
        if self._arrived < LEAST_BYTES:
            return deadline
        self._arrived = 0
        return time.monotonic() + self._timeout_s

    def keep_rest(self) -> None:
        """Write the bytes of a response that was cut: the next attempt asks for the others."""
        if self.has_begun and self._unwritten:
            self._file.write(bytes(self._unwritten))
            self._unwritten = bytearray()
