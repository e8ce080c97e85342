"""'Did you mean' suggests only similar names."""

import pytest

from pollkit.core.spelling import similar_name

FLAGS = ["--timeout", "--token-env", "--token-file", "--limit", "--label", "--size", "--header"]
COMMANDS = ["wait", "batch", "add", "run", "status", "retry", "help"]


@pytest.mark.parametrize(
    "name, known, similar",
    [
        ("--timout", FLAGS, "--timeout"),
        ("--Timeout", FLAGS, "--timeout"),
        ("-timeout", FLAGS, "--timeout"),
        ("--token", FLAGS, "--token-env"),
        ("wiat", COMMANDS, "wait"),
        ("lipsink", ["lipsync"], "lipsync"),
        ("bacth", COMMANDS, "batch"),
        ("stats", COMMANDS, "status"),
        ("WAIT", COMMANDS, "wait"),
    ],
)
def test_a_misspelled_or_abbreviated_name_is_recognised(name, known, similar):
    assert similar_name(name, known) == similar


@pytest.mark.parametrize(
    "name, known",
    [
        ("--insecure", FLAGS),
        ("--retry", FLAGS),
        ("--interval", FLAGS),
        ("--nope", FLAGS),
        ("-s", FLAGS),
        ("--", FLAGS),
        ("poll", COMMANDS),
        ("list", COMMANDS),
        ("st", COMMANDS),
        ("", COMMANDS),
    ],
)
def test_a_name_that_is_not_near_has_no_suggestion(name, known):
    assert similar_name(name, known) is None
