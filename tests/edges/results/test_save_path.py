"""Where results are saved."""

import contextlib
import json
import os
import sqlite3

import pytest

from pollkit import ConfigError, Ledger
from pollkit.edges.results.result_file import ResultFileError
from pollkit.edges.results.save_path import JsonList, SavePath


def test_each_job_has_its_own_file(tmp_path):
    save = SavePath(str(tmp_path / "r-{id}.json"))
    assert save.write("job_1", {"a": 1}) == str(tmp_path / "r-job_1.json")
    assert save.write("../x", "text") == str(tmp_path / "r-%2E.%2Fx.json")
    assert json.loads((tmp_path / "r-job_1.json").read_text()) == {"a": 1}
    assert (tmp_path / "r-%2E.%2Fx.json").read_text() == "text"


def test_a_path_for_one_job_needs_no_id(tmp_path, monkeypatch):
    monkeypatch.chdir(str(tmp_path))
    assert SavePath("a.json", is_for_one=True).write("job_1", None) == str(tmp_path / "a.json")
    assert (tmp_path / "a.json").read_text() == "null\n"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("a.json", "several jobs"),
        ("{id}/a.json", "name of the file only"),
        ("{label}-{id}", "{label} is unknown"),
        ("gone/{id}.json", "there is no directory"),
        ("", "must be a path"),
        (7, "must be a path"),
    ],
)
def test_a_bad_path_is_one_line(tmp_path, monkeypatch, template, problem):
    monkeypatch.chdir(str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        SavePath(template)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match="a directory: name a file in it"):
        SavePath(str(tmp_path), is_for_one=True)


@pytest.mark.parametrize("name", ["jobs.db", "jobs.db-wal"])
def test_a_ledger_is_never_replaced_whatever_the_id_of_a_job_is(tmp_path, name):
    with Ledger(str(tmp_path / "jobs.db")) as ledger:
        ledger.add(["job_1"])
        with pytest.raises(ResultFileError, match="is a ledger, which must not be replaced"):
            SavePath(str(tmp_path / "{id}")).write(name, "text")
        with pytest.raises(ConfigError, match="is a ledger, which must not be replaced"):
            SavePath(str(tmp_path / name), is_for_one=True)
        assert [row.job.id for row in ledger.jobs()] == ["job_1"]
    assert sorted(os.listdir(str(tmp_path))) == ["jobs.db"]


def test_a_device_a_pipe_or_standard_output_is_never_replaced(tmp_path):
    pipe, device, link = (str(tmp_path / name) for name in ("pipe", "null", "stdout"))
    os.mkfifo(pipe)
    os.symlink("/dev/null", device)
    os.symlink("/proc/self/fd/1", link)
    for path in (pipe, device, link):
        with pytest.raises(ConfigError, match="must not be replaced"):
            SavePath(path, is_for_one=True)
        with pytest.raises(ResultFileError, match="must not be replaced"):
            SavePath(str(tmp_path / "{id}")).write(os.path.basename(path), "text")
    assert sorted(os.listdir(str(tmp_path))) == ["null", "pipe", "stdout"]
    assert os.path.islink(device) and os.path.islink(link)


def test_a_result_that_is_another_database_can_be_replaced(tmp_path):
    path = str(tmp_path / "result.db")
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE jobs (id TEXT)")
    SavePath(path, is_for_one=True).write("job_1", "text")
    assert (tmp_path / "result.db").read_text() == "text"


def test_a_folder_that_this_user_may_not_write_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *arguments: False)  # root may write everywhere
    with pytest.raises(ConfigError, match="this user may not write to"):
        SavePath(str(tmp_path / "{id}"))


def test_only_the_name_tells_whether_html_is_expected(tmp_path):
    assert SavePath(str(tmp_path / "{id}.HTML")).can_be_html
    assert not SavePath(str(tmp_path / "{id}.json")).can_be_html


@pytest.mark.parametrize("values", [[], [1], [1, {"a": [2]}, "x"]])
def test_a_list_is_written_part_by_part(tmp_path, values):
    with SavePath(str(tmp_path / "{id}")).file_for("a") as file:
        output = JsonList(file)
        for value in values:
            output.extend([value])
        output.finish()
    assert json.loads((tmp_path / "a").read_text()) == values


@pytest.mark.parametrize("suffix", ["", ".json", ".part", ".etag"])
def test_no_id_names_the_unfinished_file_of_another_job(tmp_path, suffix):
    path = SavePath(str(tmp_path / ("{id}" + suffix)))
    for ending in (".part", ".etag", ".part.etag", suffix + ".part", suffix + ".part.etag"):
        saved = path.write("a" + ending, "precious")
        with path.file_for("a") as file:
            file.begin(200, {"etag": '"v1"'})
            file.write(b"the beginning")
            with open(saved) as result:
                assert result.read() == "precious"
