"""pollkit as a real process, in a folder that is its home."""

import json
import subprocess
import sys

from paths import ROOT


def start_pollkit(folder, *words, **options):
    """A running `python -m pollkit`; stdout (unless given) and stderr are pipes with text."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": ROOT}
    environ.update(options.pop("env", {}))
    return subprocess.Popen(
        [sys.executable, "-m", "pollkit"] + list(words),
        cwd=str(folder),
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        universal_newlines=True,
        **options,
    )


def run_pollkit(folder, *words, **options):
    """Run a command to its end; its exit code, stdout and stderr."""
    process = start_pollkit(folder, *words, **options)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def read_json_lines(path):
    """The objects in a file with one JSON object per line."""
    with open(str(path)) as file:
        return [json.loads(line) for line in file]
