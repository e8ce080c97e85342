"""pollkit.pyz: its content, how it is built, and how it runs."""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import zipfile

import pytest

import pollkit
from bare_python import run
from paths import ROOT
from zipapp_build import CONTENTS, Contents, files_of

SCRIPTS = os.path.join(ROOT, "scripts")
LOGGED = r"\d\d:\d\d:\d\d .*"


def test_the_same_source_makes_the_same_bytes_in_every_checkout(copied, tmp_path):
    def build_small():
        code, out, err = run(
            str(copied / "scripts" / "build_zipapp.py"), cwd=str(tmp_path), env={"TZ": "Asia/Tokyo"}
        )
        assert (code, err) == (0, "")
        data = (tmp_path / "pollkit.pyz").read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        assert out == "pollkit.pyz: %d bytes, SHA-256 %s\n" % (len(data), digest)
        return data

    for path in copied.glob("pollkit/*/*"):  # a smaller package is enough, and faster
        if path.is_dir():
            shutil.rmtree(str(path))
        elif path.name[0] not in "uw":
            path.unlink()
    clean = build_small()
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
        assert build_small() == clean
    finally:
        os.umask(before)


def test_it_is_small_and_executable(pyz):
    assert os.path.getsize(pyz) < 400000
    assert os.name == "nt" or stat.S_IMODE(os.stat(pyz).st_mode) == 0o755
    with open(pyz, "rb") as file:
        assert file.readline() == b"#!/usr/bin/env python3\n"


def test_it_has_the_style_and_the_script_of_reports(zipped, tmp_path_factory):
    page = tmp_path_factory.mktemp("report") / "report.html"
    assert zipped("report", "--from", "-", "-o", str(page))[0] == 0
    text = page.read_text(encoding="utf-8")
    assert "prefers-color-scheme" in text and "addEventListener" in text


def test_it_contains_the_whole_package_and_nothing_else(pyz):
    expected = {"__main__.py", "LICENSE"}
    for folder, _, files in os.walk(os.path.join(ROOT, "pollkit")):
        names = {
            os.path.relpath(os.path.join(folder, name), ROOT).replace(os.sep, "/") for name in files
        }
        expected |= {name for name in names if "__pycache__" not in name}
    assert sorted(files_of(pyz)) == sorted(expected)
    assert {
        "pollkit/py.typed",
        "pollkit/edges/profiles/builtin.ini",
        "pollkit/cli/schema.json",
        "pollkit/cli/topics/profiles.txt",
    } < expected


def test_it_is_a_zip_file_with_the_loader_and_the_contents(pyz):
    with zipfile.ZipFile(pyz) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["__main__.py", "pollkit/__init__.py", CONTENTS]
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def run_code(pyz, code):
    return run("-I", "-c", "import sys; sys.path.insert(0, %r)\n%s" % (pyz, code))


def test_programs_can_import_it_from_the_file(pyz):
    code = (
        "import pollkit, pollkit.core\n"
        "print(pollkit.Fixed(2).every, pollkit.__file__, pollkit.core.__path__)"
    )
    file_name = os.path.join(pyz, "pollkit", "__init__.py")
    folders = [os.path.join(pyz, "pollkit", "core")]
    assert run_code(pyz, code) == (0, "2.0 %s %s\n" % (file_name, folders), "")


def test_a_module_that_it_lacks_can_not_be_imported(pyz):
    code, _, err = run_code(pyz, "import pollkit.no_such")
    assert code == 1
    assert err.endswith("ModuleNotFoundError: No module named 'pollkit.no_such'\n")


def test_a_file_that_it_lacks_is_not_found(pyz):
    contents = Contents(pyz, b"1 pollkit/a.py\n\nx")
    assert contents.get_data(os.path.join(pyz, "pollkit", "a.py")) == b"x"
    with pytest.raises(FileNotFoundError):
        contents.get_data(os.path.join(pyz, "pollkit", "b.py"))
    with pytest.raises(ImportError):
        contents.get_source("pollkit.b")


def test_tracebacks_show_the_source_with_the_line_numbers_of_the_repository(pyz):
    code = (
        "import pollkit, traceback\n"
        "try: pollkit.Fixed('often')\n"
        "except pollkit.ConfigError: traceback.print_exc()"
    )
    _, _, err = run_code(pyz, code)
    path, number, shown = re.findall(r'File "(.*)", line (\d+), in \w+\n +(.*)\n', err)[-1]
    assert path.startswith(os.path.join(pyz, "pollkit", ""))
    with open(os.path.join(ROOT, os.path.relpath(path, pyz)), encoding="utf-8") as file:
        line = file.read().split("\n")[int(number) - 1]
    assert shown and line.strip().startswith(shown)


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
