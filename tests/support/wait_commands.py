"""Runs of wait and batch in this process, a profile for them, and the keys of their outcomes."""

import io
import sys

from pollkit.cli import main

KEYS = [  # of an outcome, in order
    "id",
    "url",
    "profile",
    "label",
    "metadata",
    "state",
    "status",
    "result",
    "error",
    "progress",
    "polls",
    "faults",
    "waited_s",
    "slept_s",
    "notice_delay_s",
    "started_at",
    "ended_at",
    "saved_to",
]
QUICK = ["--pace", "fixed 20ms"]


def run(capsys, words):
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


def put_on_stdin(monkeypatch, *lines):
    text = "".join(line + "\n" for line in lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode("utf-8"))))


def profile_file(api, more=""):
    with open("mine.ini", "w") as file:
        file.write(
            "[fake]\nurl = %s/jobs/{id}\nresult = result\nerror = error.message\n%s"
            % (api.base, more)
        )
    return ["--profile", "fake", "--profiles", "mine.ini"]
