"""Completion scripts, in the real shells."""

import os

import pytest

import shells
from pollkit.cli.commands.program.help import SCHEMA, TOPICS
from pollkit.cli.completion.arguments import all_commands
from pollkit.cli.main import COMMANDS, build_parser

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
needs_bash = shells.needs("bash")
needs_fish = shells.needs("fish")
needs_zsh = shells.needs("zsh")

_scripts = {}  # of each shell; they are the same for all tests


@pytest.fixture
def env(tmp_path, pollkit):
    """The environment of a shell whose folder has the scripts and some files."""
    for shell in ("bash", "zsh", "fish"):
        if shell not in _scripts:
            code, _scripts[shell], err = pollkit("completion", shell)
            assert (code, err) == (0, "")
        (tmp_path / ("script." + shell)).write_text(_scripts[shell])
    (tmp_path / "my jobs.txt").write_text("job_1\n")
    (tmp_path / "mine.db").write_text("")
    (tmp_path / ".config" / "pollkit").mkdir(parents=True)
    (tmp_path / ".config" / "pollkit" / "profiles.ini").write_text(
        "[mine]\nurl = http://h/{id}\n[$(touch hacked)]\nurl = http://h/{id}\n"
    )
    return shells.environment(tmp_path)


# The words of a command line; the completions of the last one.
CASES = [
    (["ba"], ["batch"]),
    (["wait", "--prof"], ["--profile", "--profiles"]),
    (["wait", "--output", ""], ["auto", "json", "text"]),
    (["wait", "--output", "j"], ["json"]),
    (["wait", "--profile", "min"], ["mine"]),
    (["wait", "job_1", "--ca-file", "min"], ["mine.db"]),
    (["batch", "m"], ["mine.db", "my jobs.txt"]),
    (["run", "min"], ["mine.db"]),
    (["status", "mine.db", "--state", "t"], ["timed_out"]),
    (["wait", "--timeout", ""], []),
    (["wait", "min"], []),
    (["run", "mine.db", "--exec", "min"], ["mine.db"]),
    (["completion", ""], ["bash", "fish", "zsh"]),
    (["help", "env"], ["environment"]),
    (["help", "batc"], ["batch"]),
    (["nonesuch", ""], []),
]


@needs_bash
@pytest.mark.parametrize("words, expected", CASES, ids=lambda value: " ".join(value))
def test_bash_completes(tmp_path, env, words, expected):
    found = shells.complete_in_bash(tmp_path, env, *words)
    assert sorted(filter(None, found)) == expected
    assert not (tmp_path / "hacked").exists()


@needs_bash
def test_bash_does_not_execute_the_name_of_a_profile(tmp_path, env):
    assert shells.complete_in_bash(tmp_path, env, "wait", "--profile", "$") == ["$(touch hacked)"]
    assert not (tmp_path / "hacked").exists()


@needs_bash
def test_bash_completes_a_value_after_an_equals_sign(tmp_path, env):
    for words in (["--output", "="], ["--output", "=", ""]):
        found = shells.complete_in_bash(tmp_path, env, "wait", *words)
        assert found == ["auto", "json", "text"]
    assert shells.complete_in_bash(tmp_path, env, "wait", "--output", "=", "t") == ["text"]


@needs_bash
def test_bash_completes_every_command_and_flag(tmp_path, env):
    assert shells.complete_in_bash(tmp_path, env, "") == list(COMMANDS)
    for command in ("wait", "run", "simulate"):
        flags = shells.complete_in_bash(tmp_path, env, command, "--")
        known = build_parser(command)._option_string_actions
        assert sorted(flags) == sorted(flag for flag in known if flag.startswith("--"))


@needs_bash
def test_bash_calls_an_alias_of_pollkit(tmp_path, env):
    """As in README: alias pollkit='python3 /opt/pollkit.pyz'."""
    program = tmp_path / "bin" / "pollkit"
    program.rename(tmp_path / "other")
    code = (
        "shopt -s expand_aliases\nalias pollkit=%s/other\n" % tmp_path
        + "source script.bash\nCOMP_WORDS=(pollkit wait --profile mi)\nCOMP_CWORD=3\n"
        + '_pollkit\necho "${COMPREPLY[@]}"\n'
    )
    assert shells._run(tmp_path, env, ["bash", "--norc", "-c", code]) == ["mine"]


@needs_fish
@pytest.mark.parametrize("words, expected", CASES, ids=lambda value: " ".join(value))
def test_fish_completes(tmp_path, env, words, expected):
    found = shells.complete_in_fish(tmp_path, env, *words)
    assert sorted(word.replace("\\ ", " ") for word in found) == expected
    assert not (tmp_path / "hacked").exists()


@needs_zsh
def test_zsh_completes(tmp_path, env):
    cases = {
        "pollkit ba": "pollkit batch ",
        "pollkit wait --outp": "pollkit wait --output=",
        "pollkit wait --output j": "pollkit wait --output json ",
        "pollkit wait --output=j": "pollkit wait --output=json ",
        "pollkit wait --profile min": "pollkit wait --profile mine ",
        "pollkit batch my": "pollkit batch my\\ jobs.txt ",
        "pollkit run min": "pollkit run mine.db ",
        "pollkit status mine.db --state t": "pollkit status mine.db --state timed_out ",
        "pollkit wait --timeout m": "pollkit wait --timeout m",
        "pollkit wait min": "pollkit wait min",
        "pollkit completion b": "pollkit completion bash ",
        "pollkit help env": "pollkit help environment ",
        "pollkit profiles show min": "pollkit profiles show mine ",
    }
    found = shells.complete_in_zsh(tmp_path, env, list(cases))
    expected = [line.rstrip() for line in cases.values()]
    assert [line.rstrip() for line in found] == expected
    assert not (tmp_path / "hacked").exists()


# The parsers


def test_every_command_and_flag_is_known():
    commands = all_commands()
    assert [command.name for command in commands] == list(COMMANDS)
    for command in commands:
        names = {name for flag in command.flags for name in flag.names}
        assert names == set(build_parser(command.name)._option_string_actions)


def test_words_need_no_quotes_in_any_shell():
    for command in all_commands():
        for values in [command.values] + [flag.values for flag in command.flags]:
            for word in values.words:
                assert word.replace("-", "").replace("_", "").isalnum(), (command.name, word)


def test_the_values_of_help_are_topics_and_commands():
    (command,) = [command for command in all_commands() if command.name == "help"]
    assert set(command.values.words) == set(TOPICS) | set(SCHEMA) | set(COMMANDS)


def test_profile_names_are_printed_one_per_line(home, pollkit):
    code, out, err = pollkit("completion", "profile-names")
    assert (code, err) == (0, "") and "knowhere" in out.splitlines()


@pytest.mark.parametrize("words", [[], ["tcsh"]])
def test_another_shell_is_one_line(pollkit, words):
    code, out, err = pollkit("completion", *words)
    assert (code, out) == (2, "") and "bash" in err and err.count("\n") == 1
