"""One file on a host, and the scripts of a copied folder: run as cron runs them."""

import configparser
import fnmatch
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
import zlib

import pytest

import pollkit
from paths import ROOT
from pollkit.testing import FakeJobApi

SCRIPTS = os.path.join(ROOT, "scripts")
LOGGED = r"\d\d:\d\d:\d\d .*"


def run(*command, **options):
    """Run it with the bare environment that it gets; stdout and stderr come back as text."""
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


@pytest.fixture(scope="session")
def pyz(tmp_path_factory):
    """pollkit.pyz, alone in its folder."""
    path = str(tmp_path_factory.mktemp("pyz") / "pollkit.pyz")
    code, out, err = run(os.path.join(SCRIPTS, "build_zipapp.py"), "-o", path)
    assert (code, err) == (0, "")
    with open(path, "rb") as file:
        data = file.read()
    assert out == "%s: %d bytes, SHA-256 %s\n" % (path, len(data), hashlib.sha256(data).hexdigest())
    return path


@pytest.fixture
def zipped(pyz, tmp_path):
    """Runs the file from an empty folder, isolated, without LANG and HOME."""

    def runs(*words, **options):
        result = run("-I", pyz, *words, cwd=str(tmp_path), **options)
        assert os.listdir(str(tmp_path)) == []
        return result

    return runs


@pytest.fixture
def api():
    with FakeJobApi() as served:
        served.add("job_1", result={"town": "Zürich"})
        served.add("job_2", fails="page 7 can't be read")
        yield served


@pytest.fixture
def copied(tmp_path):
    """A copy of what a checkout has, with the line ends, dates and leftovers of somebody else's."""
    root = tmp_path / "copy"
    for folder in ("pollkit", "scripts"):
        shutil.copytree(
            os.path.join(ROOT, folder),
            str(root / folder),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    shutil.copy(os.path.join(ROOT, "LICENSE"), str(root))
    return root


def test_the_same_source_makes_the_same_bytes_whatever_checkout_it_comes_from(copied, tmp_path):
    def built():
        code, out, err = run(
            str(copied / "scripts" / "build_zipapp.py"), cwd=str(tmp_path), env={"TZ": "Asia/Tokyo"}
        )
        assert (code, err) == (0, "")
        return (tmp_path / "pollkit.pyz").read_bytes()

    for folder in ("cli", "edges", "drivers"):  # less is enough to see it by
        shutil.rmtree(str(copied / "pollkit" / folder))
    for path in copied.glob("pollkit/core/[a-t]*.py"):
        path.unlink()
    clean = built()
    for path in list(copied.glob("pollkit/**/*")) + [copied / "LICENSE"]:
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
            path.chmod(0o700)
            os.utime(str(path), (1e9, 1e9))
    (copied / "pollkit" / "core" / "__pycache__").mkdir()
    for name in (
        "core/__pycache__/words.cpython-36.py",
        "core/words.py~",
        ".#errors.py",
        "core/words.pyc",
    ):
        (copied / "pollkit" / name).write_text("left over")
    before = os.umask(0o077)
    try:
        assert built() == clean
    finally:
        os.umask(before)


def test_it_is_small_executable_and_begins_with_the_line_that_finds_python(pyz):
    assert os.path.getsize(pyz) < 400000
    assert os.name == "nt" or stat.S_IMODE(os.stat(pyz).st_mode) == 0o755
    with open(pyz, "rb") as file:
        assert file.readline() == b"#!/usr/bin/env python3\n"


def test_it_has_the_whole_package_and_nothing_else(pyz):
    expected = {"__main__.py", "LICENSE"}
    for folder, _, files in os.walk(os.path.join(ROOT, "pollkit")):
        names = {
            os.path.relpath(os.path.join(folder, name), ROOT).replace(os.sep, "/") for name in files
        }
        expected |= {name for name in names if "__pycache__" not in name}
    with zipfile.ZipFile(pyz) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == sorted(expected)
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert {
        "pollkit/py.typed",
        "pollkit/edges/profiles/builtin.ini",
        "pollkit/cli/topics/profiles.txt",
    } < expected


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--version"], r"pollkit %s\n" % re.escape(pollkit.__version__)),
        (["--help"], r"usage: pollkit COMMAND(?s:.*)\n  wait "),
        (["wait", "--help"], r"usage: pollkit wait (?s:.*)--token-env VAR"),
        (["help", "profiles"], r"PROFILES: "),
        (["profiles", "show", "knowhere"], r"\[knowhere\]\n(?s:.*)\n\[knowhere:small\]"),
    ],
)
def test_the_file_says_all_it_knows(zipped, words, expected):
    code, out, err = zipped(*words)
    assert (code, err) == (0, "")
    assert re.match(expected, out), out


def test_the_file_waits_for_a_job(zipped, api):
    code, out, err = zipped("wait", api.url("job_1"))
    outcome = json.loads(out)
    assert (code, outcome["state"], outcome["result"], outcome["polls"]) == (
        0,
        "done",
        {"town": "Zürich"},
        1,
    )
    assert re.fullmatch(LOGGED + r"/job_1: done \(.*, 1 poll\)\n", err), err


def test_the_file_waits_for_the_jobs_of_its_standard_input(zipped, api):
    code, out, err = zipped(
        "batch", "-", "--quiet", given="\n".join(map(api.url, ["job_1", "job_2"])).encode()
    )
    assert (code, err) == (1, "")
    assert sorted(json.loads(line)["state"] for line in out.splitlines()) == ["done", "failed"]


def test_the_file_says_by_its_exit_code_what_went_wrong(zipped, api):
    assert zipped("wait", api.url("job_2"), "--quiet")[0] == 1
    code, out, err = zipped("wait", "job_1", "--profile", "knowher")
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith("pollkit: ")
    assert zipped("wait", "http://127.0.0.1:9/jobs/1", "--max-faults", "1", "--quiet")[0] == 4


def test_the_file_runs_the_demo(zipped):
    code, out, err = zipped("demo", "--quick")
    assert code == 0
    assert "12 jobs, " in out and "scan-5 failed on purpose" in out
    assert all(re.match(LOGGED, line) for line in err.splitlines()), err


def test_the_file_unpacked_runs_too_and_keeps_its_bytecode(pyz, tmp_path):
    """Quicker from the second start on: for hosts where cron starts it every minute."""
    with zipfile.ZipFile(pyz) as archive:
        archive.extractall(str(tmp_path / "unpacked"))
    assert run("-I", str(tmp_path / "unpacked"), "--version") == (
        0,
        "pollkit %s\n" % pollkit.__version__,
        "",
    )
    assert (tmp_path / "unpacked" / "pollkit" / "__pycache__").is_dir()


def test_an_installed_pollkit_has_its_data_files_too():
    config = configparser.ConfigParser()
    config.read(os.path.join(ROOT, "setup.cfg"), encoding="utf-8")
    patterns = [pattern.strip() for pattern in config["options.package_data"]["*"].split(",")]
    for folder, folders, files in os.walk(os.path.join(ROOT, "pollkit")):
        folders[:] = [
            name for name in folders if name != "__pycache__"
        ]  # where others may be writing just now
        package = folder
        while not os.path.exists(
            os.path.join(package, "__init__.py")
        ):  # data may stand below its package
            package = os.path.dirname(package)
        names = [
            os.path.relpath(os.path.join(folder, name), package).replace(os.sep, "/")
            for name in files
        ]
        for name in names:
            if not name.endswith((".py", ".pyc")):
                assert any(
                    fnmatch.fnmatch(name, pattern) and name.count("/") == pattern.count("/")
                    for pattern in patterns
                ), os.path.join(folder, name)


def pythons_2():
    return [
        path
        for path in [shutil.which("python2"), shutil.which("python2.7")]
        + [
            os.path.join(
                os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"),
                "versions/2.7.18/bin/python",
            )
        ]
        if path and os.path.exists(path) and "shims" not in path
    ]  # a shim takes a second to say that there is none


@pytest.mark.parametrize("name", ["pollkit.pyz", "poll_job.py", "poll_batch.py", "poll_cron.py"])
def test_a_python_that_is_too_old_is_told_so(pyz, name):
    for python in pythons_2():
        done = subprocess.run(
            [python, pyz if name == "pollkit.pyz" else os.path.join(SCRIPTS, name), "--version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if b"Python 2.7" in done.stderr:  # pyenv has a python2 that only says that there is none
            assert re.fullmatch(
                rb"poll.*: this is Python 2\.7, and pollkit needs 3\.6 .*\n", done.stderr
            )
            assert (done.returncode, done.stdout) == (2, b"")
            return
    pytest.skip("there is no Python 2 here")


@pytest.mark.parametrize(
    "place, name",
    [  # but for their command they are the same
        ("beside the folder", "poll_job.py"),
        ("beside the script", "poll_batch.py"),
        ("pyz beside the script", "poll_cron.py"),
        ("by a link", "poll_job.py"),
    ],
)
def test_the_scripts_run_from_a_copied_folder_and_from_anywhere(
    place, name, copied, pyz, tmp_path, api
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = copied / "scripts" / name
    if place == "beside the script":
        (copied / "pollkit").rename(copied / "scripts" / "pollkit")
    elif place == "pyz beside the script":
        shutil.rmtree(str(copied / "pollkit"))
        shutil.copy(pyz, str(copied / "scripts"))
    elif place == "by a link":
        script = tmp_path / "a link"
        script.symlink_to(copied / "scripts" / name)
    words = {
        "poll_job.py": [api.url("job_1")],
        "poll_batch.py": ["-"],
        "poll_cron.py": ["jobs.db", "--outbox", "/dev/stdout"],
    }[name]
    with pollkit.Ledger(str(elsewhere / "jobs.db")) as ledger:
        ledger.add([api.url("job_1")])
    code, out, err = run(
        "-I", str(script), *words + ["--quiet"], cwd=str(elsewhere), given=api.url("job_1").encode()
    )
    assert (code, err) == (0, "")
    assert json.loads(out)["result"] == {"town": "Zürich"}


@pytest.mark.parametrize("name", ["poll_job.py", "poll_batch.py", "poll_cron.py"])
def test_a_script_without_its_package_says_so_in_a_line(name, tmp_path):
    shutil.copy(os.path.join(SCRIPTS, name), str(tmp_path))
    code, out, err = run("-I", str(tmp_path / name), "job_1", cwd="/")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"%s: pollkit is not there: copy .*\n" % name, err), err


def test_the_scripts_differ_in_their_command_alone():
    texts = set()
    for name in ("poll_job.py", "poll_batch.py", "poll_cron.py"):
        with open(os.path.join(SCRIPTS, name), encoding="utf-8") as file:
            texts.add(
                re.sub('COMMAND = "(wait|batch|run)"', "", file.read().split("\nimport os\n")[1])
            )
    assert len(texts) == 1


@pytest.mark.parametrize(
    "words, missing, said",
    [
        (
            ["-o", "no/such/folder/x.pyz"],
            None,
            r"can't write no/such/folder/x\.pyz: No such file or directory",
        ),
        (["-o", "."], None, r"can't write \.: .*"),
        ([], "pollkit", r"can't read .*__init__\.py: No such file or directory"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_line_and_nothing_is_left(
    copied, tmp_path, words, missing, said
):
    if missing:
        shutil.rmtree(str(copied / missing))
    here = tmp_path / "here"
    here.mkdir()
    code, out, err = run(str(copied / "scripts" / "build_zipapp.py"), *words, cwd=str(here))
    assert (code, out) == (1, "")
    assert re.fullmatch(r"build_zipapp\.py: %s\n" % said, err), err
    assert list(here.iterdir()) == []


class TestDeflated:
    @pytest.fixture(autouse=True)
    def deflated(self, monkeypatch):
        monkeypatch.syspath_prepend(SCRIPTS)
        from deflate import deflate

        return deflate

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"a",
            b"ab",
            b"abc",
            b"aaaa",
            b"abcabc",
            bytes(range(256)),
            b"x" * 257,
            b"x" * 258,
            b"x" * 259,
            b"x" * 260,
            b"x" * 261,
            b"x" * 100000,
            bytes(range(256)) * 140,
            b"far" + bytes(32765) + b"far",
            b"far" + bytes(32766) + b"far",
            b"abcde bcdef abcdef",
            b"".join(b"%d " % (i * i) for i in range(3000)),
        ],
        ids=lambda data: "%d bytes" % len(data),
    )
    def test_zlib_makes_the_same_of_it_again(self, data, deflated):
        assert zlib.decompress(deflated(data), -15) == data

    def test_any_python_makes_the_same_stream(self, deflated):
        """A figure, not a comparison: this test is run by each of them."""
        data = "".join("%d: %d\n" % (i, i * i % 97) for i in range(2000)).encode()
        assert hashlib.sha256(deflated(data)).hexdigest() == (
            "f38d8373ee64344b6a8f39792a37dcb5857ff13e9a228908a68edbd024821ab0"
        )
