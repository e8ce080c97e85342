"""The argument parser of every command: errors in one line that names the remedy."""

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

from ...errors import ConfigError
from ..progress.terminal import text_width

if TYPE_CHECKING:
    from typing import NoReturn  # early releases of 3.6 have none


# argparse translates its messages, but ours are English and `Parser.error` reads them. To look for
# translations takes 4.7 million instructions per start, because it imports locale.
argparse._ = str  # type: ignore[attr-defined]


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal.

    argparse imports shutil, bz2 and lzma to find the width, for every flag that is added.
    """

    def __init__(self, prog: str) -> None:
        width = text_width(sys.stdout) - 2
        # On a narrow terminal, descriptions move left: they need help_folding.NARROWEST columns.
        column = max(0, min(24, width - 30))
        super().__init__(prog, max_help_position=column, width=width)

    def _split_lines(self, text: str, width: int) -> List[str]:
        from .help_folding import fold_words  # late: only --help needs it

        return fold_words(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from .help_folding import fold_text

        return fold_text(text, text_width(sys.stdout))


class FromEnvironment(NamedTuple):
    """The default of a flag: the value of an environment variable, if it is set and not empty.

    pollkit help environment lists the variables.
    """

    variable: str
    otherwise: Optional[str] = None


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are ConfigErrors that say what to do.

    It differs from its base in five more ways:
    - Flags can't be abbreviated.
    - A flag with nargs=REMAINDER (--exec) takes all words that follow, '--' and our flags included.
    - A value may be a negative number: '--limit -1/m' names the limit, so the error is about that.
    - A list of positional arguments may continue after a flag: 'add jobs.db a --quiet b'.
    - A default may come from the environment. The attribute `variables` of the parsed arguments has
      the names of the variables that were used, by argument.
    """

    def __init__(self, prog: str, description: str = "") -> None:
        super().__init__(prog=prog, description=description, formatter_class=_HelpFormatter)
        self._words: List[str] = []

    def parse_words(self, words: List[str]) -> argparse.Namespace:
        """Parse a command's arguments; raise ConfigError if any word is left over."""
        words, remainder = self._split_remainder([_decode_argument(word) for word in words])
        self._words = self._join_negative_values(words)
        arguments, surplus = self.parse_known_args(self._words)
        for name, value in remainder.items():
            setattr(arguments, name, value)
        self._read_environment(arguments)
        surplus_flags = [word for word in surplus[: _flags_end(surplus)] if word.startswith("-")]
        for action in self._actions:
            is_list = action.nargs == "*" and not action.option_strings
            if is_list and not surplus_flags:
                if "--" in surplus:
                    surplus.remove("--")
                getattr(arguments, action.dest).extend(surplus)
                surplus = []
        if surplus:
            raise ConfigError(self._surplus_error(surplus))
        return arguments

    def _read_environment(self, arguments: argparse.Namespace) -> None:
        arguments.variables = {}
        for action in self._actions:
            default = action.default
            is_given = getattr(arguments, action.dest, None) is not default
            if not isinstance(default, FromEnvironment) or is_given:
                continue
            value: Any = default.otherwise
            text = os.environ.get(default.variable, "").strip()
            if text:
                arguments.variables[action.dest] = default.variable
                value = self._parse_variable(action, default.variable, text)
            setattr(arguments, action.dest, value)

    def _parse_variable(self, action: argparse.Action, variable: str, text: str) -> Any:
        try:
            value = self._get_value(action, _decode_argument(text))
            self._check_value(action, value)
        except argparse.ArgumentError as error:
            raise ConfigError("%s: %s" % (variable, error.message)) from None
        return value

    def error(self, message: str) -> "NoReturn":
        # An unknown flag may be the reason why a required argument is missing.
        if "arguments are required" in message and self._unknown_flags(self._words):
            raise ConfigError(self._surplus_error(self._words))
        raise ConfigError("%s; see %s --help" % (re.sub("^argument ", "", message), self.prog))

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        # argparse replaces the text of a ConfigError, which is a ValueError.
        parse = self._registry_get("type", action.type, action.type)
        try:
            return parse(arg_string)
        except ConfigError as error:
            message = str(error)
        except (ValueError, OverflowError):  # for example, a number with thousands of digits
            message = "%.40r is invalid or out of range" % arg_string
        raise argparse.ArgumentError(action, message)

    def print_help(self, file: Any = None) -> None:
        # argparse ignores write errors: a full disk, a closed pipe.
        print(self.format_help(), end="", flush=True)

    def _get_option_tuples(self, option_string: str) -> List[Any]:
        # allow_abbrev=False would forbid -vv, too, before Python 3.8.
        if option_string.startswith("--"):
            return []
        return super()._get_option_tuples(option_string)

    def _split_remainder(self, words: List[str]) -> Tuple[List[str], Dict[str, List[str]]]:
        for action in self._actions:
            if action.nargs == argparse.REMAINDER:
                for index, word in enumerate(words):
                    if word in action.option_strings:
                        return words[:index], {action.dest: words[index + 1 :]}
        return words, {}

    def _join_negative_values(self, words: List[str]) -> List[str]:
        """Turn '--limit -1/m' into '--limit=-1/m': argparse would take -1/m for a flag."""
        joined: List[str] = []
        end = _flags_end(words)
        for word in words[:end]:
            previous = joined[-1] if joined else ""
            action = self._option_string_actions.get(previous)
            takes_value = action is not None and action.nargs is None
            is_negative = re.match(r"-[.0-9]", word) is not None
            if previous.startswith("--") and takes_value and is_negative:
                joined[-1] += "=" + word
            else:
                joined.append(word)
        return joined + words[end:]

    def _surplus_error(self, words: List[str]) -> str:
        """The error about words without a meaning. Values are not repeated: they may be secret."""
        unknown = self._unknown_flags(words)
        problem = "unrecognized arguments, from %r on" % words[0]
        if unknown:
            problem = self._unknown_flag_error(unknown[0])
        return "%s; see %s --help" % (problem, self.prog)

    def _unknown_flag_error(self, flag: str) -> str:
        from .flag_advice import advice_for  # late: only errors need it

        known = self._option_string_actions
        advice = advice_for(flag, known)
        if advice is not None:
            return advice
        return unknown_name_error("flag", flag, [name for name in known if name.startswith("--")])

    def _unknown_flags(self, words: List[str]) -> List[str]:
        flags = [
            word.partition("=")[0] if word.startswith("--") else word[:2]
            for word in words[: _flags_end(words)]
            if word.startswith("-") and word != "-"
        ]
        return [flag for flag in flags if flag not in self._option_string_actions]


def unknown_name_error(kind: str, name: str, known: List[str]) -> str:
    """The error about an unknown name, with a known one that is very similar, if there is one."""
    from ...core.spelling import similar_name  # late: only errors need it

    shown = name if kind == "flag" else repr(name)
    text = "there is no %s %s" % (kind, shown)
    similar = similar_name(name, known)
    if similar is not None:
        text += " (did you mean %s?)" % similar
    return text


def _flags_end(words: List[str]) -> int:
    return words.index("--") if "--" in words else len(words)


def _decode_argument(word: str) -> str:
    """Decode an argument as UTF-8, which Python 3.6 does not do without a locale, as in cron."""
    try:
        return os.fsencode(word).decode("utf-8")
    except UnicodeError:
        return word
