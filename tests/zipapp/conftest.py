"""pollkit.pyz, a copy of the checkout, and a job API."""

import os
import shutil

import pytest

from bare_python import run
from paths import ROOT
from pollkit.testing import FakeJobApi
from zipapp_build import build


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
