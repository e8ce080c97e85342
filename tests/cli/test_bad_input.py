"""Bad input: exit code 2, one line on stderr that names the remedy, and nothing else is written."""

import io
import os
import re
import subprocess
import sys

import pytest

from paths import ROOT
from pollkit.cli import main

URL = "http://127.0.0.1:9/jobs/1"
SECRET = "hunter22"
PROFILES = b"""
[ok]
url = http://127.0.0.1:9/{id}
[ok:small]
up_to = 3
[odd]
url = http://127.0.0.1:9/{id}
statsu = state
[based]
url = {base}/jobs/{id}
[anywhere]
status = state
"""
FILES = {
    "one.txt": b"job_1\n",
    "empty.txt": b"",
    "blank.txt": b"\n  \n# nothing\n",
    "latin1.txt": b"a\n\xe9\n",
    "utf16.txt": "job_1\n".encode("utf-16"),
    "binary.dat": bytes(range(256)),
    "nul.txt": b"a\0b\n",
    "token.txt": b"tok_12345\n",
    "two-lines.txt": b"a\nb\n",
    "mine.ini": PROFILES,
    "no-section.ini": b"url = x\n",
    "url-list.txt": b"http://127.0.0.1:9/1\nhttp://127.0.0.1:99999/2\n",
}
MINE = ["--profiles", "mine.ini"]
DIGITS = "9" * 400


def wait(*words):
    return ["wait", URL] + list(words)


# A command line, and the text that the error must contain.
TYPED = [
    # the command line as a whole
    (["wiat", URL], "no command 'wiat' .did you mean wait"),
    (["", URL], "no command ''"),
    (["WAIT"], "no command 'WAIT'"),
    (["-v", "wait", URL], "flags come after the command"),
    (["--profile=x"], "flags come after"),
    (["wait"], "required: URL"),
    (["batch"], "there are no jobs: give a file, - for standard input, or ids"),
    (wait("another"), "from 'another' on"),
    (wait("--", "--quiet"), "from '--quiet' on"),
    (wait("--timeuot", "5"), "no flag --timeuot .did you mean --timeout"),
    (wait("--time", "5"), "no flag --time "),
    (wait("--workers", "5"), "no flag --workers"),
    (wait("-x"), "-x: use --proxy URL;"),
    (["wait", "--nope"], "no flag --nope; see"),
    (["batch", "-", "-j5"], "-j: use --workers N; see pollkit batch --help"),
    (["wait", "-v"], "required: URL"),
    (["wait", "--timeuot=5"], "no flag --timeuot .did you mean --timeout"),
    (["wait", "-q", "--"], "-q: use --quiet;"),
    (wait("-y"), "no flag -y; see"),
    (wait("--timeout"), "expected one argument"),
    (wait("--timeout", "-5s"), "'-5s' is not a timeout: write 90s"),
    (wait("--limit", "-1/m"), "'-1/m' is not a limit: write 60/m"),
    (wait("--limit", "-.5/s"), "is not a limit"),
    (wait("--timeout", "--", "-5s"), "expected one argument"),
    (wait("--token", SECRET), "--token: use --token-env VAR or --token-file"),
    (["retry", "jobs.db", "--token", SECRET], "no flag --token; see"),
    (wait("--token=" + SECRET), "--token: use --token-env"),
    (wait("-p" + SECRET), "no flag -p;"),
    (["wait", "--password", SECRET], "--password: use --token-env"),
    (wait("--interval", "5"), "--interval: use --pace 'fixed 5s'; see pollkit wait --help"),
    (wait("--insecure"), "--insecure: use --ca-file FILE.* certificates are always verified"),
    (wait("-k"), "-k: use --ca-file FILE"),
    (wait("--retry", "3"), "--retry: use --max-faults N; pollkit retries without being asked"),
    (["batch", "one.txt", "--retries=3"], "--retries: use --max-faults N"),
    (["status", "jobs.db", "--insecure"], "no flag --insecure; see"),
    # URLs and ids
    (["wait", ""], "give its URL, or its id"),
    (["wait", " "], "give its URL, or its id"),
    (["wait", "a\nb"], "control characters"),
    (["wait", "http://u:%s@h/\x01" % SECRET], "control characters"),
    (["wait", "\udcff\udcfe"], "bytes that are not text"),
    (["wait", URL + "\udcff"], "bytes that are not text"),
    (["wait", "job_1"], "not a URL.* --profile NAME"),
    (["wait", "www.internal/jobs/1"], "the job's whole URL"),
    (["wait", "http:/h/1"], "the job's whole URL"),
    (["wait", "-"], "the job's whole URL"),
    (["wait", "ftp://h/1"], "only http:// and https://"),
    (["wait", "file:///etc/passwd"], "only http:// and https://"),
    (["wait", "http://"], "no usable host"),
    (["wait", "http:///1"], "no usable host"),
    (["wait", "http://h:99999/"], "host and port"),
    (["wait", "http://h:0/"], "host and port"),
    (["wait", "http://h:x/"], "host and port"),
    (["wait", "http://a b/"], "host and port"),
    (["wait", "http://[::1/"], "host and port"),
    (["wait", "http://☃..x/"], "no usable host"),
    (["wait", "https://u:%s@/" % SECRET], r"\*\*\*@.* host and port"),
    # profiles, labels, sizes
    (["wait", "1", "--profile", "knowhree"], "did you mean knowhere"),
    (["wait", "1", "--profile", ""], "no profile ''"),
    (["wait", "1", "--profile", "ok:small"] + MINE, "--profile ok --label small"),
    (["wait", "1", "--profile", "odd"] + MINE, r"mine.ini:8: \[odd\] statsu.*did you mean status"),
    (["wait", "1", "--profile", "anywhere"] + MINE, "the profile anywhere has no url"),
    (["wait", "1", "--profile", "based"] + MINE, "needs a base URL: give --base-url"),
    (["wait", "1", "--profile", "ray-jobs"], "needs a base URL: give --base-url"),
    (["wait", "1", "--profile", "based", "--base-url", "x"] + MINE, "--base-url: 'x' is not a URL"),
    (["wait", "1", "--profile", "based", "--base-url", "http://h/?x"] + MINE, "can have no query"),
    (
        ["wait", "1", "--profile", "ok", "--base-url", "http://h"] + MINE,
        "--base-url would change nothing",
    ),
    (wait("--base-url", "http://h"), "give --profile NAME, too"),
    (["wait", "..", "--profile", "ok"] + MINE, r"'\.\.' can't"),
    (["wait", "1", "--profile", "ok", "--label", "smal"] + MINE, "no label 'smal': it has small"),
    (wait("--label", ""), "--label: '' is not a label"),
    (wait("--label", "\udcff"), "is not a label"),
    (wait("--size", "x"), "a size is a number"),
    (wait("--size", "-1"), "a number from 0"),
    (wait("--size", "nan"), "a number from 0"),
    (wait("--size", ""), "a size is a number"),
    (wait("--profiles", "absent.ini"), "absent.ini: No such file"),
    (wait("--profiles", "folder"), "folder: Is a dir"),
    (wait("--profiles", "binary.dat"), "not text"),
    (wait("--profiles", "latin1.txt"), "not UTF-8 text: see line 2"),
    (wait("--profiles", ""), "name of a file is missing"),
    (wait("--profiles", "one.txt/x"), "Not a directory"),
    (["wait", "1", "--profile", "ok", "--profiles", "no-section.ini"], "no-section.ini:1"),
    # numbers and durations
    (wait("--timeout", "x"), "write 90s, 10m"),
    (wait("--timeout", "-1"), "'-1' is not a timeout"),
    (wait("--timeout", "1e300"), "write 90s"),
    (wait("--timeout", "nan"), "write 90s"),
    (wait("--timeout", "inf"), "write 90s"),
    (wait("--timeout", DIGITS), "up to ten years"),
    (wait("--timeout", ""), "write 90s"),
    (wait("--timeout", "5%"), "'5%' is"),
    (wait("--pace", "x"), "write 'fixed 5s'"),
    (wait("--pace", "fixed 0s"), "above zero"),
    (wait("--pace", ""), "write 'fixed"),
    (wait("--pace", "backoff 5s..2s"), "can't be below"),
    (wait("--pace", "backoff 2s..9s x" + DIGITS), "from 1 to 1000"),
    (wait("--pace", "adaptive fist=3s"), "there is first, every"),
    (wait("--pace", "fixed 5s attempts=0"), "whole number"),
    (wait("--limit", "60"), "write 60/m"),
    (wait("--limit", "0/m"), "out of range"),
    (wait("--limit", "1/0s"), "out of range"),
    (wait("--limit", DIGITS + "/s"), "out of range"),
    (wait("--limit", "1/s burst 0"), "from 1 to 1000000"),
    (wait("--limit", "1/s burst " + DIGITS), "from 1 to 1000000"),
    (wait("--limit", "1/s burst " + DIGITS * 20), "from 1 to 1000000"),
    (wait("--max-faults", "0"), "whole number from 1"),
    (wait("--max-faults", "1.5"), "whole number from 1"),
    (wait("--max-faults", "-1"), "whole number from 1"),
    (["batch", "one.txt", "--workers", "0"], "from 1 to 1000;"),
    (["batch", "one.txt", "--workers", "1" + "0" * 30], "from 1 to 1000;"),
    (["batch", "one.txt", "--workers", "nan"], "from 1"),
    (["batch", "one.txt", "--workers", "0000000019999"], "from 1 to 1000;"),
    (["profiles", "check", ""], "name of a file is missing"),
    # headers
    (wait("--header", "x"), "write it as 'Name: value'"),
    (wait("--header", ": x"), "write it as"),
    (wait("--header", "Bearer " + SECRET), "write it as"),
    (wait("--header", "X: a\r\nY: b"), "header X .* one line"),
    (wait("--header", "X\r\nY: b"), "can't be a header's name"),
    (wait("--header", "X: \udcff"), "header X .* one line"),
    (wait("--header", "X: ☃"), "can't carry"),
    (wait("--header", "Host: x"), "not yours to set"),
    (wait("--header", "Authorization: Bearer " + SECRET), "use --auth 'bearer env:VAR'"),
    (wait("--header", "authorization: BASIC " + SECRET), "use --auth 'basic env:VAR'"),
    (wait("--header", "Cookie: a=" + SECRET), "use --auth 'header Cookie env:VAR'"),
    (wait("--header", "X-Api-Key: " + SECRET), "use --auth 'header X-Api-Key env:VAR'"),
    (wait("--header", "X-Me: basic " + SECRET), "use --auth 'header X-Me env:VAR'"),
    # credentials
    (wait("--token-env", "UNSET_VARIABLE"), "UNSET_VARIABLE is not set"),
    (wait("--token-env", "EMPTY"), "not set, or empty"),
    (wait("--token-env", "TWO_LINES"), "TWO_LINES is not one line"),
    (wait("--token-env", ""), "name of an environment variable"),
    (wait("--token-env", SECRET), "environment variable is not set"),
    (wait("--token-env", SECRET + "-"), "never the credential"),
    (wait("--token-env", "TOKEN", "--token-file", "token.txt"), "give one"),
    (wait("--auth", "header X-Key " + SECRET), "auth names no source .*: write bearer env:NAME"),
    (wait("--auth", SECRET), "auth names no scheme"),
    (wait("--auth", ""), "auth names no scheme"),
    (wait("--auth", "bearer env:" + SECRET), "--auth: the environment variable is not set"),
    (wait("--auth", "bearer env:" + SECRET + "-"), "never the credential"),
    (wait("--auth", "bearer env:UNSET_VARIABLE"), "UNSET_VARIABLE is not set"),
    (wait("--auth", "header Host env:TOKEN"), "not yours to set"),
    (wait("--auth", "basic file:absent"), "absent: No such file"),
    (wait("--auth", "netrc", "--token-env", "TOKEN"), "--token-env and --auth both name"),
    (wait("--token-file", ""), "file is missing"),
    (wait("--token-file", "absent"), "absent: No such file"),
    (wait("--token-file", "folder"), "folder: Is a directory"),
    (wait("--token-file", "empty.txt"), "is empty"),
    (wait("--token-file", "binary.dat"), "can't read .* binary.dat"),
    (wait("--token-file", "two-lines.txt"), "not one line"),
    (wait("--token-file", "nul.txt"), "not one line"),
    # TLS and proxies
    (wait("--ca-file", "absent"), "absent.*: No such file"),
    (wait("--ca-file", "one.txt"), "certificate files .one.txt"),
    (wait("--ca-file", "folder"), "certificate files .folder"),
    (wait("--ca-file", ""), "file is missing"),
    (wait("--client-cert", "one.txt"), "certificate files .one.txt"),
    (wait("--client-key", "one.txt"), "give --client-cert"),
    (wait("--proxy", "x y"), "host and port"),
    (wait("--proxy", ""), "write none to use no proxy"),
    (wait("--proxy", "http://"), "host"),
    (wait("--proxy", "socks5://h"), "only http:// proxies"),
    (wait("--proxy", "https://u:%s@h" % SECRET), r"https://\*\*\*@h"),
    (wait("--proxy", "http://u:%s@:99999" % SECRET), r"\*\*\*@:99999"),
    (wait("--proxy", "http://\udcff"), "no usable host"),
    (wait("--proxy", "http://u:%s@proxy:3128" % SECRET), "can read a password on the command line"),
    # progress
    (wait("--progress", "foo"), "--progress: invalid choice: 'foo' .choose from"),
    (wait("--progress"), "expected one arg"),
    # lists of jobs
    (["batch", "absent"], "no file 'absent', and 'absent' is not a URL.*--profile NAME"),
    (["batch", "absent.txt", "--profile", "knowhere"], "no file 'absent.txt'; if .* pollkit wait"),
    (["batch", "no/such", "--profile", "knowhere"], "no file 'no/such'"),
    (["batch", "job_1", "-", "--profile", "knowhere"], "'-' is a file: give one file"),
    (["batch", "job_1", "job_2"], "'job_1' is not a URL.*--profile NAME"),
    (["batch", "one.txt", "--resume", "folder", "--profile", "ok"] + MINE, "folder: Is a dir"),
    (["batch", "folder"], "folder: Is a directory"),
    (["batch", ""], "name of a file is missing"),
    (
        ["batch", "latin1.txt"] + MINE,
        "latin1.txt, line 1: 'a' is not|latin1.txt, line 2: not UTF-8",
    ),
    (["batch", "utf16.txt"], "line 1: not UTF-8"),
    (["batch", "binary.dat"], "not UTF-8"),
    (["batch", "\udcff"], "no file .*, and .* bytes that are not text"),
    (["batch", "nul.txt"], "nul.txt, line 1: .* control characters"),
    (["batch", "one.txt"], "one.txt, line 1: .* --profile"),
    (["batch", "one.txt", "two.txt"], "'one.txt' is a file: give one file"),
    (["batch", "url-list.txt"], "line 2: .* host and port"),
    # the other commands
    (["profiles", "shwo", "x"], "show NAME, check FILE, suggest URL or import FILE"),
    (["profiles", "knowhere"], "pollkit profiles show knowhere"),
    (["profiles", "show"], "needs a NAME"),
    (["profiles", "check"], "needs a FILE"),
    (["profiles", "list", "x"], "show NAME"),
    (["profiles", "show", "knowhree"], "did you mean knowhere"),
    (["profiles", "check", "absent"], "absent: No such file"),
    (["profiles", "check", "folder"], "folder: Is a directory"),
    (["profiles", "--profiles", "absent"], "absent: No such"),
    (["profiles", "check", "mine.ini"] + MINE, "leave --profiles out"),
    (["profiles", "show", "a", "b"], "from 'b' on"),
    (["help", "nonsense"], "no topic or command 'nonsense'"),
    (["help", "wiat"], "did you mean wait"),
    (["help", "a", "b"], "from 'b' on"),
    (["demo", "x"], "from 'x' on"),
    (["demo", "--quik"], "did you mean --quick"),
    (["demo", "--progress", "x"], "invalid choice"),
]

# A line of a list on standard input, and the text that the error must contain.
LISTED = [
    ("{", "line 4: not JSON.* column 2"),
    ("{}", "needs an id or a url"),
    ("[]", "not an object: write"),
    ('"a"', "not an object: write"),
    ('[{"id": "a"}]', "not an object: write"),
    ('{"id": "a"}, ', "not JSON.*Extra data"),
    ("{'id': 'a'}", "not JSON"),
    ('{"id": 1}', "id should be text, not 1"),
    ('{"id": null}', "needs an id"),
    ('{"id": ""}', "id is empty"),
    ('{"id": ["a"]}', r'id should be text, not \["a"\]'),
    ('{"id": "a", "x": 1}', "unknown field 'x': a job has id, url"),
    ('{"ID": "a"}', "unknown field 'ID'"),
    ('{"id": "a", "id": "b"}', "two fields with the same name"),
    ('{"id": "a\\nb"}', "control characters"),
    ('{"id": "\\ud800"}', "bytes that are not text"),
    ('{"id": ".."}', r"'\.\.'"),
    ('{"url": "ftp://h/1"}', "only http://"),
    ('{"url": "/jobs/1"}', "not a URL"),
    ('{"id": "a", "url": ""}', "url is empty"),
    ('{"id": "a", "url": 5}', "url should be text"),
    ('{"id": "a", "size": "x"}', "number from 0"),
    ('{"id": "a", "size": -1}', "number from 0"),
    ('{"id": "a", "size": NaN}', "number from 0"),
    ('{"id": "a", "size": true}', "number from 0"),
    ('{"id": "a", "label": 3}', "label should be text"),
    ('{"id": "a", "label": ""}', "label is empty"),
    ('{"id": "a", "label": "smal"}', "no label 'smal': it has small"),
    ('{"id": "a", "label": "\\ud800"}', "not a label"),
    ('{"id": "a", "metadata": []}', "metadata should be an object"),
    ('{"id": "a", "metadata": {"x": NaN}}', "metadata: Out of range float values"),
    ('{"id": "a", "profile": "knowhree"}', "line 4: .*did you mean knowhere"),
    ('{"id": "a", "profile": ""}', "profile is empty"),
    ('{"id": "a", "profile": "ray-jobs"}', "needs a base URL"),
    ('{"id": "a", "metadata": %s' % ("[" * 100000), "this JSON can't describe a job"),
    (
        '{"id": "job_1", "url": "http://127.0.0.1:9/x"}',
        "'job_1' is also in line 2, for another job",
    ),
    ("a\tb", "control characters"),
    ("http://h:99999/", "host and port"),
    ("http://u:%s@:1/" % SECRET, r"\*\*\*@"),
    ("a\0b", "control characters"),
]


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


# As processes: Python decodes the arguments and opens the streams.


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
