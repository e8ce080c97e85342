"""The messages for mistakes in a profile file."""

import random

import pytest

from pollkit import ConfigError
from pollkit.edges.profiles import catalog as profiles

BASE = "[mine]\nurl = https://a/{id}\ntimeout = 1m\nlimit = 60/m\nheader.X-A = 1\nheader.x-b = 2\n"
pytestmark = pytest.mark.usefixtures("home")


U = "[a]\nurl = https://a/{id}\n"
BROKEN = [
    (U + "statsu = x", ":3: [a] statsu: there is no such key: did you mean status?"),
    (U + "URL = x", ":3: [a] URL: there is no such key: did you mean url?"),
    (U + "headers.X = x", ":3: [a] headers.X: there is no such key"),
    (U + "zzz = x", ":3: [a] zzz: there is no such key; see pollkit help profiles"),
    (U + "label = x", ":3: [a] label: there is no such key"),
    (
        U + "timeout = soon",
        ":3: [a] timeout: 'soon' is not a duration: write 500ms, 5s, 2m or 1h30m",
    ),
    (U + "timeout = -5s", ":3: [a] timeout: '-5s' is not a duration"),
    (U + "timeout =", ":3: [a] timeout: has no value: write one after the ="),
    (U + "request_timeout = 0", ":3: [a] request_timeout: must be above zero"),
    (U + "request_timeout = never", ":3: [a] request_timeout: 'never' is not"),
    (U + "max_faults = 0", ":3: [a] max_faults: it must be a whole number from 1, not 0"),
    (U + "max_faults = many", ":3: [a] max_faults: must be a whole number from 1, not 'many'"),
    (U + "batch_size = 1.5", ":3: [a] batch_size: must be a whole number from 1"),
    (U + "result_url = {nobody}/x", ":3: [a] result_url: has an unknown placeholder {nobody}"),
    (U + "result_url = /a b", ":3: [a] result_url: is not a URL: it has a space"),
    (U + "result_url = a[].b", ":3: [a] result_url: path 'a[].b' leads to several values"),
    (U + "result_next = next", ":3: [a] result_next: has no effect without result_url"),
    (U + "cancel_url = data.cancel", ":3: [a] cancel_url: must be a URL, such as {base}/jobs/"),
    (U + "cancel_url = /jobs/cancel", ":3: [a] cancel_url: has no {id}"),
    (U + "cancel_method = DELETE", ":3: [a] cancel_method: has no effect without cancel_url"),
    (U + "on_timeout = cancel", ":3: [a] on_timeout: has no effect without cancel_url"),
    (U + "on_timeout = kill", ":3: [a] on_timeout: must be stop or cancel, not 'kill'"),
    (U + "weight = 0", ":3: [a] weight: must be a number above 0, up to 1000, not '0'"),
    (U + "weight = nan", ":3: [a] weight: must be a number above 0, up to 1000, not 'nan'"),
    (U + "weight = high", ":3: [a] weight: must be a number above 0, up to 1000, not 'high'"),
    (U + "limit = 60", ":3: [a] limit: limit '60' is not a limit: write 60/m"),
    (U + "limit = 0/m", ":3: [a] limit: limit '0/m' is out of range"),
    (U + "pace = slow", ":3: [a] pace: pace 'slow' is not a pace"),
    (
        U + "pace = backoff 9s..2s",
        ":3: [a] pace: pace 'backoff 9s..2s': a backoff's cap (2s) can't be below",
    ),
    (U + "retry = fixed", ":3: [a] retry: pace 'fixed': write it as"),
    (U + "status = a..b", ":3: [a] status: path 'a..b': write it as"),
    (U + "status = $.a.b", ":3: [a] status: path '$.a.b' is JSONPath: write it as a.b"),
    (U + "result = items[0]", ":3: [a] result: path 'items[0]' is JSONPath: write it as items.0"),
    (
        U + "status = tasks[].a",
        ":3: [a] status: path 'tasks[].a' leads to several values: judge them by rules",
    ),
    (U + "progress = tasks[].a", ":3: [a] progress: path 'tasks[].a' leads to several values"),
    (
        U + "rules =\n  done if http 200\n  done when x == y",
        ":5: [a] rules: 'done when x == y': write 'if' after done",
    ),
    (U + "progress = $.a / b[1]", ":3: [a] progress: path '$.a' is JSONPath: write it as a"),
    (U + "result = a|yaml.b", ":3: [a] result: path 'a|yaml.b'"),
    (U + "progress = a /", ":3: [a] progress: path '': write it as"),
    (U + "done = a,,b", ":3: [a] done: has an empty word"),
    (
        U + "done = a\n  failed = b",
        ":3: [a] done: continues on the next line: is that line indented by mistake?",
    ),
    (U + "  status = b", ":2: [a] url: continues on the next line"),
    (U + "unknown = maybe", ":3: [a] unknown: must be pending or failed, not 'maybe'"),
    (U + "method = get", ":3: [a] method: 'get' is not an HTTP method"),
    (U + "proxy = socks5://p", ":3: [a] proxy: must be env, none or a URL such as http://proxy"),
    (U + "proxy = http://p:99999", ":3: [a] proxy: 'http://p:99999' has no usable host and port"),
    (U + "base = host", ":3: [a] base: 'host' is not a URL"),
    (U + "batch_next = next as", ":3: [a] batch_next: 'next as': write PATH, PATH as"),
    (
        U + "batch_next = header X-Next",
        ":3: [a] batch_next: 'header X-Next': write PATH, PATH as PARAMETER, or header Link",
    ),
    (U + "batch_next = next", ":3: [a] batch_next: has no effect without batch_url"),
    (
        U + "batch_absent = gone",
        ":3: [a] batch_absent: must be pending or ask or done or failed, not 'gone'",
    ),
    (
        U + "batch_url = https://a/{id}",
        ":3: [a] batch_url: has an unknown placeholder {id}: use {ids}, {base}",
    ),
    (U + "up_to = 3", ":3: [a] up_to: belongs to a label: put it in a section such as [a:small]"),
    (U + "[a:b]\nup_to = nan", ":4: [a:b] up_to: must be a number from 0, or inf, not 'nan'"),
    (U + "[a:b]\nup_to = -1", ":4: [a:b] up_to: must be a number from 0"),
    (U + "header.X Y = 1", ":3: [a] header.X Y: 'X Y' can't be a header's name"),
    (U + "header. = 1", ":3: [a] header.: '' can't be a header's name"),
    (U + "header.Host = b", ":3: [a] header.Host: the header Host is not yours to set"),
    (
        U + "header.X = \u20ac",
        ":3: [a] header.X: the header X has characters that headers can't carry",
    ),
    (U + "header.X = 1\n  Evil: 2", ":3: [a] header.X: continues on the next line"),
    (U + "auth = token env:A", ":3: [a] auth: auth names no scheme it can use"),
    (U + "auth = bearer", ":3: [a] auth: auth names no source for the credential"),
    (U + "auth = header Host env:X", ":3: [a] auth: the header Host is not yours to set"),
    (
        U + "auth = header content-length file:x",
        ":3: [a] auth: the header content-length is not yours to set",
    ),
    (
        U + "auth = bearer env:MY VAR",
        ":3: [a] auth: auth names no environment variable: write bearer env:NAME",
    ),
    (U + "auth = bearer env:X # my token", ":3: [a] auth: auth names no environment variable"),
    (U + "auth = header X-Key env:$X", ":3: [a] auth: auth names no environment variable"),
    (
        U + "auth = bearer command:pass 'x",
        ":3: [a] auth: can't run the credential command: its quotes don't match",
    ),
    (
        U + "header.X = 1\nheader.x = 2",
        ":4: [a] header.x: appears twice: first on line 3, in other letters",
    ),
    (U + "[a:b]\nheader.X = 1\nheader.x = 2", ":5: [a:b] header.x: appears twice: first on line 4"),
    (U + "base = https://b", ":3: [a] base: has no effect without {base} in url"),
    (U + "[a:b]\nbase = https://b", ":4: [a:b] base: has no effect without {base} in url"),
    (
        "[DEFAULT]\ntimeout = 1s\n" + U,
        ":1: [DEFAULT]: there are no defaults for all profiles: repeat shared keys",
    ),
    ("[DEFAULT:b]\ntimeout = 1s\n" + U, ":1: [DEFAULT:b]: there are no defaults for all profiles"),
    (U + "status = x\nstatus = y", ":4: [a] status: appears twice: first on line 3"),
    (U + "\n" + U, ":4: [a]: appears twice: first on line 1"),
    (U + "[a:b]\ntimeout = 1s\n[a : b]\ntimeout = 2s", ":5: [a:b]: appears twice: first on line 3"),
    (
        "[a]\nurl = https://a/{id}\nprogress = x / y / z",
        ":3: [a] progress: must be one path, or two",
    ),
    (U + "done = ok, fine\nfailed = Fine", ":4: [a] failed: has 'Fine', which is also in done"),
    (
        "[a]\nurl = https://a/{id}\nclient_key = k.pem",
        ":3: [a] client_key: has no effect without client_cert",
    ),
    (
        "[a]\nurl = https://a/{id}\nbatch_size = 5",
        ":3: [a] batch_size: has no effect without batch_url",
    ),
    (
        "[a]\nurl = https://a/{id}\n[a:b]\nup_to = 5\n[a:c]\nup_to = 5",
        ":6: [a:c] up_to: is the same as for b, so no size would select this label",
    ),
    (U + "hold = 2h", ":3: [a] hold: it must be from 1s to 10m, not 2h"),
    (U + "hold = soon", ":3: [a] hold: 'soon' is not a duration"),
    (U + "hold = 25s", ":3: [a] hold: has no effect: write {hold} or {hold_ms} in url"),
    (U + "hold_url = https://a/{id}:wait", ":3: [a] hold_url: has no effect without hold"),
    (U + "hold_method = POST", ":3: [a] hold_method: has no effect without hold_url"),
    (U + "header.Prefer = wait={hold}", ":3: [a] header.Prefer: has a placeholder that has no"),
    (U + "hold_url = https://a/{ids}", ":3: [a] hold_url: has an unknown placeholder {ids}"),
    (
        U + "hold = 25s\nhold_url = https://b/{id}",
        ":4: [a] hold_url: must begin like url, with the same scheme, host and port",
    ),
    (
        "[a]\nurl = https://a/{job}",
        ":2: [a] url: has an unknown placeholder {job}: use {id}, {label}, {base}",
    ),
    ("[a]\nurl = https://a/", ":2: [a] url: has no {id}: write it where the URL needs it"),
    ("[a]\nurl = https://a/{id", ":2: [a] url: is not a URL: it has a space, an unmatched brace"),
    ("[a]\nurl = ftp://a/{id}", ":2: [a] url: 'ftp://a/x' is not a URL that pollkit can poll"),
    ("[a]\nurl = https://b/{base}/{id}", ":2: [a] url: is not a URL"),
    ("[a]\nurl = https://a b/{id}", ":2: [a] url: is not a URL: it has a space"),
    ("[z:b]\ntimeout = 1s", ":1: [z:b]: there is no [z] to inherit from"),
    ("[a b]\nurl = https://a/{id}", ":1: [a b]: write it as [name] or [name:label]"),
    ("[a:]\ntimeout = 1s\n" + U, ":1: [a:]: write it as [name] or [name:label]"),
    ("[:b]\ntimeout = 1s", ":1: [:b]: write it as [name] or [name:label]"),
    ("url = https://a/{id}\n" + U, ":1: a [section] must come before anything else"),
    ("junk\n ;[b]\n[c;] junk ;[d]\n" + U, ":1: a [section] must come before anything else"),
    ("junk\n[a]x ;[b]\n", ":1: a [section] must come before anything else"),
    (U + "[b] nonsense", ":3: this is neither [section] nor key = value"),
    (U + "[b", ":3: this is neither [section] nor key = value"),
    (U + "nonsense", ":3: this is neither [section] nor key = value"),
    ("# nothing but a comment\n", ": the file has no [profile] section"),
    ("", ": the file has no [profile] section"),
]


@pytest.mark.parametrize("text, message", BROKEN)
def test_a_mistake_is_named_with_its_line(write, pollkit, text, message):
    path = write(text)
    code, out, err = pollkit("profiles", "check", path)
    lines = out.splitlines()
    assert (code, err) == (2, "") and any(line.startswith(path + message) for line in lines), out
    assert [str(problem) for problem in profiles.check_file(path)] == lines


@pytest.mark.parametrize(
    "text, message", [row for row in BROKEN if "[a] " in row[1] or "[a:b] " in row[1]]
)
def test_a_mistake_affects_only_the_profile_that_it_is_in(write, text, message):
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        profiles.find_profile("a", path)
    assert str(caught.value).startswith(path + message)
    assert str(caught.value).endswith(" (pollkit profiles check %s lists every problem)" % path)
    assert profiles.find_profile("sync", path) == profiles.find_profile("sync")


def test_all_mistakes_are_listed_in_the_order_of_their_lines(write):
    path = write(
        "junk\n[b]\nurl = https://b/{id}\nlimti = 3\npace = x\nmore junk\n[a:c]\nup_to = x\n"
        "[a]\nbase = y\nbase = z\n"
    )
    assert [
        (problem.line, problem.section, problem.key) for problem in profiles.check_file(path)
    ] == [
        (1, "", ""),
        (4, "b", "limti"),
        (5, "b", "pace"),
        (6, "", ""),
        (8, "a:c", "up_to"),
        (10, "a", "base"),
        (11, "a", "base"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        U + "auth = bearer env:MY_VAR  ; my token",
        U + "auth = bearer env:my.var-2",
        U + "auth = bearer env:T\u00f6ken",
        U + "auth = bearer command:pass show 'my api' # x",
        U + "header.X = 1\n[a:b]\nheader.x = 2",
        U + "base = https://b\n[a:b]\nurl = {base}/{id}",
        U + "base = https://b\nbatch_url = {base}/?ids={ids}",
        "[a]\nbase = https://b",
        U + "body = x\nmethod = POST",
        U + "body = x\nmethod = DELETE",
        U + "body = x\n[a:b]\nmethod = POST",
        U + "method = POST\n[a:b]\nbody = x",
        "[default]\nurl = https://a/{id}",
    ],
)
def test_valid_files_that_look_like_mistakes(write, text):
    assert profiles.check_file(write(text)) == []


def test_a_later_file_may_write_a_header_in_other_letter_case(write, monkeypatch):
    monkeypatch.setenv("POLLKIT_PROFILES", write(BASE))
    path = write("[mine]\nheader.x-a = 3\n", "later.ini")
    assert profiles.check_file(path) == []
    assert profiles.find_profile("mine", path).headers == {"x-a": "3", "x-b": "2"}


@pytest.mark.parametrize("section", ["[:b]", "[a b]", "[a b:c]", "[DEFAULT]", "[DEFAULT:b]"])
def test_a_section_with_a_bad_name_is_reported_once(write, section):
    path = write(U + section + "\ntimeout = 1s\n")
    assert [problem.line for problem in profiles.check_file(path)] == [3]
    assert profiles.find_profile("a", path).url == "https://a/{id}"


def test_a_label_may_inherit_from_a_profile_of_another_file(write, monkeypatch):
    assert profiles.check_file(write("[knowhere:huge]\nup_to = 9999\n")) == []
    path = write("[mine:huge]\nup_to = 9999\n", "labels.ini")
    assert len(profiles.check_file(path)) == 1
    monkeypatch.setenv("POLLKIT_PROFILES", write(BASE))
    assert profiles.check_file(path) == []


def test_check_ignores_the_mistakes_of_other_files(write, monkeypatch):
    path = write(BASE)
    write("junk", "etc.ini")
    assert profiles.check_file(path) == []
    write("[mine]\nstatsu = x\n[sync]\nzzz = 1\n", "etc.ini")
    assert profiles.check_file(path) == []
    # The checked file may be one of those that are always read.
    monkeypatch.setenv("POLLKIT_PROFILES", path)
    assert profiles.check_file(path) == []


@pytest.mark.parametrize(
    "name, message",
    [
        ("knowher", "there is no profile 'knowher' (did you mean knowhere?); see pollkit profiles"),
        ("xyz", "there is no profile 'xyz'; see pollkit profiles"),
        ("", "there is no profile ''"),
        ("knowhere:small", "give the label separately, as --profile knowhere --label small"),
    ],
)
def test_an_unknown_name_is_one_clear_line(name, message):
    with pytest.raises(ConfigError) as caught:
        profiles.find_profile(name)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "auth = bearer s3cr3t",
        "auth = s3cr3t",
        "auth = header X-Key s3cr3t",
        "auth = basic me:s3cr3t",
        "header.Authorization = Bearer s3cr3t\u20ac",
        "header.X-API-Key = s3cr3t\n  more",
        "Bearer s3cr3t",
        "token = s3cr3t",
        "proxy = http://me:s3cr3t@proxy:99999",
        "url = ftp://me:s3cr3t@a/{id}",
        "base = ftp://me:s3cr3t@a",
        "base = https://me:s3cr3t@a?x=1",
    ],
)
def test_a_misplaced_secret_is_refused_and_not_quoted(write, pollkit, line):
    path = write("[a]\n%s\n" % line)
    code, out, err = pollkit("profiles", "check", path)
    assert code == 2 and out and "s3cr3t" not in out + err
    with pytest.raises(ConfigError) as caught:
        profiles.find_profile("a", path)
    assert "s3cr3t" not in str(caught.value)


def test_every_bad_rule_is_reported_with_its_line(write):
    rules = "rules = donee if http 404\n  # a comment\n\n  done if x == 1\n  done if\n"
    lines = [problem.line for problem in profiles.check_file(write(U + rules))]
    assert lines == [3, 7]


def test_a_random_file_is_parsed_or_refused(write):
    """Random pieces of INI never cause another exception than a ConfigError."""
    seed = random.randrange(10**6)
    print("seed", seed)
    rng = random.Random(seed)
    pieces = [
        "[a]",
        "[a:b]",
        "[",
        "]",
        "url",
        "=",
        ":",
        "\n",
        "\n",
        "\n  ",
        "{id}",
        "{",
        "https://a/",
        ";",
        "#",
        " ",
        "\t",
        "\u2028",
        "\x0b",
        "\x1c",
        "\r",
        "%(x)s",
        "timeout",
        "5s",
        "[DEFAULT]",
        "[]",
        "\ufeff",
        "header.X",
        "done",
        ",",
    ]
    for _ in range(60):
        text = "".join(rng.choice(pieces) for _ in range(rng.randrange(40)))
        path = write(text)
        assert all(problem.source == path for problem in profiles.check_file(path))
        try:
            profiles.all_profiles(path)
            profiles.find_profile("a", path)
        except ConfigError as error:
            assert path in str(error) or "there is no profile 'a'" in str(error)
