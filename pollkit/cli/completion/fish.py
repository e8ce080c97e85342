"""The completion script for fish."""

from typing import List

from ..commands.program.completion import PROFILE_NAMES
from .arguments import Command, Flag, Values

HEAD = """# Completion of pollkit for fish. How to install it: pollkit completion --help

function __pollkit_needs_command
    test (count (commandline -opc)) -eq 1
end

function __pollkit_command_is
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]
end

complete -c pollkit -f
"""
PROFILES = "(pollkit completion %s 2>/dev/null)" % PROFILE_NAMES


def fish_script(commands: List[Command]) -> str:
    """The script."""
    return HEAD + "".join(map(_command_lines, commands))


def _command_lines(command: Command) -> str:
    is_command = "__pollkit_command_is " + command.name
    lines = [
        "\ncomplete -c pollkit -n __pollkit_needs_command -a %s -d %s"
        % (command.name, _quote(command.help))
    ]
    values = _values(command.values)
    if values:
        lines.append("complete -c pollkit -n %s%s" % (_quote(is_command), values))
    lines += [
        "complete -c pollkit -n %s%s -d %s" % (_quote(is_command), _flag(flag), _quote(flag.help))
        for flag in command.flags
    ]
    return "\n".join(lines) + "\n"


def _flag(flag: Flag) -> str:
    text = ""
    for name in flag.names:
        text += " -l " + name[2:] if name.startswith("--") else " -s " + name[1:]
    if flag.takes_value:
        text += " -r" if flag.values.has_files else " -x"
    return text + _values(flag.values)


def _values(values: Values) -> str:
    """The options of `complete` for these values."""
    words = list(values.words)
    if values.has_profiles:
        words.append(PROFILES)
    text = " -a " + _quote(" ".join(words)) if words else ""
    return text + " -F" if values.has_files else text


def _quote(text: str) -> str:
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "\\'")
