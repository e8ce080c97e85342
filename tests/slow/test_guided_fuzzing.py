"""scripts/fuzz.py --atheris: fuzzing that is guided by coverage."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from paths import ROOT

SCRIPT = os.path.join(ROOT, "scripts", "fuzz.py")


def fuzz(script, *arguments):
    done = subprocess.run(
        [sys.executable, script, "--atheris", "--seed", "1"] + list(arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    return done.returncode, done.stdout


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the newest Python will do")
def test_some_seconds_of_guided_fuzzing_find_no_failure():
    if os.environ.get("CI") != "true":
        pytest.importorskip("atheris")
    code, out = fuzz(SCRIPT, "parser", "--seconds", "3")
    assert code == 0, out
    runs = re.search(r"Done (\d+) runs", out)
    coverage = re.search(r"DONE +cov: (\d+)", out)
    assert int(runs.group(1)) > 100 and int(coverage.group(1)) > 50


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the newest Python will do")
def test_a_failure_is_reported_as_in_any_other_run(tmp_path):
    if os.environ.get("CI") != "true":
        pytest.importorskip("atheris")
    for name in ("pollkit", "scripts"):
        shutil.copytree(os.path.join(ROOT, name), str(tmp_path / name))
    urls = tmp_path / "pollkit" / "core" / "urls.py"
    urls.write_text(urls.read_text() + "\n\ndef redact_url(url):\n    return url\n")
    script = str(tmp_path / "scripts" / "fuzz.py")
    code, out = fuzz(script, "urls", "--seconds", "60")
    assert code == 1
    assert "urls: FAILED: a secret is shown" in out and "--data LITERAL" in out
