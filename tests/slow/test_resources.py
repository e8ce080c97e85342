"""Too few files, processes or too little memory; a removed directory; a damaged ledger.

Each is one clear line, never a traceback or "this is a bug", and no job of a ledger is lost.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from job_api import JobApi, done_after
from paths import ROOT
from pollkit import Ledger

try:
    import resource
except ImportError:
    pytest.skip("this system has no limits to set", allow_module_level=True)

SOMEBODY = 54321 + os.getpid() % 10000  # a user without processes
PROFILE = """
[fake]
url = URL/jobs/{id}
submit_url = URL/jobs
pace = fixed 30ms
proxy = none
limit = 1000/s
"""
JOBS = ["one", "two", "three"]
COMMANDS = {
    "wait": ["wait", "one", "--profile", "fake", "--timeout", "3s", "--max-faults", "2"],
    "batch": ["batch", "--profile", "fake", "--timeout", "3s", "--max-faults", "2"] + JOBS,
    "run": ["run", "jobs.db", "--for", "2s"],
    "run --exec": ["run", "jobs.db", "--for", "2s", "--exec", "/bin/true"],
    "run --processes": ["run", "jobs.db", "--for", "2s", "--processes", "2"],
    "status": ["status", "jobs.db"],
    "wait --save": ["wait", "one", "--profile", "fake", "--timeout", "3s", "--save", "{id}.json"],
    "submit": ["submit", "--profile", "fake", "--timeout", "3s", "--json", "mine.json"],
    "report": ["report", "jobs.db", "-o", "page.html"],
    "run --listen": "run jobs.db --for 2s --listen 0 --listen-secret file:secret".split(),
}
READABLE_PYTHONS = [sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"]


class Place:
    """A folder that every user can use, with a profile and a ledger in it."""

    def __init__(self, path, url, source):
        self.path = path
        self._source = source
        self.python = sys.executable
        os.chmod(path, 0o777)
        with open(os.path.join(path, "mine.ini"), "w") as file:
            file.write(PROFILE.replace("URL", url))
        for name, text in (("secret", "s3cr3t"), ("mine.json", "{}")):
            with open(os.path.join(path, name), "w") as file:
                file.write(text)
        self.user = None
        self.add()

    def add(self):
        self.run("add", "jobs.db", "--profile", "fake", "--quiet", *JOBS)

    def run(self, *words, **limits):
        """Run a command as `self.user`, with limits by name: its exit code, stdout, stderr."""

        def limit():
            if self.user is not None:
                os.setgid(self.user)
                os.setuid(self.user)
            for name, value in limits.items():
                resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))

        process = subprocess.Popen(
            [self.python, "-m", "pollkit"] + list(words),
            cwd=self.path,
            env={
                "HOME": self.path,
                "PYTHONPATH": self._source,
                "POLLKIT_PROFILES": "mine.ini",
                "POLLKIT_HISTORY": "none",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=limit,
            universal_newlines=True,
        )
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err


@pytest.fixture(scope="module")
def source():
    """A folder with pollkit that every user can read."""
    path = tempfile.mkdtemp()
    os.chmod(path, 0o755)
    shutil.copytree(os.path.join(ROOT, "pollkit"), os.path.join(path, "pollkit"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def place(source):
    with JobApi(done_after(1)) as api:
        path = tempfile.mkdtemp()
        try:
            yield Place(path, api.url, source)
        finally:
            shutil.rmtree(path)


def assert_explained(result, place):
    code, out, err = result
    assert "Traceback" not in err and "bug" not in err and "pollkit failed" not in err, err
    if code == 2:
        assert err.startswith("pollkit: ") and out == ""
    code, out, err = place.run("run", "jobs.db")
    with Ledger(os.path.join(place.path, "jobs.db")) as ledger:
        assert sorted(row.job.id for row in ledger.jobs()) == sorted(JOBS)
        assert {row.state for row in ledger.jobs()} == {"done"}, err


@pytest.mark.parametrize("command", list(COMMANDS))
def test_eight_open_files_are_enough_or_the_limit_is_named(place, command):
    result = place.run(*COMMANDS[command], NOFILE=8)
    assert_explained(result, place)
    assert "ulimit -n" in result[2] or result[0] in (0, 5)


def has_python_crashed(code, err):
    """Whether Python 3.6 itself failed: it survives few MemoryErrors, for example in an import."""
    if sys.version_info >= (3, 7):
        return False
    return code == -signal.SIGSEGV or "Cannot recover from MemoryErrors" in err


@pytest.mark.parametrize("command", ["wait", "batch", "run"])
def test_with_any_amount_of_memory_it_works_or_says_that_it_is_out_of_memory(place, command):
    outcomes = set()
    crashes = 0
    for megabytes in range(16, 200, 4):
        limit = megabytes << 20
        if place.run("--version", AS=limit)[0] != 0:
            continue  # Python itself does not start
        code, out, err = result = place.run(*COMMANDS[command], AS=limit)
        if err.startswith("ERROR:root:code for hash"):  # hashlib of Python 3.6 logs its own trouble
            err = err[err.rindex("\npollkit: ") + 1 :]
        assert "Traceback" not in err and "bug" not in err, (megabytes, err)
        if code == 0:
            break
        if "libgcc_s.so.1 must be installed" in err:
            continue  # the C library aborts: it could not load what ends a thread of Python 3.6
        if has_python_crashed(code, err):
            crashes += 1
            continue
        outcomes.add(code)
        has_reason = "memory" in err or "can't start a thread" in err or "can't import" in err
        assert (code, has_reason) == (2, True), (megabytes, result)
    assert code == 0
    assert outcomes <= {2} and crashes <= 2
    assert_explained(result, place)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become another")
@pytest.mark.parametrize("command", list(COMMANDS))
@pytest.mark.parametrize("processes", [2])
def test_with_few_processes_it_works_or_the_limit_is_named(place, command, processes):
    """As another user: root has no limit of processes. A thread counts as one, too."""
    place.user = SOMEBODY
    for python in READABLE_PYTHONS:
        place.python = python
        try:
            can_run = place.run("--version")[0] == 0
        except OSError:
            can_run = False
        if can_run:
            break
    else:
        pytest.skip("no Python that another user may run")
    os.unlink(os.path.join(place.path, "jobs.db"))
    place.add()
    result = place.run(*COMMANDS[command], NPROC=processes)
    assert_explained(result, place)
    assert "ulimit -u" in result[2] or result[0] in (0, 5)


@pytest.mark.parametrize(
    "words",
    [["run", "jobs.db"], ["status", "jobs.db"], ["profiles"], ["wait", "x", "--bucket", "b"]],
)
def test_a_working_directory_that_was_removed_is_named(place, words):
    program = "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
    program += "from pollkit.cli import main; sys.exit(main(sys.argv[1:]))"
    script = os.path.join(place.path, "script.py")  # with -c, Python 3.13 itself would fail
    with open(script, "w") as file:
        file.write(program)
    done = subprocess.run(
        [sys.executable, script] + words,
        cwd=place.path,
        env={"PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    err = done.stderr.decode("utf-8")
    assert (done.returncode, done.stdout, err.count("\n")) == (2, b"", 1)
    assert "No such file" in err or "no longer exists" in err or "not a URL" in err


# A damaged ledger


def flip(data, rng):
    for _ in range(rng.choice([1, 5, 50, 500])):
        data[rng.randrange(len(data))] = rng.randrange(256)


def cut(data, rng):
    del data[rng.randrange(len(data)) :]


def erase(data, rng):
    start = rng.randrange(len(data))
    data[start : start + 4096] = bytes(4096)


@pytest.mark.parametrize("damage", [flip, cut, erase])
def test_a_damaged_ledger_works_or_is_one_line(place, pollkit, monkeypatch, damage):
    monkeypatch.chdir(place.path)
    monkeypatch.setenv("POLLKIT_PROFILES", "mine.ini")
    with open("jobs.db", "rb") as file:
        whole = file.read()
    for seed in range(25):
        data = bytearray(whole)
        damage(data, random.Random(seed))
        for words in (
            ["status", "jobs.db", "--json"],
            ["run", "jobs.db", "--dry-run"],
            ["add", "jobs.db", "four", "--profile", "fake"],
            ["forget", "jobs.db", "one"],
            ["run", "jobs.db", "--once"],
        ):
            for suffix in ("-wal", "-shm", "-journal"):
                if os.path.exists("jobs.db" + suffix):
                    os.unlink("jobs.db" + suffix)
            with open("jobs.db", "wb") as file:
                file.write(data)
            code, out, err = pollkit(*words)
            assert "bug" not in err and "pollkit failed" not in err, (seed, words, err)
            if code == 2:
                assert err.count("\n") == 1 or words[0] == "run", (seed, words, err)
