"""Writers of one history are killed at any instant: the file stays whole and loses nothing."""

import os
import random
import subprocess
import sys
import time

import pytest

from paths import ROOT
from pollkit.core.learning.durations import RECENT, Completion
from pollkit.edges.history_file import History, Kind

KINDS = [Kind("p%d" % i) for i in range(3)]
WRITER = """
import sys, time
from pollkit.core.learning.durations import Completion
from pollkit.edges.history_file import History, Kind
i = 0
while True:
    i += 1
    with History(sys.argv[1]) as history:
        for kind in range(3):
            lasted = 90 + 20 * (i * 0.618 % 1)
            history.record(Kind("p%d" % kind), Completion(lasted, lasted, time.time() - lasted))
    print(flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_writers_that_are_killed_leave_a_whole_file_and_lose_nothing(tmp_path):
    seed = random.randrange(10**6)
    print("seed", seed)
    rng = random.Random(seed)
    path = str(tmp_path / "history.json")

    def writer():
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", WRITER, path], cwd=ROOT, stdout=subprocess.PIPE
        )
        process.stdout.readline()
        return process

    writers = [writer() for _ in range(3)]
    before = 0
    try:
        for _ in range(40):
            victim = writers.pop(0)
            time.sleep(rng.uniform(0, 0.03))
            victim.kill()
            victim.communicate()
            warnings = []
            history = History(path, warnings.append, warnings.append)
            # All of a save, or nothing: the kinds have the same count.
            (count,) = {history.durations(kind).as_dict()["count"] for kind in KINDS}
            assert warnings == [] and count >= before
            before = count
            writers.append(writer())
    finally:
        for process in writers:
            process.kill()
            process.communicate()
    assert before > RECENT
    with History(path) as history:
        history.record(KINDS[0], Completion(100, 100, time.time() - 100))
    assert os.listdir(str(tmp_path)) == ["history.json"]
