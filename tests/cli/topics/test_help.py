"""Commands, flags, keys and exit codes are documented, and every topic can be read."""

import os
import pkgutil
import re
import subprocess
import sys
import zipfile

import pytest

from help_texts import TEXTS, command_module, parse_example, read_readme
from paths import ROOT
from pollkit.cli import exit_codes as exits
from pollkit.cli.commands.program.help import SCHEMA, TOPICS, see_also
from pollkit.cli.main import COMMANDS, build_parser, help_text, main
from pollkit.core.model import State
from pollkit.edges.profiles.keys import HEADER, KEYS


def command_flags(command):
    return [
        action
        for action in build_parser(command)._actions
        if action.option_strings and action.dest != "help"
    ]


# Commands and flags


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help_with_examples(command, capsys):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    block = out.partition("\nexamples:\n")[2].partition("\n\n")[0]
    found = [parse_example(line) for line in block.splitlines()]
    assert found and all(words and words[0] == command for words in found), block


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_is_in_the_overview_and_in_a_topic_or_the_readme(command):
    assert re.search(r"^  %s +\S" % command, help_text(), re.MULTILINE)
    if command != "demo":  # the demo explains itself
        assert re.search(r"\bpollkit %s\b" % command, read_readme() + "".join(TEXTS.values()))


def test_every_flag_has_a_description():
    undescribed = [
        "%s %s" % (command, action.option_strings[-1])
        for command in COMMANDS
        for action in command_flags(command)
        if not (action.help or "").strip()
    ]
    assert undescribed == []


def test_every_argument_has_a_description():
    for command in COMMANDS:
        for action in build_parser(command)._actions:
            assert action.help, (command, action.dest)


def test_a_flag_has_the_same_metavar_in_every_command():
    metavars = {}
    for command in COMMANDS:
        flags = [action for action in command_flags(command) if action.nargs != 0]
        for action in flags:
            metavars.setdefault(action.option_strings[-1], set()).add(action.metavar)
    assert {flag: names for flag, names in metavars.items() if len(names) > 1} == {}


@pytest.mark.parametrize(
    "flag",
    [
        "--pace",
        "--timeout",
        "--limit",
        "--proxy",
        "--transport",
        "--ca-file",
        "--client-cert",
        "--client-key",
        "--profile",
        "--profiles",
        "--base-url",
        "--label",
        "--size",
        "--quiet",
        "--result",
        "--progress",
        "--history",
        "--output",
        "--resume",
        "--listen",
        "--listen-secret",
    ],
)
def test_flags_that_need_more_than_one_line_are_explained_in_a_topic(flag):
    assert any(re.search(re.escape(flag) + r"\b", text) for text in TEXTS.values())


def test_every_flag_that_a_topic_names_exists():
    known = {
        name
        for command in COMMANDS
        for action in command_flags(command)
        for name in action.option_strings
    }
    for topic, text in TEXTS.items():
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
        assert named <= known | {"--help", "--version"}, topic


# Keys and codes


@pytest.mark.parametrize("key", KEYS + [HEADER + "NAME"])
def test_every_profile_key_is_explained(key):
    assert re.search(r"^  %s(  |\n| \S)" % re.escape(key), TEXTS["profiles"], re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in dir(exits) if name.isupper() and name[0] != "_"])
def test_every_exit_code_is_explained(name):
    assert re.search(r"^ +%d   \S" % getattr(exits, name), TEXTS["exit-codes"], re.MULTILINE)


@pytest.mark.parametrize(
    "state, word",
    [(State.TIMED_OUT, "timed out"), (State.CANCELLED, "cancelled")]
    + [(state, state.value) for state in (State.DONE, State.FAILED, State.UNREACHABLE)],
)
def test_the_exit_code_of_every_state_is_explained(state, word):
    pattern = r"^ +%d   (.+?)(?=\n +\d+   |\n\n)" % exits.exit_code([state])
    explanation = re.search(pattern, TEXTS["exit-codes"], re.MULTILINE | re.DOTALL)
    assert word in explanation.group(1)


def test_no_other_exit_code_is_explained():
    codes = {getattr(exits, name) for name in dir(exits) if name.isupper() and name[0] != "_"}
    assert {
        int(code) for code in re.findall(r"^ +(\d+)   \S", TEXTS["exit-codes"], re.MULTILINE)
    } == codes
    assert codes == {0, 1, 2, 3, 4, 5, 130, 141, 143}


# The texts


@pytest.mark.parametrize("topic", list(TOPICS))
def test_topics_are_plain_text(topic):
    text = TEXTS[topic]
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert all(ord(c) < 127 and c != "\t" for c in text)
    for line in text.splitlines():
        assert len(line) <= 80, line
        assert line == line.rstrip(), line


@pytest.mark.parametrize("topic", list(TOPICS))
def test_a_topic_begins_with_its_name_and_the_summary_of_the_list(topic):
    name = topic.replace("-", " ").upper()
    assert TEXTS[topic].splitlines()[0] == "%s: %s" % (name, TOPICS[topic])


@pytest.mark.parametrize("topic", list(TOPICS))
def test_a_topic_has_examples_before_its_first_section(topic):
    assert re.search(r"^    \S", TEXTS[topic].partition("\n\n\n")[0], re.MULTILINE)


def test_every_file_is_a_topic():
    names = os.listdir(os.path.join(ROOT, "pollkit", "cli", "topics"))
    assert sorted(names) == sorted(topic + ".txt" for topic in TOPICS)


def test_every_topic_that_is_referred_to_exists():
    texts = (
        list(TEXTS.values())
        + [command_module(command).__doc__ for command in COMMANDS]
        + [read_readme()]
    )
    texts += [action.help for command in COMMANDS for action in build_parser(command)._actions]
    named = {
        name for text in texts for name in re.findall(r"pollkit\s+help(?: |\n *)([a-z-]+)", text)
    }
    assert named and named <= set(TOPICS) | set(SCHEMA) | set(COMMANDS)


@pytest.mark.parametrize("topic", ["nonesuch", "pace", "", "../../setup", "schema.json"])
def test_an_unknown_topic_is_reported_in_one_line_with_exit_code_2(topic, capsys):
    assert main(["help", topic]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch("pollkit: there is no topic or command .+; pollkit help lists them\n", err)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in TOPICS])
def test_help_of_a_command_is_its_help_text(command, capsys):
    assert main(["help", command]) == 0
    shown = capsys.readouterr().out
    assert main([command, "--help"]) == 0
    assert shown == capsys.readouterr().out and shown.startswith("usage: pollkit " + command)


@pytest.mark.parametrize("topic", [name for name in TOPICS if name in COMMANDS])
def test_a_topic_with_the_name_of_a_command_refers_to_the_command(topic, capsys):
    assert main(["help", topic]) == 0
    reference = "\n\nThe flags of the command: pollkit %s --help\n" % topic
    assert capsys.readouterr().out == TEXTS[topic].rstrip("\n") + reference


def test_the_list_of_topics_is_complete(capsys):
    assert main(["help"]) == 0
    out = capsys.readouterr().out
    for topic, about in list(TOPICS.items()) + list(SCHEMA.items()):
        assert re.search(r"^  %s +%s$" % (topic, re.escape(about)), out, re.MULTILINE)


@pytest.fixture(scope="module")
def zip_path(tmp_path_factory):
    """pollkit in one file, like the output of `python -m zipapp`."""
    path = str(tmp_path_factory.mktemp("zip") / "pollkit.pyz")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "__main__.py", "import sys\nfrom pollkit.cli import main\nsys.exit(main())\n"
        )
        for folder, _, names in os.walk(os.path.join(ROOT, "pollkit")):
            for name in names:
                if name.endswith((".py", ".ini", ".json", ".txt")):
                    file = os.path.join(folder, name)
                    archive.write(file, os.path.relpath(file, ROOT))
    return path


def test_topics_can_be_read_from_a_zip(zip_path, tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pollkit.cli import main;"
        "list(map(main, %r))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code % [["help", topic] for topic in TOPICS], zip_path],
        cwd=str(tmp_path),
        env={},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0
    shown = done.stdout.decode().replace("\r\n", "\n")
    assert shown == "".join(TEXTS[topic] + see_also(topic) for topic in TOPICS)


def test_topics_are_package_data():
    assert pkgutil.get_data("pollkit.cli", "topics/paces.txt").decode() == TEXTS["paces"]


def test_help_survives_a_width_of_thousands_of_digits(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "9" * 5000)
    assert main(["wait", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: pollkit wait")
