"""The texts of `pollkit help`, and the examples in them and in the README."""

import importlib
import io
import os
import re
import shlex

import pytest

from paths import ROOT
from pollkit.cli.commands.program.help import TOPICS, text_of
from pollkit.cli.main import COMMANDS, module_name

TEXTS = {topic: text_of(topic) for topic in TOPICS}
# An indented command, perhaps after cron's five fields, `cd ... &&` or `flock ...`. Lines with a
# deeper indentation are prose.
EXAMPLE = re.compile(
    r"^ {2,4}(?:[\d*/,-]+(?: [\d*/,-]+){4} )?(?:cd \S+ && )?(?:flock -n \S+ )?(?:\$ )?"
    r"pollkit (?P<words>\S.*)$"
)
SHELL_OPERATOR = re.compile(r"^(\d?[<>]|\||\|\||&&|;)")


def command_module(command):
    return importlib.import_module(module_name(command))


def parse_example(line):
    """The words of the command in a line, without its description and the shell's part, or None."""
    match = EXAMPLE.match(line)
    if match is None:
        return None
    words = shlex.split(re.split(r"\s{2,}", match.group("words"))[0])
    end = next((i for i, word in enumerate(words) if SHELL_OPERATOR.match(word)), len(words))
    return words[:end]


def read_readme():
    with io.open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        return file.read()


def readme_lines():
    """The lines of the README's code blocks that are not Python, indented like those in topics."""
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", read_readme(), re.MULTILINE | re.DOTALL):
        if kind in ("", "sh", "console"):
            for line in block.splitlines():
                yield "    " + line


def find_examples():
    places = {"help " + topic: text.splitlines() for topic, text in TEXTS.items()}
    places.update({command: command_module(command).__doc__.splitlines() for command in COMMANDS})
    places["README"] = readme_lines()
    for place, lines in sorted(places.items()):
        for line in lines:
            words = parse_example(line)
            if words is not None:
                yield pytest.param(words, id="%s: %s" % (place, " ".join(words)))


EXAMPLES = list(find_examples())
