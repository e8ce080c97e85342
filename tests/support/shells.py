"""Completion in real shells: bash, zsh and fish."""

import os
import select
import shutil
import subprocess
import sys
import time

import pytest

from paths import ROOT

BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_pollkit
printf '%s\\n' "${COMPREPLY[@]}"
"""
# The key ^X writes the line to a file and empties it. Other keys begin with it, too: without
# KEYTIMEOUT, zsh would wait for 0.4 s for the next one.
ZSH = """
PROMPT='READY> '
KEYTIMEOUT=1
autoload -Uz compinit && compinit -D
source %s
write-line() { print -r -- "$BUFFER" >> lines; BUFFER= }
zle -N write-line
bindkey '^X' write-line
bindkey '^I' complete-word
"""


def needs(shell):
    """Skip a test if the shell is not installed."""
    return pytest.mark.skipif(
        shutil.which(shell) is None, reason="%s is not installed (.ci/run installs it)" % shell
    )


def environment(folder):
    """Variables with which a shell in this folder finds a program named pollkit."""
    program = folder / "bin" / "pollkit"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nexec "%s" -m pollkit "$@"\n' % sys.executable)
    program.chmod(0o755)
    path = "%s:%s" % (program.parent, os.environ.get("PATH", ""))
    return {"PATH": path, "HOME": str(folder), "PYTHONPATH": ROOT, "TERM": "xterm", "LC_ALL": "C"}


def complete_in_bash(folder, env, *words):
    """The completions of the last word."""
    command = ["bash", "--norc", "-c", BASH, "bash", "script.bash", "pollkit"] + list(words)
    return _run(folder, env, command)


def complete_in_fish(folder, env, *words):
    """The completions of the last word, without their descriptions."""
    line = " ".join(("pollkit",) + words)
    command = ["fish", "-c", "source script.fish; complete -C '%s'" % line]
    return [found.partition("\t")[0] for found in _run(folder, env, command)]


def complete_in_zsh(folder, env, lines):
    """Each line after the Tab key was pressed at its end."""
    import pty

    (folder / ".zshrc").write_text(ZSH % "script.zsh")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        ["zsh", "-i"], stdin=slave, stdout=slave, stderr=slave, cwd=str(folder), env=env
    )
    os.close(slave)
    try:
        _read_until(master, b"READY> ")
        for number, line in enumerate(lines, 1):
            os.write(master, line.encode() + b"\t\x18")
            _wait_for_lines(master, folder / "lines", number)
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return (folder / "lines").read_text().splitlines()


def _run(folder, env, command):
    done = subprocess.run(
        command,
        cwd=str(folder),
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split("\n")[:-1]


def _read(master):
    if select.select([master], [], [], 0.05)[0]:
        return os.read(master, 65536)
    return b""


def _read_until(master, text, within_s=30.0):
    deadline = time.monotonic() + within_s
    seen = b""
    while text not in seen:
        assert time.monotonic() < deadline, seen
        seen += _read(master)


def _wait_for_lines(master, path, count, within_s=30.0):
    """Read the terminal, so that the shell is never blocked, until the file has enough lines."""
    deadline = time.monotonic() + within_s
    seen = b""
    while not path.exists() or path.read_text().count("\n") < count:
        assert time.monotonic() < deadline, seen
        seen += _read(master)
