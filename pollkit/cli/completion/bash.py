"""The completion script for bash."""

from typing import List

from ..commands.program.completion import PROFILE_NAMES
from .arguments import Command, Values

HEAD = r"""# Completion of pollkit for bash. How to install it: pollkit completion --help

_pollkit_words() {
    local IFS=$' \t\n'
    COMPREPLY+=($(compgen -W "$1" -- "$current"))
}

_pollkit_files() {
    local name
    compopt -o filenames 2>/dev/null
    while IFS= read -r name; do
        COMPREPLY+=("$name")
    done < <(compgen -f -- "$current")
}

_pollkit_profiles() {
    local name
    while IFS= read -r name; do
        if [[ $name == "$current"* ]]; then
            COMPREPLY+=("$name")
        fi
    done < <(eval 'pollkit completion @PROFILE_NAMES@' 2>/dev/null)
}

_pollkit() {
    local current=${COMP_WORDS[COMP_CWORD]}
    local previous=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]}
    local word
    COMPREPLY=()
    if (( COMP_CWORD == 1 )); then
        _pollkit_words '@COMMANDS@'
        return
    fi
    if [[ $current == = ]]; then  # bash splits --flag=value into three words
        current=
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[COMP_CWORD-2]}
    fi
"""
TAIL = r"""
}

complete -F _pollkit pollkit
"""


def bash_script(commands: List[Command]) -> str:
    """The script."""
    head = HEAD.replace("@PROFILE_NAMES@", PROFILE_NAMES)
    head = head.replace("@COMMANDS@", " ".join(command.name for command in commands))
    return head + _rest_part(commands) + _value_part(commands) + _word_part(commands) + TAIL


def _rest_part(commands: List[Command]) -> str:
    """Complete files after a flag such as --exec: all that follows belongs to the program."""
    rest_flags = [flag for command in commands for flag in command.flags if flag.takes_the_rest]
    names = {name for flag in rest_flags for name in flag.names}
    lines = ['    for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do', "        case $word in"]
    lines += ["            %s) _pollkit_files; return ;;" % name for name in sorted(names)]
    lines += ["        esac", "    done", ""]
    return "\n".join(lines)


def _value_part(commands: List[Command]) -> str:
    """Complete the value of a flag; nothing if it is free text."""
    lines = ['    case "$command $previous" in']
    for command in commands:
        for flag in command.flags:
            if flag.takes_value:
                patterns = "|".join("'%s %s'" % (command.name, name) for name in flag.names)
                lines.append("        %s) %sreturn ;;" % (patterns, _calls(flag.values)))
    return "\n".join([*lines, "    esac", ""])


def _word_part(commands: List[Command]) -> str:
    """Complete a flag, or a positional argument."""
    lines = ["    case $command in"]
    for command in commands:
        flags = " ".join(name for flag in command.flags for name in flag.names)
        lines += [
            "        %s)" % command.name,
            "            if [[ $current == -* ]]; then _pollkit_words '%s'" % flags,
            "            else %s:; fi ;;" % _calls(command.values),
        ]
    return "\n".join([*lines, "    esac"])


def _calls(values: Values) -> str:
    """The calls that complete these values."""
    text = ""
    if values.words:
        text += "_pollkit_words '%s'; " % " ".join(values.words)
    if values.has_profiles:
        text += "_pollkit_profiles; "
    if values.has_files:
        text += "_pollkit_files; "
    return text
