"""The scripts of a copied folder, and the data files of an installation."""

import configparser
import fnmatch
import json
import os
import re
import shutil

import pytest

import pollkit
from bare_python import run
from paths import ROOT

SCRIPTS = os.path.join(ROOT, "scripts")


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
