"""Python with an empty environment, like that of cron."""

import subprocess
import sys


def run(*command, **options):
    """Run Python with an empty environment; return the exit code, stdout and stderr."""
    given = options.pop("given", b"")
    done = subprocess.run(
        [sys.executable] + list(command),
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
        **dict({"env": {}}, **options),
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()
