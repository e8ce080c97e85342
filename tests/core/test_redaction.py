"""Secrets in text that quotes a server: whole, percent-encoded, or truncated."""

import time

import pytest

from hostile_replies import TOKEN
from pollkit.core.redaction import scrub, without_secret


@pytest.mark.parametrize(
    "secret, text, shown",
    [
        ('"abcd-1234-efgh"', 'unknown token "abcd..."', 'unknown token ***..."'),
        ("...token-1", "no such thing: ...tok", "no such thing: ***"),
        ("abababab-1", "abab 'ababab' abababab-1", "abab '***' ***"),
        ("Bearer abcd-1234", "Bearer abcd-1234, and Bear...", "***, and Bear..."),
        ("test-4711-token", "test 1 of 150000\n" * 150000, "test 1 of 150000\n" * 150000),
    ],
    ids=range(5),
)
def test_a_secret_is_found_in_any_text_in_reasonable_time(secret, text, shown):
    """A secret that begins with a quote, and a log that repeats the beginning of a secret."""
    assert without_secret(text, secret) == shown


def test_the_beginnings_of_a_secret_are_found_in_linear_time():
    """A quadratic search would take 6 s for 1 MB of the first letters of a token."""
    began = time.process_time()
    assert without_secret("s3cr" * 250000, TOKEN).endswith("s3cr***")
    assert without_secret("s3cr'" * 200000, TOKEN) == "***'" * 200000
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "encoded", ["a%2Bb%2Fc%21%3D%3D", "a%2bb%2fc%21%3d%3d", "a%2Bb%2Fc!%3D%3D", "a%2bb%2fc!%3d%3d"]
)
def test_a_secret_may_be_percent_encoded_in_any_usual_way(encoded):
    """By Python, .NET or JavaScript."""
    assert scrub("no such token: %s, sorry" % encoded, {"a+b/c!=="}) == "no such token: ***, sorry"


@pytest.mark.parametrize(
    "text, shown",
    [
        ("no such token: s3cr3t/1", "no such token: ***"),
        ("see /login?next=s3cr3t%2F1 or s3cr3t/1%", "see /login?next=*** or ***%"),
        ("see /login?next=s3cr3t%2f1", "see /login?next=***"),
        ("x" * 9998 + "s3cr3t/1", "x" * 9998 + "s3..."),
        ("x" * 9995 + "s3cr3t/1", "x" * 9995 + "***..."),
        ("nothing to hide", "nothing to hide"),
        ("x" * 9985 + "s3cr3t/1\n" * 3 + "ValueError", "x" * 9985 + "***...\nValueError"),
        ("x" * 9999 + "\n" + "s3cr3t/1", "x" * 9992 + "...\n***"),
        ("x" * 9999 + "\n" + "y" * 6000, "x" * 9999 + "\n..."),
    ],
    ids=range(9),
)
def test_a_text_is_truncated_and_then_scrubbed(text, shown):
    """At most three characters of a truncated secret may remain."""
    assert scrub(text, {"s3cr3t/1"}) == shown
