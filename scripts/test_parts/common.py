"""Running commands within the time limit, and showing their output."""

import os
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Optional, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# CI is limited to 90 minutes. A captured command that still runs at this instant is stopped, and
# its output is shown.
STOP_AT = time.monotonic() + 80 * 60


class Failure(Exception):
    """A failure in one line, with the output of the command that caused it."""

    def __init__(self, message: str, output: bytes = b"") -> None:
        super().__init__(message)
        self.output = output


def run_command(command: List[str], env: Optional[Dict[str, str]] = None) -> Tuple[int, bytes]:
    """Run a command; its exit code, and its stdout and stderr combined."""
    # A file, not a pipe: a grandchild that outlives its parent would keep a pipe open.
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise Failure("can't run {}: {}".format(command[0], error.strerror)) from None
        remark = b""
        try:
            code = process.wait(max(0.0, STOP_AT - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
            remark = b"\ntest.py: stopped because the time for the run is over\n"
        log.seek(0)
        return code, log.read() + remark


def show(output: bytes) -> None:
    """Print output as bytes, because this script's stdout may not be able to encode it."""
    sys.stdout.flush()
    sys.stdout.buffer.write(output)
    if output and not output.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
