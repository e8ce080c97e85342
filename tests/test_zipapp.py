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
from pollkit.cli.commands.program import unpack
from pollkit.testing import FakeJobApi
from zipapp_build import CONTENTS, Contents, build

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
    build(path)
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


def files_of(pyz):
    """The files that are compressed together in the archive."""
    with zipfile.ZipFile(pyz) as archive:
        return Contents(pyz, archive.read(CONTENTS)).files


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
    for name, content in files_of(pyz).items():
        with open(os.path.join(folder, name), "rb") as file:
            assert file.read() == content
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


def test_a_failed_unpack_leaves_nothing(tmp_path, monkeypatch, capsys):
    """Here a file has the name of a folder."""
    files = {"__main__.py": b"", "pollkit": b"", "pollkit/__init__.py": b""}
    monkeypatch.setattr(unpack, "_files_of_archive", lambda: files)
    assert main(["unpack", str(tmp_path / "new")]) == 2
    assert "can't unpack to" in capsys.readouterr().err
    assert os.listdir(str(tmp_path)) == []
