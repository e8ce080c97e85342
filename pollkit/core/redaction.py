"""Removing secrets from text that quotes a server.

A server may repeat a secret that it was sent, whole, percent-encoded, or cut short where the text
was truncated. The work is linear in the length of the text.
"""

import re
from typing import Set

from .model import LONGEST_TEXT
from .urls import SHORTEST_SECRET, percent_encode

_CUT = re.compile(r"\.\.\.|['\"]")  # how a text ends that was truncated, and is quoted


def scrub(text: str, secrets: Set[str]) -> str:
    """A text, truncated, without the secrets.

    >>> scrub("no such token: s3cr3t", {"s3cr3t"})
    'no such token: ***'
    """
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + "..."
    if "%" in text:
        encoded = [percent_encode(secret, safe) for secret in secrets for safe in ("", "/")]
        secrets = secrets.union(encoded)
    for secret in sorted(secrets, key=len, reverse=True):
        text = without_secret(text, secret)
    return text


def without_secret(text: str, secret: str) -> str:
    """A text without a secret; if the text was truncated, also without the secret's beginning."""
    text = text.replace(secret, "***")
    if " " in secret:
        return text  # 'Bearer X': X is a secret of its own
    first = secret[:SHORTEST_SECRET]
    pieces = []
    done = 0
    end = 0
    start = text.find(first)
    while start >= 0:
        past = start + SHORTEST_SECRET
        if end < past:
            cut = _CUT.search(text, past)
            end = cut.start() if cut else len(text)
        if secret.startswith(text[start : min(end, past + len(secret))]):
            pieces.append(text[done:start] + "***")
            done = end
        # A text that is longer than the secret is no beginning of it: go on near the cut.
        start = text.find(first, max(done, start + 1, end - len(secret)))
    return "".join(pieces) + text[done:]
