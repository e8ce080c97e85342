"""The examples in the help texts and in the README run."""

import argparse
import doctest
import io
import os
import re
import sys

import pytest

import pollkit
import pollkit.testing
from help_texts import EXAMPLES, TEXTS, parse_example
from paths import DATA, read_sources
from pollkit.cli.main import COMMANDS, build_parser, main
from pollkit.core.units import parse_limit
from pollkit.core.waiting.pace import parse_pace
from programs import needs_program

# Examples


def test_examples_are_found():
    assert len(EXAMPLES) > 30
    assert parse_example("    0 6 * * * cd /x && flock -n l pollkit batch a --quiet >> b") == [
        "batch",
        "a",
        "--quiet",
    ]
    assert parse_example("  pollkit demo 2>/dev/null   only the table") == ["demo"]
    assert parse_example("see pollkit help paces") is None
    # The pattern misses no command in the topics.
    for topic, text in TEXTS.items():
        for line in text.splitlines():
            if re.match(r" {4}(?! )(?:.* )?pollkit (?:%s)\b" % "|".join(COMMANDS), line):
                assert parse_example(line), (topic, line)


@pytest.mark.parametrize("words", EXAMPLES)
def test_every_example_parses(words):
    assert words[0] in COMMANDS
    parser = build_parser(words[0])
    try:
        arguments = parser.parse_words(words[1:])
    except SystemExit as exiting:
        assert exiting.code == 0 and "--help" in words
        return
    assert isinstance(arguments, argparse.Namespace)


OFFLINE = [
    param
    for param in EXAMPLES
    if param.values[0][:1] == ["help"]
    or param.values[0] in (["profiles"], ["profiles", "show", "knowhere"])
]


@pytest.mark.parametrize("words", OFFLINE)
def test_examples_that_need_no_network_run(words, capsys):
    assert main(list(words)) == 0
    out, err = capsys.readouterr()
    assert out.strip() and not err


NETWORKED = [
    param
    for param in EXAMPLES
    if param.values[0][0] in ("wait", "batch", "doctor")
    and not {"URL", "JOB", "NAME"} & set(param.values[0])
]


@pytest.mark.parametrize("words", NETWORKED)
def test_examples_that_poll_an_api_run_up_to_the_connection(words, tmp_path, monkeypatch, capsys):
    """Flags, profiles and files are valid; only the proxy refuses the connection."""
    if "curl" in words:
        needs_program("curl")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "jobs.txt").write_text(
        "job_1\n" if "--profile" in words else "http://api.internal/1\n"
    )
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": "job_1", "label": "suno"}\n'))
    )
    monkeypatch.setenv("KNOWHERE_API_KEY", "k")
    monkeypatch.setenv("API_TOKEN", "t")
    files = {"--ca-file": "ca.pem", "--client-cert": "client.pem", "--client-key": "client.key"}
    for flag, name in files.items():
        if flag in words:
            words = [
                os.path.join(DATA, name) if words[i - 1] == flag else word
                for i, word in enumerate(words)
            ]
    if "--proxy" not in words:
        words = words + ["--proxy", "http://127.0.0.1:9"]
    else:
        words = [word.replace("proxy.internal:3128", "127.0.0.1:9") for word in words]
    if words[0] != "doctor":
        words = words + ["--timeout", "0"]
    if words[0] == "batch" and not {"--limit", "--bucket"} & set(words):
        words = words + ["--limit", "1000/s"]
    words = [word.replace("/var/tmp", str(tmp_path)) for word in words]
    assert main(list(words)) == 4, capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    sorted(
        set(
            re.findall(
                r"^  ((?:fixed|backoff) \d.*?|adaptive first=\S+ every=\S+|adaptive)(?:  |$)",
                TEXTS["paces"],
                re.MULTILINE,
            )
        )
    ),
)
def test_paces_in_the_topic_parse(text):
    assert parse_pace(text.replace("=J", "=full"))


@pytest.mark.parametrize(
    "text", sorted(set(re.findall(r"(?<=  )\d+/\w+(?: burst \d+)?(?=  )", TEXTS["limits"])))
)
def test_limits_in_the_topic_parse(text):
    assert parse_limit(text)


def test_delays_of_the_adaptive_pace_are_those_in_the_topic():
    delays = ["%.2g" % parse_pace("adaptive").delay(1, 0, age, 0.5) for age in (0, 60, 600, 3600)]
    assert delays == ["6.7", "17", "50", "1.2e+02"]
    for phrase in (
        "waits 6.7 s",
        "17 s when the job is a minute old",
        "50 s after ten",
        "two minutes after an hour",
    ):
        assert phrase in " ".join(TEXTS["paces"].split())


# Python in the topics


def find_python_blocks(topic):
    """The indented blocks of a topic that are neither sessions nor commands."""
    for block in re.findall(r"(?<=\n\n)    \S.*\n(?:    .*\n|\n(?=    ))*", TEXTS[topic]):
        if ">>>" not in block and parse_example(block.splitlines()[0]) is None:
            yield "".join(line[4:] or "\n" for line in block.splitlines(True))


@pytest.mark.parametrize("topic, least", [("library", 5), ("transports", 3)])
def test_python_in_the_topics_compiles(topic, least):
    blocks = [block for block in find_python_blocks(topic) if not block.startswith("[")]
    assert len(blocks) >= least
    for block in blocks:
        compile(block, topic + ".txt", "exec")


@pytest.mark.parametrize("topic", ["library", "testing", "transports", "callbacks", "migrate"])
def test_python_in_the_topics_uses_only_exported_names(topic):
    for name in re.findall(r"\bpollkit\.(\w+)", TEXTS[topic]):
        assert name in pollkit.__all__ or name == "testing", name
    for name in re.findall(r"\bpollkit\.testing\.(\w+)", TEXTS[topic]):
        assert name in pollkit.testing.__all__, name


@pytest.mark.parametrize("topic, least", [("library", 9), ("testing", 9), ("callbacks", 4)])
def test_sessions_in_the_topics_run(topic, least):
    name = topic + ".txt"
    session = doctest.DocTestParser().get_doctest(TEXTS[topic], {}, name, name, 0)
    assert len(session.examples) >= least
    assert doctest.DocTestRunner(verbose=False).run(session).failed == 0


def test_the_testing_topic_names_every_attribute_of_the_fake_api():
    with pollkit.testing.FakeJobApi() as api:
        names = [name for name in dir(api) if not name.startswith("_")]
    for name in names:
        assert re.search(r"\b%s\b" % name, TEXTS["testing"]), name


def test_the_library_topic_names_every_export_that_users_call():
    for name in (
        "wait",
        "Poller",
        "BatchPoller",
        "Job",
        "Profile",
        "Outcome",
        "Reply",
        "Fixed",
        "Backoff",
        "Adaptive",
        "TokenBucket",
        "PollkitError",
        "ConfigError",
        "JobFailed",
        "JobTimedOut",
        "JobUnreachable",
        "Simulation",
        "SharedBucket",
        "Ledger",
        "LedgerRunner",
        "LedgerError",
        "State",
        "Event",
        "JobError",
        "History",
    ):
        assert re.search(r"\b%s\b" % name, TEXTS["library"]), name
    for field in pollkit.Outcome._fields:
        assert re.search(r"\b%s\b" % field, TEXTS["library"]), field


# Messages in the troubleshooting topic


def find_messages():
    for line in TEXTS["troubleshooting"].splitlines():
        match = re.match(r"  ([a-z].*)$", line)
        if match and not line.startswith(("   ", "  cron", "  timed out")):
            yield match.group(1)


@pytest.mark.parametrize("message", list(find_messages()))
def test_messages_in_the_troubleshooting_topic_are_in_the_code(message):
    pieces = [
        piece.strip(" ,:()")
        for piece in re.split(r"HOST|NAME|URL|ORIGIN|'WORD'|\b\d+ s\b|\(Retry-After\)", message)
        if len(piece.strip()) > 3
    ]
    assert pieces[0] in read_sources()
