"""Commands, flags, keys and exit codes are documented, and the documented examples run."""

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
from paths import read_sources
from pollkit.cli import exit_codes as exits
from pollkit.cli.commands.program.help import SCHEMA, TOPICS, see_also, text_of
from pollkit.cli.main import COMMANDS, build_parser, help_text, main, module_name
from pollkit.core.model import State
from pollkit.core.units import parse_limit
from pollkit.core.waiting.pace import parse_pace
from pollkit.edges.profiles.keys import HEADER, KEYS
from programs import needs_program

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(pollkit.__file__)))
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


# Examples


def test_examples_are_found():
    assert len(EXAMPLES) > 30
    assert parse_example("    0 6 * * * cd /x && flock -n l pollkit batch a --quiet >> b") == [
        "batch",
        "a",
        "--quiet",
    ]
    assert parse_example("  pollkit demo 2>/dev/null   only the table") == ["demo"]
    assert parse_example("see pollkit help paces") is None
    # The pattern misses no command in the topics.
    for topic, text in TEXTS.items():
        for line in text.splitlines():
            if re.match(r" {4}(?! )(?:.* )?pollkit (?:%s)\b" % "|".join(COMMANDS), line):
                assert parse_example(line), (topic, line)


@pytest.mark.parametrize("words", EXAMPLES)
def test_every_example_parses(words):
    assert words[0] in COMMANDS
    parser = build_parser(words[0])
    try:
        arguments = parser.parse_words(words[1:])
    except SystemExit as exiting:
        assert exiting.code == 0 and "--help" in words
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
def test_examples_that_poll_an_api_run_up_to_the_connection(words, tmp_path, monkeypatch, capsys):
    """Flags, profiles and files are valid; only the proxy refuses the connection."""
    if "curl" in words:
        needs_program("curl")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
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
def test_paces_in_the_topic_parse(text):
    assert parse_pace(text.replace("=J", "=full"))


@pytest.mark.parametrize(
    "text", sorted(set(re.findall(r"(?<=  )\d+/\w+(?: burst \d+)?(?=  )", TEXTS["limits"])))
)
def test_limits_in_the_topic_parse(text):
    assert parse_limit(text)


def test_delays_of_the_adaptive_pace_are_those_in_the_topic():
    delays = ["%.2g" % parse_pace("adaptive").delay(1, 0, age, 0.5) for age in (0, 60, 600, 3600)]
    assert delays == ["6.7", "17", "50", "1.2e+02"]
    for phrase in (
        "waits 6.7 s",
        "17 s when the job is a minute old",
        "50 s after ten",
        "two minutes after an hour",
    ):
        assert phrase in " ".join(TEXTS["paces"].split())


# Python in the topics


def find_python_blocks(topic):
    """The indented blocks of a topic that are neither sessions nor commands."""
    for block in re.findall(r"(?<=\n\n)    \S.*\n(?:    .*\n|\n(?=    ))*", TEXTS[topic]):
        if ">>>" not in block and parse_example(block.splitlines()[0]) is None:
            yield "".join(line[4:] or "\n" for line in block.splitlines(True))


@pytest.mark.parametrize("topic, least", [("library", 5), ("transports", 3)])
def test_python_in_the_topics_compiles(topic, least):
    blocks = [block for block in find_python_blocks(topic) if not block.startswith("[")]
    assert len(blocks) >= least
    for block in blocks:
        compile(block, topic + ".txt", "exec")


@pytest.mark.parametrize("topic", ["library", "testing", "transports", "callbacks", "migrate"])
def test_python_in_the_topics_uses_only_exported_names(topic):
    for name in re.findall(r"\bpollkit\.(\w+)", TEXTS[topic]):
        assert name in pollkit.__all__ or name == "testing", name
    for name in re.findall(r"\bpollkit\.testing\.(\w+)", TEXTS[topic]):
        assert name in pollkit.testing.__all__, name


@pytest.mark.parametrize("topic, least", [("library", 9), ("testing", 9), ("callbacks", 4)])
def test_sessions_in_the_topics_run(topic, least):
    name = topic + ".txt"
    session = doctest.DocTestParser().get_doctest(TEXTS[topic], {}, name, name, 0)
    assert len(session.examples) >= least
    assert doctest.DocTestRunner(verbose=False).run(session).failed == 0


def test_the_testing_topic_names_every_attribute_of_the_fake_api():
    with pollkit.testing.FakeJobApi() as api:
        names = [name for name in dir(api) if not name.startswith("_")]
    for name in names:
        assert re.search(r"\b%s\b" % name, TEXTS["testing"]), name


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
        "Simulation",
        "SharedBucket",
        "Ledger",
        "LedgerRunner",
        "LedgerError",
        "State",
        "Event",
        "JobError",
        "History",
    ):
        assert re.search(r"\b%s\b" % name, TEXTS["library"]), name
    for field in pollkit.Outcome._fields:
        assert re.search(r"\b%s\b" % field, TEXTS["library"]), field


# Messages in the troubleshooting topic


def find_messages():
    for line in TEXTS["troubleshooting"].splitlines():
        match = re.match(r"  ([a-z].*)$", line)
        if match and not line.startswith(("   ", "  cron", "  timed out")):
            yield match.group(1)


@pytest.mark.parametrize("message", list(find_messages()))
def test_messages_in_the_troubleshooting_topic_are_in_the_code(message):
    pieces = [
        piece.strip(" ,:()")
        for piece in re.split(r"HOST|NAME|URL|ORIGIN|'WORD'|\b\d+ s\b|\(Retry-After\)", message)
        if len(piece.strip()) > 3
    ]
    assert pieces[0] in read_sources()


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
