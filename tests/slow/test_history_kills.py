"""Writers of one history, killed at any instant: it is always whole, and what was once in it stays."""

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
from pollkit.core.learning.durations import Completion as Lesson
from pollkit.edges.history_file import History, Kind
i = 0
while True:
    i += 1
    with History(sys.argv[1]) as history:
        for kind in range(3):
            lasted = 90 + 20 * (i * 0.618 % 1)
            history.record(Kind("p%d" % kind), Lesson(lasted, lasted, time.time() - lasted))
    print(flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_writers_that_are_killed_leave_a_whole_file_and_lose_nothing(tmp_path):
    seed = random.randrange(10**6)
    print("seed", seed)
    rng, path = random.Random(seed), str(tmp_path / "history.json")

    def writer():
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", WRITER, path], cwd=ROOT, stdout=subprocess.PIPE
        )
        process.stdout.readline()
        return process

    writers, before = [writer() for _ in range(3)], 0
    try:
        for _ in range(40):
            victim = writers.pop(0)
            time.sleep(rng.uniform(0, 0.03))
            victim.kill()
            victim.communicate()
            said = []
            history = History(path, said.append, said.append)
            counts = {history.durations(kind).as_dict()["count"] for kind in KINDS}
            assert (
                said == [] and len(counts) == 1 and counts.copy().pop() >= before
            )  # all of a save, or nothing
            before = counts.pop()
            writers.append(writer())
    finally:
        for process in writers:
            process.kill()
            process.communicate()
    assert before > RECENT
    with History(path) as history:
        history.record(KINDS[0], Completion(100, 100, time.time() - 100))
    assert os.listdir(str(tmp_path)) == ["history.json"]
