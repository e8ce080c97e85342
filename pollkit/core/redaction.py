"""Remove secrets from text that quotes a server.

A server may repeat a secret that it received: whole, percent-encoded, or only its beginning, if the
text was truncated. The work is linear in the length of the text.
"""

import re
from typing import Set

from .model import LONGEST_TEXT, last_line
from .urls import SHORTEST_SECRET, percent_encode

# The end of a text that was truncated or quoted. Compiled when a text first has part of a secret.
_CUT = r"\.\.\.|['\"]"
_UNENCODED = ("", "/", "!'()*")  # what percent-encoding leaves as it is; the last is JavaScript's


def scrub(text: str, secrets: Set[str]) -> str:
    """A text without the secrets, truncated; it keeps its last line, as in `one_line`.

    >>> scrub("no such token: s3cr3t", {"s3cr3t"})
    'no such token: ***'
    """
    if len(text) > LONGEST_TEXT:
        # The last line begins after a line end, so it can't begin within a secret.
        last = last_line(text, LONGEST_TEXT // 2)
        text = text[: LONGEST_TEXT - len(last)] + "..."
        if last:
            text += "\n" + last
    if "%" in text:
        encoded = {percent_encode(secret, safe) for secret in secrets for safe in _UNENCODED}
        secrets = secrets | encoded | {re.sub("%..", _lower, secret) for secret in encoded}
    for secret in sorted(secrets, key=len, reverse=True):
        text = without_secret(text, secret)
    return text


def _lower(match: "re.Match[str]") -> str:
    """A percent-encoded byte as .NET writes it."""
    return match.group().lower()


def without_secret(text: str, secret: str) -> str:
    """A text without a secret, and without the secret's beginning before a cut."""
    text = text.replace(secret, "***")
    if " " in secret:
        return text  # 'Bearer X': X itself is one of the secrets
    prefix = secret[:SHORTEST_SECRET]
    pieces = []
    copied_to = 0
    cut_at = 0
    start = text.find(prefix)
    while start >= 0:
        prefix_end = start + SHORTEST_SECRET
        if cut_at < prefix_end:
            cut = re.compile(_CUT).search(text, prefix_end)
            cut_at = cut.start() if cut else len(text)
        if secret.startswith(text[start : min(cut_at, prefix_end + len(secret))]):
            pieces.append(text[copied_to:start] + "***")
            copied_to = cut_at
        # A longer text than the secret can't be its beginning: continue near the cut.
        start = text.find(prefix, max(copied_to, start + 1, cut_at - len(secret)))
    return "".join(pieces) + text[copied_to:]
