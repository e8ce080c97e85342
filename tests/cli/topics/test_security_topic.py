"""Every test that `pollkit help security` names exists, and every promise names one."""

import os
import re

from paths import ROOT
from pollkit.cli.commands.program.help import text_of

TEXT = text_of("security")
PROMISES = TEXT.partition("CREDENTIALS\n")[2].partition("NOT PROMISED")[0]


def test_every_named_test_exists():
    named = re.findall(r"^    (tests/\S+\.py)(?:\n    (test_\w+))?$", TEXT, re.MULTILINE)
    assert len(named) > 15
    for path, function in named:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            source = file.read()
        assert re.search(r"^def %s\w*\(" % (function or "test_"), source, re.MULTILINE), path
        assert not function or "def %s(" % function in source


def test_every_promise_names_its_test():
    """A line of prose is followed by more prose or by a test, never by the next heading."""
    lines = [line for line in PROMISES.splitlines() if line]
    headings = [line for line in lines if line.isupper()]
    assert len(headings) == 3  # and the one before
    for line, after in zip(lines, lines[1:]):
        if after.isupper():
            assert line.startswith("    test"), line
