"""pollkit.pyz and the scripts of a copied folder, run in an environment like that of cron."""

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

import pytest

import pollkit
from paths import ROOT
from pollkit.cli import main
from pollkit.cli.commands import unpack
from pollkit.testing import FakeJobApi

SCRIPTS = os.path.join(ROOT, "scripts")
LOGGED = r"\d\d:\d\d:\d\d .*"


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


@pytest.fixture(scope="session")
def pyz(tmp_path_factory):
    """The path of pollkit.pyz, the only file in its folder."""
    path = str(tmp_path_factory.mktemp("pyz") / "pollkit.pyz")
    code, out, err = run(os.path.join(SCRIPTS, "build_zipapp.py"), "-o", path)
    assert (code, err) == (0, "")
    with open(path, "rb") as file:
        data = file.read()
    assert out == "%s: %d bytes, SHA-256 %s\n" % (path, len(data), hashlib.sha256(data).hexdigest())
    return path


@pytest.fixture
def zipped(pyz, tmp_path):
    """A function that runs the file in an empty folder, isolated, without LANG and HOME."""

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
    """A copy of the checkout, without bytecode."""
    root = tmp_path / "copy"
    for folder in ("pollkit", "scripts"):
        shutil.copytree(
            os.path.join(ROOT, folder),
            str(root / folder),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    shutil.copy(os.path.join(ROOT, "LICENSE"), str(root))
    return root


def test_the_same_source_makes_the_same_bytes_in_every_checkout(copied, tmp_path):
    def build():
        code, out, err = run(
            str(copied / "scripts" / "build_zipapp.py"), cwd=str(tmp_path), env={"TZ": "Asia/Tokyo"}
        )
        assert (code, err) == (0, "")
        return (tmp_path / "pollkit.pyz").read_bytes()

    for folder in ("cli", "edges", "drivers"):  # a smaller package is enough, and faster
        shutil.rmtree(str(copied / "pollkit" / folder))
    for path in copied.glob("pollkit/core/[a-t]*.py"):
        path.unlink()
    clean = build()
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
        assert build() == clean
    finally:
        os.umask(before)


def test_it_is_small_and_executable(pyz):
    assert os.path.getsize(pyz) < 400000
    assert os.name == "nt" or stat.S_IMODE(os.stat(pyz).st_mode) == 0o755
    with open(pyz, "rb") as file:
        assert file.readline() == b"#!/usr/bin/env python3\n"


def test_it_contains_the_whole_package_and_nothing_else(pyz):
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
        "pollkit/cli/schema.json",
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
def test_the_file_prints_its_documentation_and_profiles(zipped, words, expected):
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


def test_the_file_has_the_exit_codes_of_the_command_line(zipped, api):
    assert zipped("wait", api.url("job_2"), "--quiet")[0] == 1
    code, out, err = zipped("wait", "job_1", "--profile", "knowher")
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith("pollkit: ")
    assert zipped("wait", "http://127.0.0.1:9/jobs/1", "--max-faults", "1", "--quiet")[0] == 4


def test_the_file_runs_the_demo(zipped):
    code, out, err = zipped("demo", "--quick")
    assert code == 0
    assert "12 jobs, " in out and "scan-5 failed on purpose" in out
    assert all(re.match(LOGGED, line) for line in err.splitlines()), err


def test_the_unpacked_file_runs_and_stores_its_bytecode(pyz, tmp_path):
    """The bytecode makes later starts faster, for hosts where cron starts it every minute."""
    with zipfile.ZipFile(pyz) as archive:
        archive.extractall(str(tmp_path / "unpacked"))
    assert run("-I", str(tmp_path / "unpacked"), "--version") == (
        0,
        "pollkit %s\n" % pollkit.__version__,
        "",
    )
    assert (tmp_path / "unpacked" / "pollkit" / "__pycache__").is_dir()


def test_the_installation_includes_the_data_files():
    config = configparser.ConfigParser()
    config.read(os.path.join(ROOT, "setup.cfg"), encoding="utf-8")
    patterns = [pattern.strip() for pattern in config["options.package_data"]["*"].split(",")]
    for folder, folders, files in os.walk(os.path.join(ROOT, "pollkit")):
        # Other tests may be writing bytecode.
        folders[:] = [name for name in folders if name != "__pycache__"]
        package = folder
        while not os.path.exists(os.path.join(package, "__init__.py")):
            package = os.path.dirname(package)  # data may be in a folder below its package
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
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    paths = [
        shutil.which("python2"),
        shutil.which("python2.7"),
        os.path.join(pyenv, "versions/2.7.18/bin/python"),
    ]
    # A shim of pyenv takes a second to report that there is no Python 2.
    return [path for path in paths if path and os.path.exists(path) and "shims" not in path]


@pytest.mark.parametrize("name", ["pollkit.pyz", "poll_job.py", "poll_batch.py", "poll_cron.py"])
def test_python_2_gets_an_error_that_names_the_required_version(pyz, name):
    for python in pythons_2():
        done = subprocess.run(
            [python, pyz if name == "pollkit.pyz" else os.path.join(SCRIPTS, name), "--version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if b"Python 2.7" in done.stderr:  # not a shim of pyenv
            assert re.fullmatch(
                rb"poll.*: this is Python 2\.7, and pollkit needs 3\.6 .*\n", done.stderr
            )
            assert (done.returncode, done.stdout) == (2, b"")
            return
    pytest.skip("there is no Python 2 here")


@pytest.mark.parametrize(
    "place, name",
    [  # the scripts differ only in their command
        ("beside the folder", "poll_job.py"),
        ("beside the script", "poll_batch.py"),
        ("pyz beside the script", "poll_cron.py"),
        ("by a link", "poll_job.py"),
    ],
)
def test_the_scripts_run_from_a_copied_folder_in_any_directory(
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
def test_a_script_without_its_package_is_one_line(name, tmp_path):
    shutil.copy(os.path.join(SCRIPTS, name), str(tmp_path))
    code, out, err = run("-I", str(tmp_path / name), "job_1", cwd="/")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"%s: pollkit is not there: copy .*\n" % name, err), err


def test_the_scripts_differ_only_in_their_command():
    texts = set()
    for name in ("poll_job.py", "poll_batch.py", "poll_cron.py"):
        with open(os.path.join(SCRIPTS, name), encoding="utf-8") as file:
            texts.add(
                re.sub('COMMAND = "(wait|batch|run)"', "", file.read().split("\nimport os\n")[1])
            )
    assert len(texts) == 1


@pytest.mark.parametrize(
    "words, missing, message",
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
def test_a_failed_build_is_one_line_and_leaves_no_file(copied, tmp_path, words, missing, message):
    if missing:
        shutil.rmtree(str(copied / missing))
    here = tmp_path / "here"
    here.mkdir()
    code, out, err = run(str(copied / "scripts" / "build_zipapp.py"), *words, cwd=str(here))
    assert (code, out) == (1, "")
    assert re.fullmatch(r"build_zipapp\.py: %s\n" % message, err), err
    assert list(here.iterdir()) == []


def test_unpack_makes_a_folder_that_runs_with_bytecode(pyz, api, tmp_path):
    code, out, err = run("-I", pyz, "unpack", "my pollkit", cwd=str(tmp_path))
    folder = str(tmp_path / "my pollkit")
    assert (code, err) == (0, "")
    assert out == "pollkit %s is in %s. Use it as:\n  %s '%s' wait URL\n" % (
        pollkit.__version__,
        folder,
        os.path.basename(sys.executable),
        folder,
    )
    assert os.listdir(str(tmp_path)) == ["my pollkit"]
    with zipfile.ZipFile(pyz) as archive:
        for name in archive.namelist():
            with open(os.path.join(folder, name), "rb") as file:
                assert file.read() == archive.read(name)
            if name.endswith(".py"):
                where, module = os.path.split(os.path.join(folder, name))
                cached = os.listdir(os.path.join(where, "__pycache__"))
                assert any(each.startswith(module[:-2]) for each in cached), name
    code, out, _ = run(folder, "wait", api.url("job_1"))
    assert code == 0 and json.loads(out)["state"] == "done"


@pytest.mark.skipif(os.name != "posix", reason="needs modes")
@pytest.mark.parametrize("umask, mode", [(0o022, 0o755), (0o077, 0o700)])
def test_an_unpacked_folder_has_the_usual_mode_also_if_it_existed(pyz, tmp_path, umask, mode):
    (tmp_path / "there").mkdir()
    before = os.umask(umask)
    try:
        assert run("-I", pyz, "unpack", "there/", cwd=str(tmp_path))[0] == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(str(tmp_path / "there")).st_mode) == mode


@pytest.mark.parametrize(
    "folder, message",
    [
        ("full", "full exists, and is not empty: name another folder"),
        ("file", "file is not a folder: name another"),
        ("no/such", "no: there is no such folder: create it first"),
    ],
)
def test_unpack_refuses_a_folder_that_is_not_free_and_changes_nothing(
    pyz, tmp_path, folder, message
):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    (tmp_path / "file").write_text("x")
    before = sorted(str(path) for path in tmp_path.glob("**/*"))
    code, out, err = run("-I", pyz, "unpack", folder, cwd=str(tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1) and message in err
    assert sorted(str(path) for path in tmp_path.glob("**/*")) == before


def test_unpack_refuses_to_run_from_a_folder(tmp_path, capsys):
    assert main(["unpack", str(tmp_path / "new")]) == 2
    assert "does not run from a .pyz" in capsys.readouterr().err
    assert os.listdir(str(tmp_path)) == []


def test_a_failed_unpack_leaves_nothing(pyz, tmp_path, monkeypatch, capsys):
    """Here the last file of the archive is damaged."""
    damaged = tmp_path / "pollkit.pyz"
    shutil.copy(pyz, str(damaged))
    with zipfile.ZipFile(str(damaged)) as archive:
        offset = archive.infolist()[-1].header_offset
    data = damaged.read_bytes()
    damaged.write_bytes(data[: offset + 60] + bytes(40) + data[offset + 100 :])
    monkeypatch.setattr(unpack, "_running_archive", lambda: str(damaged))
    assert main(["unpack", str(tmp_path / "new")]) == 2
    assert "can't unpack to" in capsys.readouterr().err
    assert os.listdir(str(tmp_path)) == ["pollkit.pyz"]
