"""Helpers for slow tests of ledgers: a folder with a ledger and a profile, pollkit processes."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

from ledger_host import ROOT, folder, new_place, time_passes
from pollkit import Job, Ledger

LIMIT = "limit = 1000/s burst 50\n"


class Place:
    """A folder in which commands run as real processes."""

    def __init__(self, path, url, more=LIMIT, ledger=None):
        self.path = path
        self._ledger = ledger  # the URL of a database; None for a file in the folder
        self.started = []
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": path,
            "PYTHONPATH": ROOT,
            "POLLKIT_PROFILES": os.path.join(path, "mine.ini"),
        }
        with open(self.env["POLLKIT_PROFILES"], "w") as file:
            file.write(
                "[fake]\nurl = %s/jobs/{id}\nresult = result\npace = fixed 30ms\nproxy = none\n%s"
                % (url, more)
            )

    @property
    def ledger(self):
        return self._ledger or self.file("jobs.db")

    def move(self, path, copied):
        """Use a new folder, with copies of those of the named files that exist."""
        os.mkdir(path)
        for name in filter(os.path.exists, map(self.file, copied)):
            shutil.copy(name, path)
        self.path = path

    def file(self, name):
        return os.path.join(self.path, name)

    def start(self, *words, **options):
        """A pollkit process; its stderr is open until all of its children have exited, too."""
        self.started.append(
            subprocess.Popen(
                [sys.executable, "-m", "pollkit"] + list(words),
                cwd=self.path,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                universal_newlines=True,
                **options,
            )
        )
        return self.started[-1]

    def end_processes(self):
        """Kill what still runs, as after a failed test, and close all pipes.

        A pipe that is left open would fail a later test with a ResourceWarning.
        """
        for process in self.started:
            if process.poll() is None:
                process.kill()
            with process:  # waits for it, and closes its pipes
                pass

    def script(self, text, name="notify"):
        with open(self.file(name), "w") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(self.file(name), 0o755)
        return self.file(name)

    def add(self, names, label=None):
        with Ledger(self.ledger) as ledger:
            return ledger.add(Job(name, profile="fake", label=label) for name in names)

    def lines(self, name):
        """The JSON lines of a file; as in the documentation, incomplete lines are skipped."""
        found = []
        if os.path.exists(self.file(name)):
            with open(self.file(name)) as file:
                for line in file:
                    try:
                        found.append(json.loads(line))
                    except ValueError:
                        pass
        return found

    def time_passes(self, duration):
        """Advance the time of the ledger while it is not in use, so that leases expire."""
        time_passes(self.ledger, duration)


@contextmanager
def placed(api, more=LIMIT, storage="sqlite"):
    """A Place in a folder that is removed afterwards."""
    with folder() as path, new_place(storage) as ledger:
        place = Place(path, api.url, more, None if storage == "sqlite" else ledger)
        try:
            yield place
        finally:
            place.end_processes()
