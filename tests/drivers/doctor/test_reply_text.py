"""A reply as doctor --show-reply prints it."""

import json
import time

import pytest

from pollkit import Reply
from pollkit.core.redaction import scrub
from pollkit.drivers.doctor.reply_text import LONGEST_LINE, MOST_LINES, reply_lines
from raw_server import RawServer, reply

SECRET = 's3cr3t"\\é'


def lines(data):
    body = data if isinstance(data, bytes) else json.dumps(data)
    return reply_lines(Reply(200, {}, body), lambda text: scrub(text, {SECRET, "12345678"}))


def test_json_is_indented_and_in_its_order():
    assert lines({"b": [1, None, True], "a": {"ü": "é"}, "c": [], "d": 1.5}) == [
        "{",
        '  "b": [',
        "    1,",
        "    null,",
        "    true",
        "  ],",
        '  "a": {',
        '    "ü": "é"',
        "  },",
        '  "c": [],',
        '  "d": 1.5',
        "}",
    ]
    assert lines("done") == ['"done"']


@pytest.mark.parametrize(
    "data",
    [
        {"error": "no such token: " + SECRET},
        {SECRET: 1},
        {"a": [[SECRET]]},
        {"a": 12345678},
        {"a": "x" * 9990 + SECRET},
        {"access_token": "s3cr3t"},
        {"X-Api-Key": 1234},
        {"url": "https://me:s3cr3t@cdn.internal/a?sig=s3cr3t"},
        ("no JSON, but " + SECRET).encode("utf-8"),
        ("no JSON\n" * 888 + SECRET).encode("utf-8"),
    ],
    ids=range(10),
)
def test_no_secret_is_shown(data):
    shown = "\n".join(lines(data))
    assert "s3cr" not in shown and "1234" not in shown


def test_an_error_code_is_no_secret():
    assert '    "code": "E7",' in lines({"error": {"code": "E7", "error_code": "E8"}})


def test_long_replies_are_shortened():
    shown = lines(
        {
            "text": "x" * 999,
            "list": list(range(99)),
            "deep": {"a": json.loads("[" * 50 + "1" + "]" * 50)},
        }
    )
    assert shown[1] == '  "text": "%s...",' % ("x" * 200)
    assert '    "... (89 more)"' in shown and shown[-1] == "}"
    fields = lines({"field_%d" % i: i for i in range(100)})
    assert fields[-2:] == ['  "...": "40 more fields"', "}"]
    for body in (
        {"a": [{"b": [{"c": 1}] * 9}] * 9, "d": [[1] * 9] * 9},
        b"text\n" * 99999,
        b"x" * 10**6,
    ):
        shown = lines(body)
        assert len(shown) <= MOST_LINES + 1 and shown[-1] == "... (cut)"
        assert max(map(len, shown)) <= LONGEST_LINE + 3


def test_a_hostile_reply_takes_no_longer():
    wide = [{str(i): [{str(j): "x" for j in range(60)}] * 10 for i in range(60)}] * 10
    began = time.process_time()
    assert len(lines(wide)) <= MOST_LINES + 1
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "body", [b'{"a": "\\u001b[31m\\u009b\\u202e"}', b"\x1b[31m\xc2\x9b\x07 text"]
)
def test_no_character_controls_the_terminal(body):
    assert all(line.isprintable() for line in lines(body))


def test_doctor_prints_the_reply_before_its_summary(pollkit, environment):
    environment.setenv("TOKEN", "s3cr3t-1")

    def echo(connection, request):
        connection.send(reply(json.dumps({"phase": "x", "you": request.headers["x-key"]})))

    with RawServer(echo) as server:
        code, out, err = pollkit(
            "doctor", server.url(), "--show-reply", "--auth", "header X-Key env:TOKEN"
        )
    assert (code, err) == (4, "")
    shown = ["the reply:", "  {", '    "phase": "x",', '    "you": "***"', "  }", "1 problem"]
    assert out.splitlines()[-6:] == shown


def test_doctor_has_no_reply_to_print_if_there_was_none(pollkit, environment):
    code, out, _ = pollkit("doctor", "http://127.0.0.1:9/1", "--show-reply")
    assert (code, out.splitlines()[-2:]) == (4, ["the reply: none", "1 problem"])
