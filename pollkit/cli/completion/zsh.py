"""The completion script for zsh."""

import re
from typing import List

from ..commands.program.completion import PROFILE_NAMES
from .arguments import Command, Flag, Values

HEAD = r"""#compdef pollkit
# Completion of pollkit for zsh. How to install it: pollkit completion --help

_pollkit_profiles() {
    local -a names
    names=(${(f)"$(eval 'pollkit completion @PROFILE_NAMES@' 2>/dev/null)"})
    compadd -a names
}

_pollkit() {
    local -a commands
    commands=(
@COMMANDS@
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
"""
TAIL = r"""    esac
}

if [[ $funcstack[1] == _pollkit ]]; then
    _pollkit "$@"
else
    compdef _pollkit pollkit
fi
"""


def zsh_script(commands: List[Command]) -> str:
    """The script."""
    names = "\n".join(
        "        %s" % _quote("%s:%s" % (command.name, command.help)) for command in commands
    )
    head = HEAD.replace("@PROFILE_NAMES@", PROFILE_NAMES).replace("@COMMANDS@", names)
    return head + "".join(map(_case, commands)) + TAIL


def _case(command: Command) -> str:
    specs = [_quote(_flag_spec(flag, name)) for flag in command.flags for name in flag.names]
    # _guard: a word that begins with a hyphen is a flag, even if the argument is free text.
    action = _action(command.values) or '_guard "^-*" argument'
    specs.append(_quote("*:argument:" + action))
    lines = ["        %s)" % command.name, "            _arguments \\"]
    return "\n".join(lines) + "\n" + " \\\n".join(" " * 16 + spec for spec in specs) + " ;;\n"


def _flag_spec(flag: Flag, name: str) -> str:
    star = "*" if flag.may_be_repeated else ""
    text = "[%s]" % re.sub(r"([\[\]:\\])", r"\\\1", flag.help)
    if flag.takes_the_rest:
        return name + text + ":*::program:_normal"
    if flag.takes_value:
        return "%s%s=%s:value:%s" % (star, name, text, _action(flag.values))
    return star + name + text


def _action(values: Values) -> str:
    """The zsh action that completes these values."""
    actions = []
    if values.words:
        actions.append("(%s)" % " ".join(values.words))
    if values.has_profiles:
        actions.append("_pollkit_profiles")
    if values.has_files:
        actions.append("_files")
    if len(actions) < 2:
        return actions[0] if actions else ""
    return "_alternative " + " ".join("'value:value:%s'" % action for action in actions)


def _quote(text: str) -> str:
    return "'%s'" % text.replace("'", "'\\''")
