"""Profiles by name: where they are looked for, what they inherit, what is said of a mistake."""
import io
import math
import os
import random
import re

import pytest

from pollkit import Backoff, ConfigError, Fixed, Profile
from pollkit.cli import main
from pollkit.cli.commands.help import text_of
from pollkit.core.profile import based, checked, for_job
from pollkit.edges import profiles
from pollkit.edges.ini_files import LARGEST
from pollkit.edges.profile_keys import KEYS, as_ini

SIZED = Profile(name="docs", url="https://a/{id}", labels={
    "odd": Profile(name="docs", label="odd"), "large": Profile(name="docs", label="large", up_to=math.inf),
    "small": Profile(name="docs", label="small", up_to=10), "medium": Profile(name="docs", label="medium", up_to=50.5)})


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of our own, nothing in /etc."""
    monkeypatch.setattr(profiles, "SYSTEM_FILE", str(tmp_path / "etc.ini"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("USERPROFILE", "POLLKIT_PROFILES", "POLLKIT_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def write(tmp_path):
    def write(text, name="mine.ini"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return str(path)
    return write


@pytest.fixture
def run(capsys):
    """Run a command; its exit code, what it printed, what it complained of."""
    def run(*words):
        code = main(list(words))
        return (code,) + tuple(capsys.readouterr())
    return run


# core: which profile a job gets, and {base}

@pytest.mark.parametrize("label, size, got", [
    (None, None, None), ("odd", None, "odd"), ("small", 1000, "small"), (None, 0, "small"), (None, 10, "small"),
    (None, 10.1, "medium"), (None, 50.5, "medium"), (None, 51, "large"), (None, math.inf, "large")])
def test_a_label_comes_before_a_size_and_a_size_picks_the_smallest_that_fits(label, size, got):
    assert for_job(SIZED, label, size).label == got


def test_what_fits_no_label_gets_the_profile_itself():
    small = Profile(labels={"small": Profile(label="small", up_to=10)})
    assert for_job(small, size=11) is small


def test_any_label_will_do_where_there_are_none_or_the_url_takes_it():
    plain, open_to_all = Profile(url="https://a/{id}"), SIZED._replace(url="https://a/{label}/{id}")
    assert for_job(plain, "whatever") is plain
    assert for_job(open_to_all, "whatever") is open_to_all
    assert for_job(open_to_all, "small").label == "small"


def test_an_unknown_label_names_those_there_are():
    with pytest.raises(ConfigError, match="profile docs has no label 'smal': it has odd, large, small, medium"):
        for_job(SIZED, "smal")


@pytest.mark.parametrize("size", [-1, math.nan, "7", True, [], -math.inf])
def test_a_size_that_is_none_is_refused_even_beside_a_label(size):
    with pytest.raises(ConfigError, match="size must be a number from 0"):
        for_job(SIZED, "small", size)


@pytest.mark.parametrize("base, url", [
    ("http://ray:8265", "http://ray:8265/jobs/{id}"), ("http://ray:8265/", "http://ray:8265/jobs/{id}"),
    ("https://a/b/c//", "https://a/b/c/jobs/{id}"), (None, "https://own/jobs/{id}")])
def test_base_is_filled_in_with_one_slash(base, url):
    profile = Profile(url="{base}/jobs/{id}", batch_url="{base}/jobs?ids={ids}", base="https://own")
    assert based(profile, base).url == url
    assert based(profile, base).batch_url == url.replace("/{id}", "?ids={ids}")


def test_labels_get_the_base_too_or_have_their_own():
    labels = {"eu": Profile(url="{base}/{id}", base="https://eu"), "us": Profile(url="{base}/{id}")}
    profile = Profile(url="https://a/{id}", labels=labels)
    assert [one.url for one in based(profile).labels.values()] == ["https://eu/{id}", "{base}/{id}"]
    assert [one.url for one in based(profile, "https://x").labels.values()] == ["https://x/{id}"] * 2


def test_a_base_that_nobody_gave_is_a_clear_error():
    for fields in ({"url": "{base}/{id}"}, {"batch_url": "{base}/{ids}"}):
        with pytest.raises(ConfigError, match="profile p needs a base URL: give --base-url, POLLKIT_BASE_URL or "):
            based(Profile(name="p", **fields))
    assert based(Profile(url="https://a/{id}")) == Profile(url="https://a/{id}")


@pytest.mark.parametrize("base", ["ray:8265", "ftp://a", "https://", "https://a?x=1", "https://a/#f", "https://a b",
                                  "https://a/{id}", "", 7])
def test_a_base_must_be_a_url_that_can_go_on(base):
    for use in (lambda: based(Profile(url="{base}/{id}"), base), lambda: checked(Profile(base=base))):
        with pytest.raises(ConfigError):
            use()


@pytest.mark.parametrize("fields", [
    {"up_to": -1}, {"up_to": "10"}, {"up_to": math.nan}, {"label": 7}, {"labels": ["small"]}, {"base": "nowhere"}])
def test_the_new_fields_are_checked(fields):
    with pytest.raises(ConfigError):
        checked(Profile(**fields))


def test_a_label_that_is_no_text_is_refused():
    with pytest.raises(ConfigError, match="a label is text"):
        for_job(SIZED, ["small"])
    assert checked(SIZED) == SIZED


# where files are looked for

def test_later_files_win_in_the_order_of_the_design(home, write, monkeypatch):
    def timeout():
        return profiles.find("mine", path).timeout
    text, path = "[mine]\nurl = https://a/{id}\ntimeout = %ds\n", None
    write(text % 1, "etc.ini")
    assert timeout() == 1
    write(text % 2, "home/.config/pollkit/profiles.ini")
    assert timeout() == 2
    monkeypatch.setenv("POLLKIT_PROFILES", write(text % 3, "env.ini"))
    assert timeout() == 3
    path = write(text % 4, "named.ini")
    assert timeout() == 4


def test_without_a_home_there_is_no_file_of_ones_own(monkeypatch):
    monkeypatch.delenv("HOME")
    assert profiles.find("sync").name == "sync"


def test_a_file_that_was_named_must_be_there(monkeypatch):
    with pytest.raises(ConfigError, match="can't read the profile file /nowhere/a.ini: No such file"):
        profiles.find("sync", "/nowhere/a.ini")
    monkeypatch.setenv("POLLKIT_PROFILES", "/nowhere/b.ini")
    with pytest.raises(ConfigError, match="/nowhere/b.ini: No such file"):
        profiles.find("sync")


@pytest.mark.parametrize("content, said", [
    (b"[a]\nurl = \xff\n", "is not UTF-8 text: see line 2"), (b"PK\x03\x04\0\0", "is not text"),
    (b";" * (LARGEST + 1), "is too large"), (b"no section\n", ":1: a [section] must come before anything else"),
    (b"[a]\njunk\n", ":2: this is neither [section] nor key = value")])
@pytest.mark.parametrize("where", ["home/.config/pollkit/profiles.ini", "named.ini"])
def test_a_file_that_makes_no_sense_stops_everything_in_one_line(write, content, said, where):
    path = write(content, where)
    with pytest.raises(ConfigError) as caught:
        profiles.find("sync", path if where == "named.ini" else None)
    assert path in str(caught.value) and said in str(caught.value) and "\n" not in str(caught.value)


def test_a_directory_a_path_with_nul_and_a_file_nobody_may_read(home, write, monkeypatch):
    for path in (str(home), "a\0b", "~nobody-of-that-name/x.ini"):
        with pytest.raises(ConfigError, match="can't read the profile file"):
            profiles.find("sync", path)
    (home / "home" / ".config" / "pollkit" / "profiles.ini").mkdir(parents=True)
    with pytest.raises(ConfigError, match="Is a directory"):
        profiles.find("sync")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(write):
    path = write("[a]\n")
    os.chmod(path, 0)
    with pytest.raises(ConfigError, match="Permission denied"):
        profiles.find("sync", path)


def test_byte_order_mark_and_windows_line_ends_are_no_trouble(write):
    path = write(b"\xef\xbb\xbf[a]\r\nurl = https://a/{id}\r\ndone = fini\xc3\xa9, ok\r\n\r\n[a:b]\r\nup_to = 3\r\n")
    assert profiles.check(path) == []
    assert profiles.find("a", path).done == ("fini\u00e9", "ok")


# what wins, what is inherited

BASE = "[mine]\nurl = https://a/{id}\ntimeout = 1m\nlimit = 60/m\nheader.X-A = 1\nheader.x-b = 2\n"


def test_a_label_inherits_what_it_does_not_say(write):
    path = write(BASE + "[mine:big]\nup_to = inf\ntimeout = never\nheader.X-B = 3\nheader.X-C = 4\n[mine:eu]\n"
                        "url = https://eu/{id}\n")
    mine = profiles.find("mine", path)
    big, eu = mine.labels["big"], mine.labels["eu"]
    assert list(mine.labels) == ["big", "eu"]
    assert (big.name, big.label, big.up_to, big.timeout, big.limit) == ("mine", "big", math.inf, None, mine.limit)
    assert (mine.headers, big.headers) == ({"X-A": "1", "x-b": "2"}, {"X-A": "1", "X-B": "3", "X-C": "4"})
    assert (eu.url, eu.timeout, eu.up_to, eu.headers) == ("https://eu/{id}", 60.0, None, mine.headers)


def test_a_label_may_stand_before_its_profile(write):
    assert profiles.find("mine", write("[mine:big]\ntimeout = 1h\n" + BASE)).labels["big"].timeout == 3600.0


def test_a_section_with_a_url_replaces_the_earlier_one_and_its_labels(write):
    mine = profiles.find("knowhere", write("[knowhere]\nurl = https://other/{id}\n"))
    assert mine == Profile(name="knowhere", url="https://other/{id}")


def test_a_section_without_a_url_changes_only_what_it_says(write):
    usual = profiles.find("knowhere")
    path = write("[knowhere]\nauth = netrc\n[knowhere:small]\ntimeout = 5s\n[knowhere:huge]\nup_to = 9\n")
    mine = profiles.find("knowhere", path)
    assert mine._replace(labels={}) == usual._replace(labels={}, auth="netrc")
    assert list(mine.labels) == ["small", "medium", "large", "huge"]
    assert mine.labels["small"] == usual.labels["small"]._replace(auth="netrc", timeout=5.0)
    assert mine.labels["medium"] == usual.labels["medium"]._replace(auth="netrc")
    assert for_job(mine, size=8).label == "huge"


def test_a_label_with_a_url_starts_again_from_its_profile(write):
    mine = profiles.find("knowhere", write("[knowhere:small]\nurl = https://small/{id}\n"))
    assert mine.labels["small"] == mine._replace(label="small", url="https://small/{id}", labels={})


def test_the_environments_base_goes_before_the_files(write, monkeypatch):
    path = write("[mine]\nurl = {base}/{id}\nbase = https://file\n[mine:eu]\nbase = https://eu\n[other]\nurl=https://a/{id}\n")
    assert based(profiles.find("mine", path)).url == "https://file/{id}"
    assert based(profiles.find("mine", path), "https://flag").url == "https://flag/{id}"
    monkeypatch.setenv("POLLKIT_BASE_URL", "https://env/")
    mine = based(profiles.find("mine", path))
    assert (mine.url, mine.labels["eu"].url) == ("https://env/{id}", "https://env/{id}")
    assert based(profiles.find("mine", path), "https://flag").url == "https://flag/{id}"
    assert profiles.find("other", path).base is None
    monkeypatch.setenv("POLLKIT_BASE_URL", "env")
    with pytest.raises(ConfigError, match="POLLKIT_BASE_URL: 'env' is not a URL"):
        profiles.find("mine", path)


def test_a_base_that_is_missing_is_no_matter_until_the_profile_is_used():
    assert profiles.find("ray-jobs").url == "{base}/api/jobs/{id}"
    with pytest.raises(ConfigError, match="profile ray-jobs needs a base URL"):
        based(profiles.find("ray-jobs"))


def test_files_are_relative_to_the_profile_file(home, write, monkeypatch):
    path = write("[a]\nurl = https://a/{id}\nca_file = ca.pem\nclient_cert = ~/c.pem\nclient_key = /etc/k.pem\n"
                 "auth = bearer file:secrets/token\n", "sub/mine.ini")
    monkeypatch.chdir(str(home))
    for spelling in (path, "sub/mine.ini"):
        a, sub = profiles.find("a", spelling), str(home / "sub")
        assert a.ca_file == os.path.join(sub, "ca.pem")
        assert (a.client_cert, a.client_key) == (str(home / "home" / "c.pem"), "/etc/k.pem")
        assert a.auth == "bearer file:" + os.path.join(sub, "secrets/token")
    home_token = write("[a]\nurl = https://a/{id}\nauth = basic file:~/t\n")
    assert profiles.find("a", home_token).auth == "basic file:" + str(home / "home" / "t")


def test_values_are_read_with_the_words_of_the_design(write):
    path = write("""
        # everything at once, and indented as in a text
        [all]                                     ; a comment
        url = https://a/{label}/{id}?a=1;b=2      ; another
        method = POST
        body = {"a":
            1}
        auth = header X-API-Key command:pass show api
        header.X-Tenant = blue; green
        status = data.state
        done = a, B ,
            c
        unknown = failed
        progress = p.done/p.total
        pace = fixed 3s attempts=60
        retry : backoff 1s..2s x2 jitter=none
        timeout = never
        request_timeout = 1m30s
        max_faults = 3
        not_found_grace = 0
        batch_url = https://a/?ids={ids}
        batch_size = 7
        proxy = proxy.internal:3128
    """)
    assert profiles.check(path) == []
    assert profiles.find("all", path) == Profile(
        name="all", url="https://a/{label}/{id}?a=1;b=2", method="POST", body='{"a":\n1}',
        auth="header X-API-Key command:pass show api", headers={"X-Tenant": "blue; green"}, status="data.state",
        done=("a", "B", "c"), unknown="failed", progress="p.done / p.total", pace=Fixed(3, attempts=60),
        retry=Backoff(1, 2, factor=2, jitter="none"), timeout=None, request_timeout=90.0, max_faults=3,
        not_found_grace=0.0, batch_url="https://a/?ids={ids}", batch_size=7, proxy="proxy.internal:3128")


# mistakes

U = "[a]\nurl = https://a/{id}\n"
BROKEN = [
    (U + "statsu = x", ":3: [a] statsu: there is no such key: did you mean status?"),
    (U + "URL = x", ":3: [a] URL: there is no such key: did you mean url?"),
    (U + "headers.X = x", ":3: [a] headers.X: there is no such key"),
    (U + "zzz = x", ":3: [a] zzz: there is no such key; see pollkit help profiles"),
    (U + "label = x", ":3: [a] label: there is no such key"),
    (U + "timeout = soon", ":3: [a] timeout: duration 'soon' is not a duration: write 500ms, 5s, 2m or 1h30m"),
    (U + "timeout = -5s", ":3: [a] timeout: duration '-5s' is not a duration"),
    (U + "timeout =", ":3: [a] timeout: says nothing"),
    (U + "request_timeout = 0", ":3: [a] request_timeout: must be above zero"),
    (U + "request_timeout = never", ":3: [a] request_timeout: duration 'never' is not"),
    (U + "max_faults = 0", ":3: [a] max_faults: it must be a whole number from 1, not 0"),
    (U + "max_faults = many", ":3: [a] max_faults: must be a whole number from 1, not 'many'"),
    (U + "batch_size = 1.5", ":3: [a] batch_size: must be a whole number from 1"),
    (U + "limit = 60", ":3: [a] limit: limit '60' is not a limit: write 60/m"),
    (U + "limit = 0/m", ":3: [a] limit: limit '0/m' is out of range"),
    (U + "pace = slow", ":3: [a] pace: pace 'slow' is not a pace"),
    (U + "pace = backoff 9s..2s", ":3: [a] pace: pace 'backoff 9s..2s': a backoff's cap (2s) can't be below"),
    (U + "retry = fixed", ":3: [a] retry: pace 'fixed': write it as"),
    (U + "status = a..b", ":3: [a] status: path 'a..b': write it as"),
    (U + "result = a|yaml.b", ":3: [a] result: path 'a|yaml.b'"),
    (U + "progress = a /", ":3: [a] progress: path '': write it as"),
    (U + "done = a,,b", ":3: [a] done: has an empty word"),
    (U + "done = a\n  failed = b", ":3: [a] done: goes on over several lines: is the next line indented by mistake?"),
    (U + "  status = b", ":2: [a] url: goes on over several lines"),
    (U + "unknown = maybe", ":3: [a] unknown: is pending or failed, not 'maybe'"),
    (U + "method = get", ":3: [a] method: 'get' is not an HTTP method"),
    (U + "proxy = socks5://p", ":3: [a] proxy: is env, none or a URL such as http://proxy"),
    (U + "proxy = http://p:99999", ":3: [a] proxy: 'http://p:99999' names no usable host and port"),
    (U + "base = host", ":3: [a] base: 'host' is not a URL"),
    (U + "batch_url = https://a/", ":3: [a] batch_url: has no {ids} in it"),
    (U + "batch_url = https://a/{id}", ":3: [a] batch_url: there is no {id}: {ids}, {base} may stand here"),
    (U + "up_to = 3", ":3: [a] up_to: belongs to a label, in a section such as [a:small]"),
    (U + "[a:b]\nup_to = nan", ":4: [a:b] up_to: must be a number from 0, or inf, not 'nan'"),
    (U + "[a:b]\nup_to = -1", ":4: [a:b] up_to: must be a number from 0"),
    (U + "header.X Y = 1", ":3: [a] header.X Y: 'X Y' can't be a header's name"),
    (U + "header. = 1", ":3: [a] header.: '' can't be a header's name"),
    (U + "header.Host = b", ":3: [a] header.Host: the header Host is not yours to set"),
    (U + "header.X = \u20ac", ":3: [a] header.X: the header X has characters that headers can't carry"),
    (U + "header.X = 1\n  Evil: 2", ":3: [a] header.X: goes on over several lines"),
    (U + "auth = token env:A", ":3: [a] auth: auth names no scheme it can use"),
    (U + "auth = bearer", ":3: [a] auth: auth names no source for the credential"),
    (U + "status = x\nstatus = y", ":4: [a] status: stands twice: it is on line 3 already"),
    (U + "\n" + U, ":4: [a]: stands twice: it is on line 1 already"),
    (U + "[a:b]\ntimeout = 1s\n[a : b]\ntimeout = 2s", ":5: [a : b]: stands twice"),
    ("[a]\nurl = https://a/{id}\nprogress = x / y / z", ":3: [a] progress: is one path, or two"),
    (U + "done = ok, fine\nfailed = Fine", ":4: [a] failed: has 'Fine', which is said to be done"),
    ("[a]\nurl = https://a/{id}\nclient_key = k.pem", ":3: [a] client_key: is of no use without client_cert"),
    ("[a]\nurl = https://a/{id}\nbatch_size = 5", ":3: [a] batch_size: is of no use without batch_url"),
    ("[a]\nurl = https://a/{id}\n[a:b]\nup_to = 5\n[a:c]\nup_to = 5", ":6: [a:c] up_to: is the same as that of b"),
    ("[a]\nurl = https://a/{job}", ":2: [a] url: there is no {job}: {id}, {label}, {base} may stand here"),
    ("[a]\nurl = https://a/", ":2: [a] url: has no {id} in it"),
    ("[a]\nurl = https://a/{id", ":2: [a] url: is not a URL: it has a space, half a pair of braces"),
    ("[a]\nurl = ftp://a/{id}", ":2: [a] url: 'ftp://a/x' is not a URL pollkit can poll"),
    ("[a]\nurl = https://b/{base}/{id}", ":2: [a] url: is not a URL"),
    ("[a]\nurl = https://a b/{id}", ":2: [a] url: is not a URL: it has a space"),
    ("[z:b]\ntimeout = 1s", ":1: [z:b]: there is no [z] that it could inherit from"),
    ("[a b]\nurl = https://a/{id}", ":1: [a b]: write it as [name] or [name:label]"),
    ("[a:]\ntimeout = 1s\n" + U, ":1: [a:]: write it as [name] or [name:label]"),
    ("[:b]\ntimeout = 1s", ":1: [:b]: write it as [name] or [name:label]"),
    ("url = https://a/{id}\n" + U, ":1: a [section] must come before anything else"),
    ("junk\n ;[b]\n[c;] junk ;[d]\n" + U, ":1: a [section] must come before anything else"),
    ("junk\n[a]x ;[b]\n", ":1: a [section] must come before anything else"),
    (U + "[b] nonsense", ":3: this is neither [section] nor key = value"),
    (U + "[b", ":3: this is neither [section] nor key = value"),
    (U + "nonsense", ":3: this is neither [section] nor key = value"),
    ("# nothing but a comment\n", ": there is no [profile] in it"),
    ("", ": there is no [profile] in it"),
]


@pytest.mark.parametrize("text, said", BROKEN)
def test_a_mistake_is_named_with_its_line(write, run, text, said):
    path = write(text)
    code, out, err = run("profiles", "check", path)
    lines = out.splitlines()
    assert (code, err) == (2, "") and any(line.startswith(path + said) for line in lines), out
    assert [str(problem) for problem in profiles.check(path)] == lines


@pytest.mark.parametrize("text, said", [row for row in BROKEN if "[a] " in row[1] or "[a:b] " in row[1]])
def test_whoever_wants_that_profile_hears_of_it_and_nobody_else(write, text, said):
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        profiles.find("a", path)
    assert str(caught.value).startswith(path + said)
    assert str(caught.value).endswith(" (pollkit profiles check %s lists all that is wrong)" % path)
    assert profiles.find("sync", path) == profiles.find("sync")


def test_all_mistakes_are_told_at_once_in_order_of_their_lines(write):
    path = write("junk\n[b]\nurl = https://b/{id}\nlimti = 3\npace = x\nmore junk\n[a:c]\nup_to = x\n"
                 "[a]\nbase = y\nbase = z\n")
    assert [(problem.line, problem.section, problem.key) for problem in profiles.check(path)] == [
        (1, "", ""), (4, "b", "limti"), (5, "b", "pace"), (6, "", ""), (8, "a:c", "up_to"), (10, "a", "base"),
        (11, "a", "base")]


def test_a_label_for_a_profile_of_another_file_is_no_mistake(write, monkeypatch):
    assert profiles.check(write("[knowhere:huge]\nup_to = 9999\n")) == []
    path = write("[mine:huge]\nup_to = 9999\n", "labels.ini")
    assert len(profiles.check(path)) == 1
    monkeypatch.setenv("POLLKIT_PROFILES", write(BASE))
    assert profiles.check(path) == []


def test_check_minds_its_own_file_and_no_other(write, monkeypatch):
    path = write(BASE)
    write("junk", "etc.ini")
    assert profiles.check(path) == []
    write("[mine]\nstatsu = x\n[sync]\nzzz = 1\n", "etc.ini")
    assert profiles.check(path) == []
    monkeypatch.setenv("POLLKIT_PROFILES", path)  # the file that is checked may be one of the usual ones
    assert profiles.check(path) == []


@pytest.mark.parametrize("name, said", [
    ("knowher", "there is no profile 'knowher' (did you mean knowhere?); see pollkit profiles"),
    ("xyz", "there is no profile 'xyz'; see pollkit profiles"), ("", "there is no profile ''"),
    ("knowhere:small", "a label is given by itself, as --profile knowhere --label small")])
def test_a_name_that_is_not_there(name, said):
    with pytest.raises(ConfigError) as caught:
        profiles.find(name)
    assert said in str(caught.value)


@pytest.mark.parametrize("line", [
    "auth = bearer s3cr3t", "auth = s3cr3t", "auth = header X-Key s3cr3t", "auth = basic me:s3cr3t",
    "header.Authorization = Bearer s3cr3t\u20ac", "header.X-API-Key = s3cr3t\n  more", "Bearer s3cr3t",
    "token = s3cr3t", "proxy = http://me:s3cr3t@proxy:99999", "url = ftp://me:s3cr3t@a/{id}", "base = ftp://me:s3cr3t@a",
    "base = https://me:s3cr3t@a?x=1"])
def test_a_secret_in_the_wrong_place_is_refused_and_not_repeated(write, run, line):
    path = write("[a]\n%s\n" % line)
    code, out, err = run("profiles", "check", path)
    assert code == 2 and out and "s3cr3t" not in out + err
    with pytest.raises(ConfigError) as caught:
        profiles.find("a", path)
    assert "s3cr3t" not in str(caught.value)


def test_whatever_is_in_a_file_it_is_read_or_refused(write):
    """Pieces thrown together at random never get anything but a ConfigError."""
    seed = random.randrange(10 ** 6)
    print("seed", seed)
    rng = random.Random(seed)
    pieces = ["[a]", "[a:b]", "[", "]", "url", "=", ":", "\n", "\n", "\n  ", "{id}", "{", "https://a/", ";", "#", " ",
              "\t", "\u2028", "\x0b", "\x1c", "\r", "%(x)s", "timeout", "5s", "[DEFAULT]", "[]", "\ufeff", "header.X",
              "done", ","]
    for _ in range(60):
        text = "".join(rng.choice(pieces) for _ in range(rng.randrange(40)))
        path = write(text)
        assert all(problem.source == path for problem in profiles.check(path))
        try:
            profiles.all_profiles(path)
            profiles.find("a", path)
        except ConfigError as error:
            assert path in str(error) or "there is no profile 'a'" in str(error)


# the command

def test_the_list_is_a_table_with_where_each_comes_from(write, run):
    path = write("[knowhere]\nauth = netrc\n[mine]\nurl = https://a/{id}\nlimit = 10/s burst 20\n[odd]\nx = 1\n")
    code, out, err = run("profiles", "--profiles", path)
    rows = {line.split()[0]: re.split("  +", line) for line in out.splitlines()}
    assert (code, err) == (0, "")
    assert rows["NAME"] == ["NAME", "LABELS", "LIMIT", "FROM"]
    assert rows["knowhere"] == ["knowhere", "small, medium, large", "60/m", "built in, " + path]
    assert rows["mine"] == ["mine", "-", "10/s burst 20", path]
    assert rows["odd"] == ["odd", "-", "-", "%s (has mistakes: pollkit profiles check %s)" % (path, path)]
    column = out.splitlines()[0].index("FROM")
    assert all(line[column - 1] == " " and line[column] != " " for line in out.splitlines())
    assert run("profiles", "list")[0] == 0


@pytest.mark.parametrize("name", [one.name for one in profiles.all_profiles()])
def test_what_is_shown_gives_the_same_profile_back(write, run, name):
    code, out, err = run("profiles", "show", name)
    path = write(out)
    assert (code, err) == (0, "")
    assert profiles.check(path) == []
    assert profiles.find(name, path) == profiles.find(name)
    other = write(out.replace("[%s" % name, "[copy"))
    assert profiles.find("copy", other) == _named(profiles.find(name), "copy")


def _named(profile, name):
    return profile._replace(name=name, labels={label: _named(one, name) for label, one in profile.labels.items()})


def test_a_profile_with_every_key_is_shown_whole(write, run):
    path = write(EVERY_KEY)
    assert profiles.check(path) == []
    code, out, _ = run("profiles", "show", "all", "--profiles", path)
    shown = {line.split("=")[0].strip() for line in out.splitlines() if " = " in line}
    assert code == 0 and shown == set(KEYS) | {"header.X-Tenant"}
    assert profiles.find("all", write(out, "copy.ini")) == profiles.find("all", path)


EVERY_KEY = """
[all]
url = {base}/{label}/{id}
base = https://a
auth = bearer env:TOKEN
method = POST
body = {"a": 1,
    "b": 2}
header.X-Tenant = blue
status = a
done = b, c
failed = d
pending = e
unknown = failed
result = f|json.g
error = h
error_code = i
progress = j / k
created = l
finished = m
limit = 7/5s burst 3
pace = adaptive first=1500ms every=2s
retry = fixed 1s
timeout = 5m
request_timeout = 1.5s
max_faults = 2
not_found_grace = 0
retry_after_default = 1m
ca_file = /a/b.pem
client_cert = c.pem
client_key = ~/d.pem
proxy = none
batch_url = {base}/?ids={ids}
batch_items = n
batch_id = o
batch_size = 9
[all:x]
up_to = 2.5
timeout = never
[all:y]
up_to = inf
timeout = 500ms
"""


def test_a_timeout_that_equals_the_default_is_kept_where_an_earlier_file_has_another(write, run):
    path = write("[azure]\ntimeout = 5m\n")
    out = run("profiles", "show", "azure", "--profiles", path)[1]
    assert profiles.find("azure", write(out)).timeout == 300.0


def test_secrets_are_never_shown(write, run):
    path = write('[a]\nurl = https://me:s3cr3t@a/{id}?api_key=s3cr3t&page=1\nheader.Authorization = Bearer s3cr3t\n'
                 'header.X-API-Key = s3cr3t\nheader.X-Tenant = blue\nproxy = http://me:s3cr3t@proxy:3128\n'
                 'body = {"token": "s3cr3t", "page": 1}\n[a:b]\nbody = password=s3cr3t&page=2\n')
    code, out, err = run("profiles", "show", "a", "--profiles", path)
    assert code == 0 and "s3cr3t" not in out + err
    for part in ("https://***@a/{id}?api_key=***&page=1", "header.Authorization = ***", "header.X-API-Key     = ***",
                 "header.X-Tenant      = blue", "http://***@proxy:3128", '{"token": "***", "page": 1}',
                 "password=***&page=2"):
        assert part in out, part
    assert profiles.find("a", path).headers["Authorization"] == "Bearer s3cr3t"


def test_check_says_when_all_is_well(write, run):
    one, two = write(BASE), write(EVERY_KEY + U, "two.ini")
    assert run("profiles", "check", one) == (0, "%s: 1 profile, all well\n" % one, "")
    assert run("profiles", "check", two) == (0, "%s: 2 profiles, all well\n" % two, "")


@pytest.mark.parametrize("words, said", [
    (["show"], "profiles show needs a NAME"), (["check"], "profiles check needs a FILE"),
    (["show", "knowher"], "did you mean knowhere?"), (["check", "/nowhere/x"], "/nowhere/x: No such file"),
    (["check", "/"], "Is a directory"), (["list", "x"], "profiles list takes no 'x'"), (["sho", "x"], "invalid choice"),
    (["--profiles"], "expected one argument"), (["--profiles", "/nowhere/x"], "No such file"),
    (["check", "a", "--profiles", "b"], "leave --profiles out"), (["show", "sync", "more"], "unrecognized arguments")])
def test_bad_words_are_one_line_and_exit_code_2(run, words, said):
    code, out, err = run("profiles", *words)
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith("pollkit: ") and said in err


# the help

def test_the_help_explains_every_key_and_fits_on_a_terminal():
    text = text_of("profiles")
    for key in KEYS + ["header.NAME"]:
        assert re.search(r"^  %s\b" % re.escape(key), text, re.MULTILINE), key
    assert max(map(len, text.splitlines())) <= 90
    text.encode("ascii")  # a host without a locale prints it, too


def test_the_examples_in_the_help_are_right(write):
    examples = [line for line in io.StringIO(text_of("profiles")) if line.startswith("    [") or not line.strip()
                or re.match(r"    \w+ +=", line)]
    path = write("".join(examples))
    assert profiles.check(path) == []
    assert sorted(profiles.names_in(path)) == ["invoices", "ray-jobs"]
    invoices = profiles.find("invoices", path)
    assert for_job(invoices, size=11).label == "yearly" and invoices.done == ("success", "archived")
    assert based(profiles.find("ray-jobs", path)).labels["nightly"].url == "http://ray.internal:8265/api/jobs/{id}"


def test_every_field_of_a_profile_can_be_said_in_a_file():
    assert set(Profile._fields) - {"name", "label", "labels", "headers"} == set(KEYS)


def test_a_profile_made_by_hand_can_be_written_out(write):
    mine = checked(Profile(name="mine", url="https://a/{id}", done=["a", "b"], limit="60/m", pace="fixed 5s"))
    assert profiles.find("mine", write(as_ini(mine))) == mine


def test_a_profile_shows_no_secret():
    shown = repr(Profile(name="mine", url="https://u:hush@a/{id}?token=hush", proxy="http://u:hush@p:1",
                         headers={"X-Api-Key": "hush", "Accept": "text/plain"}, body="key=hush", timeout=5))
    assert "hush" not in shown and "mine" in shown and "text/plain" in shown and "timeout=5" in shown
    assert repr(Profile()) == "Profile()"
