"""Folders of the repository that tests read."""

import io
import os

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
DATA = os.path.join(TESTS, "data")


def read_sources():
    """The text of all modules of the package."""
    texts = []
    for folder, _, names in os.walk(os.path.join(ROOT, "pollkit")):
        for name in names:
            if name.endswith(".py"):
                with io.open(os.path.join(folder, name), encoding="utf-8") as file:
                    texts.append(file.read())
    return "\n".join(texts)
