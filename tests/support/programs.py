"""Real programs for tests: find them, and run servers on a free port."""

import contextlib
import os
import shutil
import socket
import subprocess
import time

import pytest

from ports import unused_port


def needs_program(name):
    """The path of a program; skip the test if it is not installed, or fail in CI."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if path is None:
        assert os.environ.get("CI") != "true", "CI must have %s: see .ci/run" % name
        pytest.skip("%s is not installed" % name)
    return path


@contextlib.contextmanager
def running_server(name, command_for):
    """The port of a running server; `command_for(program, port)` writes its settings, too."""
    program = needs_program(name)
    for _ in range(5):  # another process may take the free port before the server does
        port = unused_port()
        process = subprocess.Popen(
            command_for(program, port),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if _listens(port, process):
                yield port
                return
        finally:
            process.terminate()
            process.wait(10)
    pytest.fail("%s does not start" % name)


def _listens(port, process):
    """Whether the server accepts connections, once it has had time to start."""
    for _ in range(1000):
        if process.poll() is not None:
            return False
        try:
            socket.create_connection(("127.0.0.1", port), 10).close()
            return True
        except OSError:
            time.sleep(0.01)
    return False
