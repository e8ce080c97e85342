"""The picture in the README is, byte by byte, the one that its command draws on every Python."""

import os
import re

from one_python import not_with_the_oldest
from paths import ROOT
from pollkit.cli import main

pytestmark = not_with_the_oldest


def test_the_picture_in_the_readme_is_the_one_its_command_draws(tmp_path, capsys):
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    (path,) = re.findall(r"^!\[.*\]\((\S+\.svg)\)$", readme, re.MULTILINE)
    (command,) = re.findall(
        r"^\$ pollkit (simulate .*) --svg %s$" % re.escape(path), readme, re.MULTILINE
    )
    drawn = tmp_path / "drawn.svg"
    assert main(command.split() + ["--svg", str(drawn)]) == 0
    remedy = "draw it again: pollkit %s --svg %s" % (command, path)
    with open(os.path.join(ROOT, path), "rb") as file:
        assert file.read() == drawn.read_bytes(), remedy
