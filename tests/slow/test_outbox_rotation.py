"""The outbox is rotated while processes write to it: no line is lost, doubled or split."""

import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from job_api import JobApi
from ledger_host import ROOT, folder
from ledger_place import placed
from pollkit.cli.commands.program.help import text_of

pytestmark = pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock")

WRITER = """
import sys
from pollkit.edges.ledger.records import Notification
from pollkit.edges.notify.outbox import append
writer, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    outcome = {"id": "%s.%d" % (writer, number), "result": "x" * (number % 7000)}
    append("finished.jsonl", [Notification(1, "a", 0.0, 1, None, outcome)])
"""
WRITERS = 4
LINES = 1500
ENOUGH = 200000  # bytes; then the outbox is rotated
MOST = 150  # rotations; logrotate removes the first file after 200
CONFIG = "/var/lib/finished.jsonl {\n  rotate 200\n  missingok\n  %s\n}\n"


def rotate_by_rename(path, number):
    """The commands of the documentation; then the reader copies the file, and removes it."""
    commands = re.search(r"^    mv .*\n    flock .*\n", text_of("cron"), re.MULTILINE).group()
    subprocess.check_call(["sh", "-ec", commands.replace("/var/lib", path)])
    renamed = os.path.join(path, "finished.work")
    shutil.copy(renamed, os.path.join(path, "finished.taken.%d" % number))
    os.unlink(renamed)


def rotate_by_logrotate(path, number, text, lock=()):
    logrotate = shutil.which("logrotate", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if logrotate is None:
        pytest.skip("has no logrotate")
    config = os.path.join(path, "logrotate.conf")
    with open(config, "w") as file:
        file.write(text.replace("/var/lib", path))
    os.chmod(config, 0o644)
    done = subprocess.run(
        [*lock, logrotate, "--force", "--state", path + "/state", config],
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    # With `create`, logrotate sets aside a file that a run has just created, and then tries once
    # more. It exits with 1 if a run was quicker again.
    assert done.returncode == 0 or "File exists" in done.stderr, done.stderr
    # The name of the file set aside has the date and the hour, so the next one would replace it:
    # here, rotations are quick.
    for backup in glob.glob(path + "/finished.jsonl-*.backup"):
        os.rename(backup, "%s/finished.aside.%d" % (path, number))


def rotate_as_documented(path, number):
    config = re.search(r"^    /var/lib/finished.jsonl \{.*?\}\n", text_of("cron"), re.M | re.S)
    rotate_by_logrotate(path, number, config.group().replace("rotate 14", "rotate 200"))


def rotate_and_create(path, number):
    rotate_by_logrotate(path, number, CONFIG % "create 0600")


def copy_and_truncate(path, number):
    lock = ["flock", os.path.join(path, "finished.jsonl")]
    rotate_by_logrotate(path, number, CONFIG % "copytruncate", lock)


def size_of(path):
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def ids_in(path):
    """The ids in all files of the outbox; a line that is not JSON is an error."""
    ids = []
    for name in glob.glob(os.path.join(path, "finished.*")):
        open_file = gzip.open if name.endswith(".gz") else open
        with open_file(name, "rt") as file:
            ids += [json.loads(line)["id"] for line in file]
    return sorted(ids)


@pytest.mark.parametrize(
    "rotate", [rotate_by_rename, rotate_as_documented, rotate_and_create, copy_and_truncate]
)
def test_no_line_is_lost_doubled_or_split_while_the_outbox_is_rotated(rotate):
    with folder() as path:
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, "w%d" % number, str(LINES)],
                cwd=path,
                env=dict(os.environ, PYTHONPATH=ROOT),
            )
            for number in range(WRITERS)
        ]
        rotations = 0
        while any(writer.poll() is None for writer in writers):
            is_large = size_of(os.path.join(path, "finished.jsonl")) > ENOUGH
            if is_large and rotations < MOST:
                rotate(path, rotations)
                rotations += 1
        assert [writer.returncode for writer in writers] == [0] * WRITERS
        expected = ["w%d.%d" % (w, line) for w in range(WRITERS) for line in range(LINES)]
        assert ids_in(path) == sorted(expected)
        assert rotations > 5


def test_runs_go_on_while_the_outbox_is_rotated():
    names = ["job_%d" % number for number in range(400)]
    with JobApi(lambda name, count: "done") as api, placed(api, "limit = 200/s\n") as place:
        place.add(names)
        outbox = place.file("finished.jsonl")
        runs = [place.start("run", place.ledger, "--outbox", outbox) for _ in range(3)]
        rotations = 0
        while any(run.poll() is None for run in runs):
            if size_of(outbox):
                rotate_by_rename(place.path, rotations)
                rotations += 1
        assert [run.communicate() for run in runs] == [("", "")] * 3
        assert ids_in(place.path) == sorted(names)
        assert rotations > 5
