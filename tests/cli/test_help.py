"""Whatever there is, is documented; and what the documentation says, works."""

import argparse
import doctest
import importlib
import io
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import zipfile

import pytest

import pollkit
import pollkit.testing
from pollkit import ConfigError
from pollkit.cli.main import COMMANDS, help_text, main
from pollkit.cli import exit_codes as exits
from pollkit.cli.commands.help import TOPICS, text_of
from pollkit.cli.parser import Parser
from pollkit.core.pace import parse_pace
from pollkit.core.units import parse_limit
from pollkit.edges.profiles.keys import HEADER, KEYS

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(pollkit.__file__)))
TEXTS = {topic: text_of(topic) for topic in TOPICS}
# An indented line that is a command: perhaps after cron's five fields, `cd ... &&` or `flock ...`.
EXAMPLE = re.compile(
    r"^ {2,}(?:[\d*/,-]+(?: [\d*/,-]+){4} )?(?:cd \S+ && )?(?:flock -n \S+ )?(?:\$ )?"
    r"pollkit (?P<words>\S.*)$"
)
REDIRECTED = re.compile(r"^(\d?[<>]|\||\|\||&&|;)")


def module_of(command):
    return importlib.import_module("pollkit.cli.commands." + command)


def parser_of(command):
    parser = Parser(prog="pollkit " + command)
    module_of(command).add_arguments(parser)
    return parser


def words_of(line):
    """The words of an example, or None: without the words beside it, and what is the shell's."""
    match = EXAMPLE.match(line)
    if match is None:
        return None
    words = shlex.split(re.split(r"\s{2,}", match.group("words"))[0])
    end = next((i for i, word in enumerate(words) if REDIRECTED.match(word)), len(words))
    return words[:end]


def readme():
    with io.open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        return file.read()


def readme_lines():
    """What stands in code blocks of the README that are not Python, indented as elsewhere."""
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", readme(), re.MULTILINE | re.DOTALL):
        if kind in ("", "sh", "console"):
            for line in block.splitlines():
                yield "    " + line


def examples():
    places = {"help " + topic: text.splitlines() for topic, text in TEXTS.items()}
    places.update({command: module_of(command).__doc__.splitlines() for command in COMMANDS})
    places["README"] = readme_lines()
    for place, lines in sorted(places.items()):
        for line in lines:
            words = words_of(line)
            if words is not None:
                yield pytest.param(words, id="%s: %s" % (place, " ".join(words)))


EXAMPLES = list(examples())


def flags_of(command):
    return [
        action
        for action in parser_of(command)._actions
        if action.option_strings and action.dest != "help"
    ]


# Commands and flags


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help_with_examples_of_its_own(command, capsys):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    block = out.partition("\nexamples:\n")[2].partition("\n\n")[0]
    found = [words_of(line) for line in block.splitlines()]
    assert found and all(words and words[0] == command for words in found), block


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_stands_in_the_overview_and_in_a_topic_or_the_readme(command):
    assert re.search(r"^  %s +\S" % command, help_text(), re.MULTILINE)
    if command != "demo":  # which explains itself
        assert re.search(r"\bpollkit %s\b" % command, readme() + "".join(TEXTS.values()))


def test_every_flag_says_what_it_does():
    silent = [
        "%s %s" % (command, action.option_strings[-1])
        for command in COMMANDS
        for action in flags_of(command)
        if not (action.help or "").strip()
    ]
    assert silent == []


def test_every_argument_says_what_it_is():
    for command in COMMANDS:
        for action in parser_of(command)._actions:
            assert action.help, (command, action.dest)


def test_flags_of_the_same_name_say_the_same_everywhere():
    """Those of several commands come from one place."""
    said = {}
    for command in COMMANDS:
        for action in flags_of(command):
            said.setdefault(action.option_strings[-1], set()).add(action.metavar)
    assert {flag: names for flag, names in said.items() if len(names) > 1} == {}


@pytest.mark.parametrize(
    "flag",
    [
        "--pace",
        "--timeout",
        "--limit",
        "--proxy",
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
    ],
)
def test_flags_that_need_more_than_a_line_stand_in_a_topic(flag):
    assert any(re.search(re.escape(flag) + r"\b", text) for text in TEXTS.values())


def test_every_flag_that_a_topic_names_exists():
    known = {
        name
        for command in COMMANDS
        for action in flags_of(command)
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


def test_no_other_exit_code_is():
    codes = {getattr(exits, name) for name in dir(exits) if name.isupper() and name[0] != "_"}
    assert {
        int(code) for code in re.findall(r"^ +(\d+)   \S", TEXTS["exit-codes"], re.MULTILINE)
    } == codes
    assert codes == {0, 1, 2, 3, 4, 5, 130, 141, 143}


# Examples


def test_the_examples_are_found():
    assert len(EXAMPLES) > 30
    assert words_of("    0 6 * * * cd /x && flock -n l pollkit batch a --quiet >> b") == [
        "batch",
        "a",
        "--quiet",
    ]
    assert words_of("  pollkit demo 2>/dev/null   the table alone") == ["demo"]
    assert words_of("see pollkit help paces") is None
    # No command hides behind something that the pattern does not know.
    for topic, text in TEXTS.items():
        for line in text.splitlines():
            if re.match(r" {4}(?! )(?:.* )?pollkit (?:%s)\b" % "|".join(COMMANDS), line):
                assert words_of(line), (topic, line)


@pytest.mark.parametrize("words", EXAMPLES)
def test_every_example_is_understood(words):
    assert words[0] in COMMANDS
    parser = parser_of(words[0])
    try:
        arguments = parser.parse_args(words[1:])
    except SystemExit as leaving:
        assert leaving.code == 0 and "--help" in words
        return
    assert isinstance(arguments, argparse.Namespace)


OFFLINE = [
    param
    for param in EXAMPLES
    if param.values[0][:1] == ["help"]
    or param.values[0] in (["profiles"], ["profiles", "show", "knowhere"])
]


@pytest.mark.parametrize("words", OFFLINE)
def test_examples_that_need_no_network_run(words, capsys):
    assert main(list(words)) == 0
    out, err = capsys.readouterr()
    assert out.strip() and not err


NETWORKED = [
    param
    for param in EXAMPLES
    if param.values[0][0] in ("wait", "batch", "doctor")
    and not {"URL", "JOB", "NAME"} & set(param.values[0])
]


@pytest.mark.parametrize("words", NETWORKED)
def test_examples_that_ask_an_api_go_as_far_as_asking_it(words, tmp_path, monkeypatch, capsys):
    """Flags, profiles and files are read; the proxy they are sent through refuses to connect."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.txt").write_text(
        "job_1\n" if "--profile" in words else "http://api.internal/1\n"
    )
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": "job_1", "label": "suno"}\n'))
    )
    monkeypatch.setenv("KNOWHERE_API_KEY", "k")
    monkeypatch.setenv("API_TOKEN", "t")
    data = os.path.join(ROOT, "tests", "data")
    files = {"--ca-file": "ca.pem", "--client-cert": "client.pem", "--client-key": "client.key"}
    for flag, name in files.items():
        if flag in words:
            words = [
                os.path.join(data, name) if words[i - 1] == flag else word
                for i, word in enumerate(words)
            ]
    if "--proxy" not in words:
        words = words + ["--proxy", "http://127.0.0.1:9"]
    else:
        words = [word.replace("proxy.internal:3128", "127.0.0.1:9") for word in words]
    if words[0] != "doctor":
        words = words + ["--timeout", "0"]
    words = [word.replace("/var/tmp", str(tmp_path)) for word in words]
    assert main(list(words)) == 4, capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    sorted(
        set(
            re.findall(
                r"^  ((?:fixed|backoff) \d.*?|adaptive first=\S+ every=\S+|adaptive)(?:  |$)",
                TEXTS["paces"],
                re.MULTILINE,
            )
        )
    ),
)
def test_paces_in_the_topic_are_paces(text):
    assert parse_pace(text.replace("=J", "=full"))


@pytest.mark.parametrize(
    "text", sorted(set(re.findall(r"(?<=  )\d+/\w+(?: burst \d+)?(?=  )", TEXTS["limits"])))
)
def test_limits_in_the_topic_are_limits(text):
    assert parse_limit(text)


def test_waits_of_the_adaptive_pace_are_as_the_topic_says():
    waits = ["%.2g" % parse_pace("adaptive").delay(1, 0, age, 0.5) for age in (0, 60, 600, 3600)]
    assert waits == ["6.7", "17", "50", "1.2e+02"]
    for words in (
        "waits 6.7 s",
        "17 s when the job is a minute old",
        "50 s after ten",
        "two minutes after an hour",
    ):
        assert words in " ".join(TEXTS["paces"].split())


# Python in the library topic


def python_blocks():
    """Indented blocks that are no sessions and no commands."""
    for block in re.findall(r"(?<=\n\n)    \S.*\n(?:    .*\n|\n(?=    ))*", TEXTS["library"]):
        if ">>>" not in block and words_of(block.splitlines()[0]) is None:
            yield "".join(line[4:] or "\n" for line in block.splitlines(True))


def test_python_in_the_library_topic_compiles_and_uses_exported_names_only():
    blocks = list(python_blocks())
    assert len(blocks) >= 5
    for block in blocks:
        compile(block, "library.txt", "exec")
    for name in re.findall(r"\bpollkit\.(\w+)", TEXTS["library"]):
        assert name in pollkit.__all__ or name == "testing", name
    for name in re.findall(r"\bpollkit\.testing\.(\w+)", TEXTS["library"]):
        assert name in pollkit.testing.__all__, name


def test_sessions_in_the_library_topic_run():
    test = doctest.DocTestParser().get_doctest(
        TEXTS["library"], {}, "library.txt", "library.txt", 0
    )
    assert len(test.examples) > 10
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_the_library_topic_names_every_export_that_users_call():
    for name in (
        "wait",
        "Poller",
        "BatchPoller",
        "Job",
        "Profile",
        "Outcome",
        "Reply",
        "Fixed",
        "Backoff",
        "Adaptive",
        "TokenBucket",
        "PollkitError",
        "ConfigError",
        "JobFailed",
        "JobTimedOut",
        "JobUnreachable",
    ):
        assert re.search(r"\b%s\b" % name, TEXTS["library"]), name
    for field in pollkit.Outcome._fields:
        assert re.search(r"\b%s\b" % field, TEXTS["library"]), field


# Messages that troubleshooting explains are really given


def quoted():
    for line in TEXTS["troubleshooting"].splitlines():
        match = re.match(r"  ([a-z].*)$", line)
        if match and not line.startswith(("   ", "  cron", "  timed out")):
            yield match.group(1)


@pytest.mark.parametrize("message", list(quoted()))
def test_messages_that_troubleshooting_explains_are_given_somewhere(message):
    pieces = [
        piece.strip(" ,:()")
        for piece in re.split(r"HOST|NAME|URL|ORIGIN|'WORD'|\b\d+ s\b|\(Retry-After\)", message)
        if len(piece.strip()) > 3
    ]
    sources = []
    for folder, _, names in os.walk(os.path.join(ROOT, "pollkit")):
        for name in names:
            if name.endswith(".py"):
                with io.open(os.path.join(folder, name), encoding="utf-8") as file:
                    sources.append(file.read())
    whole = "\n".join(sources)
    assert pieces[0] in whole


# The texts themselves


def test_what_a_topic_is_called_otherwise_finds_it(capsys):
    assert main(["help", "ledger"]) == 0 and capsys.readouterr().out.startswith("CRON:")


@pytest.mark.parametrize("topic", list(TOPICS))
def test_topics_are_plain_text(topic):
    text = TEXTS[topic]
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert all(
        len(line) <= 90 and line == line.rstrip() and "\t" not in line for line in text.splitlines()
    )
    assert all(ord(c) < 127 for c in text)
    assert text.splitlines()[0].lower().startswith(topic.replace("-", " ") + ":")


def test_every_file_is_a_topic():
    names = os.listdir(os.path.join(ROOT, "pollkit", "cli", "topics"))
    assert sorted(names) == sorted(topic + ".txt" for topic in TOPICS)


def test_whatever_refers_to_a_topic_names_one_that_is_there():
    texts = list(TEXTS.values()) + [module_of(command).__doc__ for command in COMMANDS] + [readme()]
    texts += [action.help for command in COMMANDS for action in parser_of(command)._actions]
    named = {
        name for text in texts for name in re.findall(r"pollkit\s+help(?: |\n *)([a-z-]+)", text)
    }
    assert named and named <= set(TOPICS)


@pytest.mark.parametrize("topic", ["nonesuch", "pace", "wait", "../../setup"])
def test_topic_that_is_not_there_is_one_line_and_2(topic, capsys):
    assert main(["help", topic]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch("pollkit: .+\n", err)
    with pytest.raises(ConfigError):
        text_of(topic)


def test_list_of_topics_names_all_of_them(capsys):
    assert main(["help"]) == 0
    out = capsys.readouterr().out
    for topic, about in TOPICS.items():
        assert re.search(r"^  %s +%s$" % (topic, re.escape(about)), out, re.MULTILINE)


@pytest.fixture(scope="module")
def zipped(tmp_path_factory):
    """All of pollkit in one file, as `python -m zipapp` would have it."""
    path = str(tmp_path_factory.mktemp("zip") / "pollkit.pyz")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "__main__.py", "import sys\nfrom pollkit.cli import main\nsys.exit(main())\n"
        )
        for folder, _, names in os.walk(os.path.join(ROOT, "pollkit")):
            for name in names:
                if name.endswith((".py", ".ini", ".txt")):
                    whole = os.path.join(folder, name)
                    archive.write(whole, os.path.relpath(whole, ROOT))
    return path


def test_topics_can_be_read_from_a_zip(zipped, tmp_path):
    code = "import sys; sys.path.insert(0, sys.argv[1]); from pollkit.cli import main; list(map(main, %r))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code % [["help", topic] for topic in TOPICS], zipped],
        cwd=str(tmp_path),
        env={},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0
    assert done.stdout.decode().replace("\r\n", "\n") == "".join(TEXTS[topic] for topic in TOPICS)


def test_data_is_read_in_a_way_that_works_in_a_zip():
    assert pkgutil.get_data("pollkit.cli", "topics/paces.txt").decode() == TEXTS["paces"]
