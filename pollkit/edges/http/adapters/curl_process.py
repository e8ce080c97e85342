"""Runs curl for one request, and parses its output: the response as the server sent it."""

import os
import re
import subprocess
import time
from typing import IO, Iterator, NamedTuple, Optional

from ....core.model import one_line
from ...multiplexer import READ, new_poller
from ..connections.connection import READ_SIZE, DeadlinePassed
from ..parser import HEAD_END, MAX_HEAD, IncompleteResponse, Response, ResponseParser
from .interface import HttpRequest

TIMED_OUT = 28  # exit codes of curl
_PARTIAL_BODY = 18
_KILL_AFTER_S = 0.5  # curl ends at --max-time; it is killed this much later
_MAX_MESSAGE = 4096
_MESSAGE_START = re.compile(r"curl: \([0-9]+\) ")
_STATUS_LINE = b"HTTP/1."
_STATUS = slice(9, 12)  # of a status line


class CurlResult(NamedTuple):
    """The response; without one, the exit code of curl and its message."""

    response: Optional[Response]
    exit_code: int = 0
    message: str = ""


def run_curl(path: str, config: bytes, request: HttpRequest) -> CurlResult:
    """Run curl with these options; raises BadResponse, DeadlinePassed or OSError."""
    until = time.monotonic() + request.timeout_s + _KILL_AFTER_S
    process = _start(path, config)
    try:
        assert process.stdin and process.stdout and process.stderr
        _write_all(process.stdin, request.body)
        output = _Output(has_no_body=request.method == "HEAD")
        for data in _read_pieces(process.stdout, until):
            output.feed(data)
            if output.response is not None:
                return CurlResult(output.response)
        message = _message(b"".join(_read_pieces(process.stderr, until)))
        exit_code = process.wait(_KILL_AFTER_S)
        if exit_code == TIMED_OUT:
            raise DeadlinePassed()
        if not output.has_begun:
            return CurlResult(None, exit_code, message)
        if exit_code not in (0, _PARTIAL_BODY):
            raise IncompleteResponse(message)
        return CurlResult(output.end())
    except subprocess.TimeoutExpired:
        raise DeadlinePassed() from None
    finally:
        _stop(process)


class _Output:
    """Parses the output of curl as it arrives.

    It begins with the head of each 407 that curl has answered by logging in, without its body.
    """

    def __init__(self, has_no_body: bool) -> None:
        self._parser = ResponseParser(has_no_body)
        self._start = bytearray()  # the first bytes, until the final response is recognised
        self._is_final = False
        self.response: Optional[Response] = None

    @property
    def has_begun(self) -> bool:
        """Whether any byte of a response has arrived."""
        return self._is_final or bool(self._start)

    def feed(self, data: bytes) -> None:
        """Take the next bytes; sets `response` once it is complete."""
        if self._is_final:
            self.response = self._parser.feed(data)
            return
        self._start += data
        self._skip_logins()
        is_recognised = len(self._start) >= _STATUS.stop and not self._may_be_login()
        if is_recognised:
            self._feed_start()

    def end(self) -> Response:
        """The response that the end of the output completes, or a BadResponse."""
        if not self._is_final:
            self._feed_start()
        return self._parser.end()

    def _feed_start(self) -> None:
        self._is_final = True
        self.response = self._parser.feed(bytes(self._start))
        self._start.clear()

    def _skip_logins(self) -> None:
        """Drop each head of a 407 that is followed by another head."""
        end = HEAD_END.search(self._start)
        while end and self._is_407() and self._start.startswith(_STATUS_LINE, end.end()):
            del self._start[: end.end()]
            end = HEAD_END.search(self._start)

    def _may_be_login(self) -> bool:
        """Whether more bytes are needed to decide if a 407 is the final response."""
        if not self._is_407() or len(self._start) > MAX_HEAD:
            return False
        end = HEAD_END.search(self._start)
        return end is None or len(self._start) < end.end() + len(_STATUS_LINE)

    def _is_407(self) -> bool:
        return self._start[_STATUS] == b"407"


def _start(path: str, config: bytes) -> "subprocess.Popen[bytes]":
    """Start curl; it reads its options from a pipe."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        try:
            process = subprocess.Popen(
                [path, "-q", "-K", "/dev/fd/%d" % reader],
                pass_fds=[reader],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        finally:
            os.close(reader)
        _write_all(pipe, config)
    return process


def _write_all(pipe: IO[bytes], data: bytes) -> None:
    """Write and close; if curl has ended already, its exit code says why."""
    try:
        pipe.write(data)
        pipe.close()
    except BrokenPipeError:
        pass


def _read_pieces(pipe: IO[bytes], until: float) -> Iterator[bytes]:
    """Yield what arrives until the pipe is closed; raises DeadlinePassed."""
    poller = new_poller()
    poller.register(pipe.fileno(), READ)
    while True:
        left_s = until - time.monotonic()
        if left_s <= 0 or not poller.poll(left_s * 1000):
            raise DeadlinePassed()
        data = os.read(pipe.fileno(), READ_SIZE)
        if not data:
            return
        yield data


def _message(output: bytes) -> str:
    """The line of curl's stderr that begins with the exit code, or else the last line.

    After some errors, such as a refused certificate, curl explains itself in further lines.
    """
    lines = output[-_MAX_MESSAGE:].decode("utf-8", "replace").splitlines() or ["no message"]
    with_code = [line for line in lines if _MESSAGE_START.match(line)]
    line = (with_code or lines)[-1]
    return one_line(_MESSAGE_START.sub("", line, count=1), 200)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End curl if it still runs, and close the pipes."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            _close(pipe)


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        pass  # it flushes first, and curl has ended
