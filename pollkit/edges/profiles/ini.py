"""INI files of profiles: sections and keys, and the line of each.

The syntax is that of configparser: a comment begins with # or ; at the start of a line, or with ;
after a space; an indented line continues the value above it, also after an empty line or a
comment. configparser itself is not used, because it keeps no line numbers and stops at the first
mistake, and `pollkit profiles check` lists all of them.
"""

import os
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from ...errors import ConfigError
from ..exposed_files import note_trusted_file

LARGEST = 1000000
BUILT_IN = "built in"
_COMMENT = re.compile(r"(?:^|(?<=\s));.*")
_SECTION = re.compile(r"\[([^]]+)\]")
_KEY = re.compile(r"([^=:]+)[=:](.*)")


class Problem(NamedTuple):
    """A mistake in a file. Without a section, it concerns the file as a whole."""

    source: str
    line: int
    section: str
    key: str
    message: str

    def __str__(self) -> str:
        text = "%s:%d:" % (self.source, self.line) if self.line else "%s:" % self.source
        if self.key:
            text += " [%s] %s:" % (self.section, self.key)
        elif self.section:
            text += " [%s]:" % self.section
        return "%s %s" % (text, self.message)


class Setting(NamedTuple):
    """The text of a key, and its place."""

    text: str
    source: str
    line: int


class IniFile(NamedTuple):
    """A parsed file: its sections, the line of each, and its mistakes."""

    source: str
    sections: Dict[str, Dict[str, Setting]]
    lines: Dict[str, int]
    problems: List[Problem]


def read_text(path: str, optional: bool = False) -> Optional[str]:
    """The text of a file; None if an optional file does not exist; otherwise a ConfigError."""
    try:
        note_trusted_file(path)
        with open(os.path.expanduser(path), "rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if optional and isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return None
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise ConfigError("can't read the profile file %s: %s" % (path, reason)) from None
    if len(content) > LARGEST:
        raise ConfigError("the profile file %s is too large: over %d bytes" % (path, LARGEST))
    if b"\0" in content:
        raise ConfigError("the profile file %s is not text" % path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            "the profile file %s is not UTF-8 text: see line %d" % (path, line)
        ) from None


def parse_ini(source: str, text: str) -> IniFile:
    """Parse the text of a file."""
    parser = _Parser(source)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        parser.parse_line(number, line)
    return parser.finish()


_Value = Tuple[int, List[str]]  # the line of a key, and the lines of its value


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._sections: Dict[str, Dict[str, _Value]] = {}
        self._lines: Dict[str, int] = {}
        self._problems: List[Problem] = []
        self._section: Optional[str] = None
        self._texts: Optional[List[str]] = None  # of the value that may continue here
        self._indent = 0

    def parse_line(self, number: int, line: str) -> None:
        """Parse the next line."""
        content = "" if line.lstrip().startswith("#") else _COMMENT.sub("", line)
        text = content.strip()
        if not text:
            if self._texts is not None:
                self._texts.append("")
            return
        indent = len(content) - len(content.lstrip())
        if self._texts is not None and indent > self._indent:
            self._texts.append(text)
            return
        self._indent = indent
        self._texts = None
        section = _SECTION.fullmatch(text)
        key = _KEY.fullmatch(text)
        if section:
            parts = section.group(1).split(":", 1)  # [name : label] is the same as [name:label]
            self._begin_section(number, ":".join(part.strip() for part in parts))
        elif self._section is None:
            if not self._problems:
                self._add_problem(number, "", "", "a [section] must come before anything else")
        elif key:
            self._begin_key(number, self._section, key.group(1).strip(), key.group(2).strip())
        else:  # the line is not quoted: it may be a secret
            self._add_problem(number, "", "", "this is neither [section] nor key = value")

    def finish(self) -> IniFile:
        """The parsed file, after its last line."""
        sections = {
            name: {
                key: Setting("\n".join(texts).rstrip(), self._source, line)
                for key, (line, texts) in values.items()
            }
            for name, values in self._sections.items()
        }
        return IniFile(self._source, sections, self._lines, self._problems)

    def _begin_section(self, number: int, name: str) -> None:
        self._section = name
        if name in self._sections:
            self._add_problem(
                number, name, "", "appears twice: first on line %d" % self._lines[name]
            )
        else:
            self._sections[name] = {}
            self._lines[name] = number

    def _begin_key(self, number: int, section: str, key: str, text: str) -> None:
        self._texts = [text]
        first_line, _ = self._sections[section].setdefault(key, (number, self._texts))
        if first_line != number:
            self._add_problem(number, section, key, "appears twice: first on line %d" % first_line)

    def _add_problem(self, number: int, section: str, key: str, message: str) -> None:
        self._problems.append(Problem(self._source, number, section, key, message))
