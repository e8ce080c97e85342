"""Fold the texts of --help to the width of the terminal.

House rules: text to be copied stays in one piece: commands, paths, words with hyphens, and specs
in quotes such as 'fixed 1m for 2h', unless they alone are wider than the terminal. A text that fits
does not change.
"""

import re
from textwrap import wrap
from typing import List

NARROWEST = 30  # columns; on a narrower terminal, texts are not folded any further
_SOURCE_WIDTH = 90  # a source line that is shorter and ends a sentence ends there on purpose
_COMMENT_INDENT = 6
_LONGEST_QUOTE = 30
_QUOTE = r"(?<!\w)'[^']*'(?!\w)"
_ROW = r"(\s+\S.*?\s{2,})(\S.*)"  # an indented command or name, and its description
_NO_BREAK = "\xa0"


def fold_words(text: str, width: int, indent: str = "", first_indent: str = "") -> List[str]:
    """The lines of a text; quotes stay in one piece."""

    def glue(match: "re.Match[str]") -> str:
        quote = match.group()
        return quote if len(quote) > _LONGEST_QUOTE else quote.replace(" ", _NO_BREAK)

    lines = wrap(
        re.sub(_QUOTE, glue, text),
        max(width, NARROWEST),
        initial_indent=first_indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def fold_text(text: str, width: int) -> str:
    """A text with paragraphs, and indented rows such as examples, folded to so many columns."""
    if all(len(line) <= width for line in text.splitlines()):
        return text
    folded: List[str] = []
    paragraph: List[str] = []
    for line in [*text.splitlines(), ""]:
        is_prose = line[:1].strip() != ""
        if paragraph and not (is_prose and _continues(paragraph[-1], line)):
            folded += fold_words(" ".join(paragraph), width)
            paragraph = []
        if is_prose:
            paragraph.append(line)
        else:
            folded += _fold_row(line, width)
    return "\n".join(folded[:-1]) + "\n"


def _continues(previous: str, line: str) -> bool:
    """Whether a line continues the paragraph; otherwise, the line before it ends on purpose."""
    would_fit = len(previous) + 1 + len(line.split()[0]) <= _SOURCE_WIDTH
    return not (would_fit and previous.endswith((".", ":")))


def _fold_row(line: str, width: int) -> List[str]:
    """An indented line: a command, perhaps with a comment, or a name with its description."""
    match = re.fullmatch(_ROW, line)
    if len(line) <= width or match is None:
        return [line]
    first, comment = match.groups()
    if " " not in first.strip():
        return fold_words(comment, width, " " * len(first), first)
    indent = " " * _COMMENT_INDENT
    return [first.rstrip()] + fold_words(comment, width, indent, indent)
