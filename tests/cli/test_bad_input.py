"""Bad input: exit code 2, one line on stderr that names the remedy, and nothing else is written."""

import io
import os
import re
import subprocess
import sys

import pytest

from bad_command_lines import FILES, LISTED, MINE, SECRET, TYPED, URL, wait
from paths import ROOT
from pollkit.cli import main


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the files of FILES, and an environment without settings of pollkit."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    for name in [
        name for name in os.environ if name.startswith("POLLKIT") or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    for name, value in {
        "HOME": str(tmp_path),
        "EMPTY": "",
        "TWO_LINES": "a\nb",
        "TOKEN": "tok_12345",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    before = sorted(os.listdir("."))
    yield tmp_path
    assert (
        sorted(os.listdir(".")) == before
        and (tmp_path / "one.txt").read_bytes() == FILES["one.txt"]
    )


def check(code, out, err, expected):
    assert code == 2 and out == ""
    assert re.fullmatch("pollkit: [^\n]{10,700}\n", err), err
    assert re.search(expected, err) and "bug" not in err and SECRET not in err, err


@pytest.mark.parametrize("words, expected", TYPED, ids=lambda value: repr(value)[:60])
def test_a_bad_command_line_is_one_line_that_names_the_remedy(here, capsys, words, expected):
    check(main(words), *capsys.readouterr(), expected=expected)


@pytest.mark.parametrize("line, expected", LISTED, ids=lambda value: repr(value)[:40])
def test_a_bad_line_of_a_list_is_one_line_that_names_the_remedy(
    here, capsys, monkeypatch, line, expected
):
    text = "# a list\njob_1\n\n%s\n" % line
    stdin = io.TextIOWrapper(io.BytesIO(text.encode("utf-8", "surrogatepass")))
    monkeypatch.setattr(sys, "stdin", stdin)
    code = main(["batch", "-", "--profile", "ok"] + MINE)
    out, err = capsys.readouterr()
    assert err.startswith("pollkit: standard input, line 4: ")
    check(code, out, err, expected)


def test_a_flag_that_would_not_apply_to_the_profile_of_a_job_is_an_error(here, capsys, monkeypatch):
    for flags in (
        ["--limit", "1/s"],
        ["--token-env", "TOKEN"],
        ["--proxy", "none"],
        ["--ca-file", "x.pem"],
    ):
        stdin = io.TextIOWrapper(io.BytesIO(b'{"id": "a", "profile": "based"}\n'))
        monkeypatch.setattr(sys, "stdin", stdin)
        if flags[0] == "--ca-file":
            flags = ["--ca-file", os.path.join(ROOT, "tests", "data", "ca.pem")]
        code = main(["batch", "-", "--profile", "ok"] + MINE + flags)
        check(code, *capsys.readouterr(), expected="line 1: .* %s would not apply to it" % flags[0])


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root can read everything")
def test_a_file_without_read_permission_is_one_line(here, capsys):
    for words in (
        ["batch", "one.txt"],
        wait("--token-file", "one.txt"),
        wait("--profiles", "one.txt"),
    ):
        os.chmod("one.txt", 0)
        code = main(words)
        os.chmod("one.txt", 0o600)
        check(code, *capsys.readouterr(), expected="Permission denied")


def start(words, **options):
    env = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": ROOT,
        "LC_ALL": "C",
        "HOME": os.getcwd(),
    }
    options.setdefault("stdin", subprocess.DEVNULL)
    if isinstance(words, str):
        words = ["sh", "-c", words.replace("pollkit", "%s -m pollkit" % sys.executable)]
    else:
        words = [sys.executable, "-m", "pollkit"] + words
    done = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **options
    )
    out, err = done.communicate()
    return done.returncode, out.decode("utf-8"), err.decode("utf-8")


PROCESSES = [
    (["wait", b"\xff\xfe"], "bytes that are not text"),
    (["batch", b"\xff"], "bytes that are not text"),
    ([b"\xff"], "no command"),
    (["wait", "http://h\xe9:x/".encode("utf-8")], "bytes that are not text|host and port"),
    (["wait", URL, "--profile", b"\xff"], "no profile"),
    (["wait", URL, "--token-file", b"\xff"], "can't read"),
    ("pollkit batch - <&-", "standard input is closed"),
    ("pollkit submit https://a.internal/jobs --json - <&-", "standard input is closed"),
    ("pollkit wait >&-", "required: URL"),
    ("printf 'a\\000b' | pollkit batch -", "control characters"),
    ("pollkit batch - < binary.dat", "not UTF-8"),
]


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("words, expected", PROCESSES, ids=lambda value: repr(value)[:40])
def test_bad_input_of_a_process_is_one_line_that_names_the_remedy(here, words, expected):
    check(*start(words), expected=expected)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words", ["--version", "--help", "help", "wait --help", "profiles", "profiles show knowhere"]
)
def test_a_full_disk_is_one_line(here, words):
    check(
        *start("pollkit %s >/dev/full" % words),
        expected="can't write to standard output: No space left",
    )


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize(
    "words, expected",
    [
        ("pollkit --version | true", 0),
        ("pollkit help | true", 0),
        ("pollkit profiles | head -1", 0),
        ("pollkit --version >&-", 0),
        ("pollkit profiles >&- 2>&-", 0),
        ("pollkit wait 2>&-", 2),
        ("pollkit wait 2>/dev/full", 2),
        ("pollkit wait %s --timeout 0 --quiet --history none >&-" % URL, 4),
        ("pollkit wait %s --timeout 0 >/dev/null 2>/dev/full" % URL, 4),
    ],
)
def test_closed_and_full_streams_change_no_exit_code(here, words, expected):
    code, _, err = start(words)
    assert (code, err) == (expected, "")


def test_a_bug_is_one_line_that_names_its_place(capsys, monkeypatch):
    monkeypatch.setattr("pollkit.cli.commands.profiles.all_profiles", lambda path: 1 / 0)
    assert main(["profiles"]) == 2
    assert re.fullmatch(
        r"pollkit: this is a bug in pollkit: ZeroDivisionError: .* "
        r"\(test_bad_input.py, line \d+\)\n",
        capsys.readouterr().err,
    )
