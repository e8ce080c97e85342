"""The commands and flags that a shell completes, and their values, from the parsers."""

import argparse
import re
from typing import List, NamedTuple, Tuple

from ...core.model import one_line
from ..arguments import argument_types
from ..commands.program.completion import PROFILE_NAMES
from ..commands.program.help import SCHEMA, TOPICS
from ..main import COMMANDS, build_parser

LONGEST_HELP = 70
FILE_METAVARS = ("FILE", "F", "LEDGER", "DIR", "PATH")


class Values(NamedTuple):
    """The values of a flag or an argument that a shell can complete."""

    words: Tuple[str, ...] = ()
    has_files: bool = False
    has_profiles: bool = False


class Flag(NamedTuple):
    """A flag with its names, '--verbose' and '-v' for example."""

    names: Tuple[str, ...]
    help: str
    takes_value: bool
    takes_the_rest: bool  # everything that follows belongs to a program
    may_be_repeated: bool
    values: Values


class Command(NamedTuple):
    """A command with its flags, and the values of its positional arguments, taken together."""

    name: str
    help: str
    flags: List[Flag]
    values: Values


def all_commands() -> List[Command]:
    """The commands, in the order of the help text."""
    return [_read_command(name) for name in COMMANDS]


def _read_command(name: str) -> Command:
    flags = []
    values = []
    for action in build_parser(name)._actions:
        if action.option_strings:
            flags.append(_read_flag(name, action))
        else:
            values.append(_values_of(name, action))
    words = [word for one in values for word in one.words]
    has_files = any(one.has_files for one in values)
    has_profiles = any(one.has_profiles for one in values)
    return Command(
        name, _shorten(COMMANDS[name]), flags, Values(tuple(words), has_files, has_profiles)
    )


def _read_flag(command: str, action: argparse.Action) -> Flag:
    is_repeatable = isinstance(action, (argparse._AppendAction, argparse._CountAction))
    return Flag(
        tuple(action.option_strings),
        _shorten(action.help or ""),
        takes_value=action.nargs != 0,
        takes_the_rest=action.nargs == argparse.REMAINDER,
        may_be_repeated=is_repeatable,
        values=_values_of(command, action),
    )


def _values_of(command: str, action: argparse.Action) -> Values:
    """The values of an argument: its choices, and the words in its metavar ('show|check')."""
    if command == "help" and not action.option_strings:
        return Values(tuple(dict.fromkeys([*TOPICS, *SCHEMA, *COMMANDS])))
    parts = str(action.metavar or "").split("|")
    words = list(action.choices or ())
    words += [part for part in parts if re.fullmatch("[a-z][a-z-]*", part)]
    words = [word for word in dict.fromkeys(words) if word != PROFILE_NAMES]
    is_path = action.type is argument_types.path or action.nargs == argparse.REMAINDER
    has_files = is_path or any(part in FILE_METAVARS for part in parts)
    names_a_profile = command == "profiles" and "NAME" in parts
    has_profiles = action.dest == "profile" or names_a_profile
    return Values(tuple(words), has_files, has_profiles)


def _shorten(text: str) -> str:
    """The beginning of a help text, without details."""
    start = re.split(r"; | \(", text.replace("%%", "%"))[0]
    return one_line(start, LONGEST_HELP)
