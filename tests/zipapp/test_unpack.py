"""`pollkit unpack` makes a folder of pollkit.pyz that runs."""

import json
import os
import stat
import sys

import pytest

import pollkit
from bare_python import run
from pollkit.cli import main
from pollkit.cli.commands.program import unpack
from zipapp_build import files_of


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_unpack_makes_a_folder_that_runs_with_bytecode(pyz, api, tmp_path):
    code, out, err = run("-I", pyz, "unpack", "my pollkit", cwd=str(tmp_path))
    folder = str(tmp_path / "my pollkit")
    assert (code, err) == (0, "")
    assert os.name != "posix" or stat.S_IMODE(os.stat(folder).st_mode) == 0o750
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
@pytest.mark.usefixtures("umask")
def test_an_unpacked_folder_has_the_usual_mode_also_if_it_existed(pyz, tmp_path):
    (tmp_path / "there").mkdir(mode=0o700)
    assert run("-I", pyz, "unpack", "there/", cwd=str(tmp_path))[0] == 0
    assert stat.S_IMODE(os.stat(str(tmp_path / "there")).st_mode) == 0o750


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
