"""`pollkit doctor`: credentials, replies, and the command itself."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from doctor_report import STEPS, http_date
from leaky_servers import FAILURES, SECRETS, leaks
from paths import ROOT
from pollkit.cli import main
from raw_server import HANG, RawServer, redirect, reply, wait_for

DONE = reply('{"status": "done"}', Content_Type="application/json")


# Credentials


def test_missing_credential_is_a_problem_and_nothing_is_sent(doctor, environment):
    environment.delenv("NOPE", raising=False)
    with RawServer(DONE) as server:
        seen = doctor(server.url(), "--token-env", "NOPE")
        assert not server.requests
    assert (seen.code, seen.problems) == (4, ["credential"])
    assert "NOPE" in seen.text["credential"]


@pytest.mark.skipif(os.name != "posix", reason="other systems have other permissions")
@pytest.mark.parametrize("mode, level", [(0o600, "ok"), (0o644, "warning"), (0o620, "warning")])
def test_file_that_others_can_read_is_a_warning(mode, level, doctor, tmp_path):
    token = tmp_path / "token"
    token.write_text("SECRET")
    token.chmod(mode)
    with RawServer(DONE) as server:
        seen = doctor(server.url(), "--token-file", str(token))
    assert (seen.code, seen.level["credential"]) == (0, "ok")
    assert seen.level.get("files", "ok") == level
    assert level == "ok" or str(token) in seen.text["files"]
    assert "SECRET" not in seen.out


def test_a_credential_command_runs_once_and_only_its_name_is_shown(doctor, tmp_path):
    count = tmp_path / "count"
    ini = tmp_path / "p.ini"
    script = tmp_path / "give.py"
    script.write_text("import sys; open(sys.argv[1], 'a').write('x'); print('SECRET')")
    with RawServer(DONE) as server:
        ini.write_text(
            "[mine]\nurl = %s\nauth = bearer command:%s %s %s hush\n"
            % (server.url("/{id}"), sys.executable, script, count)
        )
        seen = doctor("1", "--profile", "mine", "--profiles", str(ini))
    assert seen.text["credential"] == "from the command %s, sent as Bearer" % sys.executable
    assert count.read_text() == "x"
    assert "SECRET" not in seen.out and "hush" not in seen.out


def test_credential_without_tls_is_a_warning_beyond_this_host(doctor, environment):
    environment.setenv("TOKEN", "SECRET")
    with RawServer(DONE) as proxy:
        seen = doctor(
            "http://jobs.invalid/1", "--token-env", "TOKEN", "--proxy", "http://" + proxy.authority
        )
    assert (seen.code, seen.level["credential"]) == (0, "warning")
    assert "without TLS" in seen.text["credential"]


# Replies

REPLIES = {  # reply, level of the meaning, words in it, exit code
    "failed": (
        reply('{"status": "failed", "error": "out of paper"}'),
        "ok",
        "has failed: out of paper",
        0,
    ),
    "unknown word": (reply('{"status": "marinating"}'), "warning", "name it in the profile", 0),
    "401": (reply('{"error": "no"}', "401 Unauthorized"), "problem", "no credential was sent", 4),
    "404": (reply(b"", "404 Not Found"), "problem", "does not know this job", 4),
    "410": (reply(b"", "410 Gone"), "problem", "would not help", 4),
    "429": (reply(b"", "429 Slow", Retry_After="7"), "warning", "429: too many requests", 0),
    "503": (reply(b"", "503 Oops"), "problem", "the server answered 503", 4),
    "login page": (reply("<html>", Content_Type="text/html"), "problem", "a login or a proxy", 4),
    "no status": (reply('{"a": 1}'), "problem", "in the reply (--show-reply)", 4),
    "303": (redirect("/result", "303 See Other"), "ok", "/result", 0),
}


@pytest.mark.parametrize("case", list(REPLIES))
def test_meaning_of_a_reply(case, doctor):
    answer, level, words, code = REPLIES[case]
    with RawServer(answer) as server:
        seen = doctor(server.url())
    assert (seen.level["meaning"], seen.code) == (level, code)
    assert words in seen.text["meaning"]
    assert seen.level["poll"] == "ok"  # the server replied


def test_401_with_a_credential_says_that_it_was_refused(doctor, environment):
    environment.setenv("TOKEN", "SECRET")

    def echo(connection, request):
        connection.send(reply('{"error": "bad %s"}' % request.headers["authorization"], "401 No"))

    with RawServer(echo) as server:
        seen = doctor(server.url(), "--token-env", "TOKEN")
    assert "sent and refused" in seen.text["meaning"]
    assert "***" in seen.text["meaning"]
    assert "SECRET" not in seen.out


def test_limits_of_the_server_are_reported(doctor):
    answer = reply(
        '{"status": "running"}',
        RateLimit_Limit="60",
        RateLimit_Remaining="2",
        RateLimit_Reset="20",
        Retry_After="7",
    )
    with RawServer(answer) as server:
        seen = doctor(server.url())
    assert (seen.code, seen.level["limits"]) == (0, "warning")
    assert (
        "2 of 60 requests left, reset in 20 s; it asks to wait 7s (Retry-After)"
        in seen.text["limits"]
    )


@pytest.mark.parametrize(
    "offset, level, words, code",
    [
        (0, "ok", "agree", 0),
        (40, "warning", "behind", 0),
        (-40, "warning", "ahead", 0),
        (-600, "problem", "ahead", 4),
        (86400, "problem", "behind", 4),
    ],
)
def test_clock_against_the_date_of_the_reply(offset, level, words, code, doctor):
    with RawServer(reply('{"status": "done"}', Date=http_date(offset))) as server:
        seen = doctor(server.url())
    assert (seen.level["clock"], seen.code) == (level, code)
    assert words in seen.text["clock"]


def test_redirect_is_reported(doctor):
    with RawServer(redirect("/there?token=SECRET"), DONE) as server:
        seen = doctor(server.url())
    assert seen.text["poll"].endswith("from %s?token=***" % server.url("/there"))


# As a command


def test_doctor_accepts_the_command_line_of_wait(doctor, tmp_path):
    """Flags that make no sense for a single poll are ignored and create no file."""
    with RawServer(DONE) as server:
        seen = doctor(
            server.url(),
            "-v",
            "--quiet",
            "--progress",
            "log",
            "--log-json",
            "--result",
            "--history",
            str(tmp_path / "kept"),
            "--bucket",
            str(tmp_path / "limit.db"),
        )
    assert (seen.code, seen.steps) == (0, STEPS)
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["job_1"],
        ["ftp://h/1"],
        ["http://h:99999/1"],
        [" "],
        ["http://h/1", "--ca-file", "/nonexistent"],
        ["http://h/1", "--token-env", "A", "--token-file", "B"],
        ["1", "--profile", "nonesuch"],
    ],
)
def test_bad_usage_is_one_line_and_2(words, capsys):
    assert main(["doctor"] + words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch("pollkit: .+\n", err)


def start_doctor(url, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", "pollkit", "doctor", url],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
    )


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_stops_it_at_once_after_the_findings_so_far():
    with RawServer(HANG) as server:
        process = start_doctor(server.url())
        wait_for(lambda: server.requests)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert time.monotonic() - began < 1
    assert process.returncode == 130
    assert b"connected to" in out
    assert b"Traceback" not in err


def test_ascii_locale_can_show_any_text_of_a_server():
    with RawServer(reply('{"status": "fertig \u2713"}')) as server:
        process = start_doctor(server.url(), LC_ALL="C", PYTHONIOENCODING="ascii")
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert b"fertig \\u2713" in out


# Secrets


@pytest.mark.parametrize("way", ["straight", "through a proxy"])
@pytest.mark.parametrize("case", list(FAILURES))
def test_secrets_are_shown_nowhere_whatever_fails(case, way, environment, tmp_path, capsys):
    """Secrets in the URL, the credential, a header or the proxy, even if the server echoes them."""
    environment.setenv("TOKEN", SECRETS["token"])
    ini = tmp_path / "p.ini"
    with RawServer(FAILURES[case]) as server:
        straight = way == "straight"
        host = server.authority if straight else "j.test"
        ini.write_text(
            "\n".join(
                [
                    "[mine]",
                    "url = http://me:%s@%s/{id}?api_key=%s"
                    % (SECRETS["password"], host, SECRETS["query"]),
                    "auth = bearer env:TOKEN",
                    "header.X-API-Key = " + SECRETS["header"],
                    "request_timeout = " + ("200ms" if case == "slow" else "10s"),
                    "proxy = "
                    + (
                        "none"
                        if straight
                        else "http://us:%s@%s" % (SECRETS["proxy"], server.authority)
                    ),
                ]
            )
        )
        code = main(["doctor", "1", "--profile", "mine", "--profiles", str(ini)])
        assert SECRETS["header"].encode() in server.requests[0].raw  # there was something to leak
    out, err = capsys.readouterr()
    assert code in (0, 4)
    assert "credential" in out
    assert not leaks(out + err)


# Rules


def doctor_with_rules(doctor, tmp_path, body, rules):
    ini = tmp_path / "p.ini"
    with RawServer(reply(body, Content_Type="application/json")) as server:
        ini.write_text("[mine]\nurl = %s\nrules =\n  %s\n" % (server.url("/{id}"), rules))
        return doctor("1", "--profile", "mine", "--profiles", str(ini))


def test_the_doctor_names_the_rule_that_matched(doctor, tmp_path):
    seen = doctor_with_rules(doctor, tmp_path, '{"state": "OK"}', "done if state == OK")
    assert seen.text["meaning"] == "rule 'done if state == OK' (state is OK): done"
    assert seen.text["rule"] == "'done if state == OK' matches: state is OK"


def test_the_doctor_names_the_rules_that_nearly_matched(doctor, tmp_path):
    rules = "done if http 404\n  failed if http 200 and state == BAD"
    seen = doctor_with_rules(doctor, tmp_path, '{"state": "OK"}', rules)
    assert (seen.code, seen.text["meaning"]) == (0, "no rule matches: pending")
    lines = [line.split(None, 2)[2] for line in seen.out.splitlines() if " rule " in line[:20]]
    assert lines == [
        "'failed if http 200 and state == BAD' does not match: http 200; state is OK",
        "'done if http 404' does not match: http 200",
    ]


def test_the_doctor_mentions_that_unknown_ids_are_pending(doctor, tmp_path):
    ini = tmp_path / "p.ini"
    with RawServer(reply('{"state": "PENDING"}', Content_Type="application/json")) as server:
        ini.write_text("[mine]\nurl = %s\nunknown_ids = pending\n" % server.url("/{id}"))
        seen = doctor("1", "--profile", "mine", "--profiles", str(ini))
    assert (seen.code, seen.level["meaning"]) == (0, "warning")
    assert "pending for ids that it does not know, too -> is the id right?" in seen.text["meaning"]
