"""Profiles by name: the files they come from, inheritance, and their help."""

import io
import math
import os
import re

import pytest

from pollkit import Backoff, ConfigError, Fixed, Profile
from pollkit.cli.commands.program.help import text_of
from pollkit.core.profiles.profile import fill_base, profile_for_job, validate_profile
from pollkit.edges.profiles import catalog as profiles
from pollkit.edges.profiles.ini import LARGEST
from pollkit.edges.profiles.keys import KEYS, profile_to_ini

pytestmark = pytest.mark.usefixtures("home")


# Files


def test_later_files_take_precedence(home, write, monkeypatch):
    def timeout():
        return profiles.find_profile("mine", path).timeout

    text = "[mine]\nurl = https://a/{id}\ntimeout = %ds\n"
    path = None
    write(text % 1, "etc.ini")
    assert timeout() == 1
    write(text % 2, "home/.config/pollkit/profiles.ini")
    assert timeout() == 2
    monkeypatch.setenv("POLLKIT_PROFILES", write(text % 3, "env.ini"))
    assert timeout() == 3
    path = write(text % 4, "named.ini")
    assert timeout() == 4


def test_without_a_home_there_is_no_user_file(monkeypatch):
    monkeypatch.delenv("HOME")
    assert profiles.find_profile("sync").name == "sync"


def test_a_named_file_must_exist(monkeypatch):
    with pytest.raises(
        ConfigError, match="can't read the profile file /nowhere/a.ini: No such file"
    ):
        profiles.find_profile("sync", "/nowhere/a.ini")
    monkeypatch.setenv("POLLKIT_PROFILES", "/nowhere/b.ini")
    problem = "^POLLKIT_PROFILES: can't read the profile file /nowhere/b.ini: No such file"
    with pytest.raises(ConfigError, match=problem):
        profiles.find_profile("sync")


@pytest.mark.parametrize(
    "content, message",
    [
        (b"[a]\nurl = \xff\n", "is not UTF-8 text: see line 2"),
        (b"PK\x03\x04\0\0", "is not text"),
        (b";" * (LARGEST + 1), "is too large"),
        (b"no section\n", ":1: a [section] must come before anything else"),
        (b"[a]\njunk\n", ":2: this is neither [section] nor key = value"),
    ],
)
@pytest.mark.parametrize("where", ["home/.config/pollkit/profiles.ini", "named.ini"])
def test_an_unusable_file_is_one_clear_line(write, content, message, where):
    path = write(content, where)
    with pytest.raises(ConfigError) as caught:
        profiles.find_profile("sync", path if where == "named.ini" else None)
    assert (
        path in str(caught.value) and message in str(caught.value) and "\n" not in str(caught.value)
    )


def test_paths_that_can_not_be_read(home, write, monkeypatch):
    for path in (str(home), "a\0b", "~nobody-of-that-name/x.ini"):
        with pytest.raises(ConfigError, match="can't read the profile file"):
            profiles.find_profile("sync", path)
    (home / "home" / ".config" / "pollkit" / "profiles.ini").mkdir(parents=True)
    with pytest.raises(ConfigError, match="Is a directory"):
        profiles.find_profile("sync")


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() == 0, reason="root may read everything"
)
def test_a_file_without_read_permission(write):
    path = write("[a]\n")
    os.chmod(path, 0)
    with pytest.raises(ConfigError, match="Permission denied"):
        profiles.find_profile("sync", path)


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(write):
    path = write(
        b"\xef\xbb\xbf[a]\r\nurl = https://a/{id}\r\ndone = fini\xc3\xa9, ok\r\n\r\n"
        b"[a:b]\r\nup_to = 3\r\n"
    )
    assert profiles.check_file(path) == []
    assert profiles.find_profile("a", path).done == ("fini\u00e9", "ok")


# Precedence and inheritance

BASE = "[mine]\nurl = https://a/{id}\ntimeout = 1m\nlimit = 60/m\nheader.X-A = 1\nheader.x-b = 2\n"


def test_a_label_inherits_the_keys_that_it_does_not_set(write):
    path = write(
        BASE
        + "[mine:big]\nup_to = inf\ntimeout = never\nheader.X-B = 3\nheader.X-C = 4\n[mine:eu]\n"
        "url = https://eu/{id}\n"
    )
    mine = profiles.find_profile("mine", path)
    big = mine.labels["big"]
    eu = mine.labels["eu"]
    assert list(mine.labels) == ["big", "eu"]
    assert (big.name, big.label, big.up_to, big.timeout, big.limit) == (
        "mine",
        "big",
        math.inf,
        None,
        mine.limit,
    )
    assert (mine.headers, big.headers) == (
        {"X-A": "1", "x-b": "2"},
        {"X-A": "1", "X-B": "3", "X-C": "4"},
    )
    assert (eu.url, eu.timeout, eu.up_to, eu.headers) == (
        "https://eu/{id}",
        60.0,
        None,
        mine.headers,
    )


def test_a_label_may_precede_its_profile(write):
    mine = profiles.find_profile("mine", write("[mine:big]\ntimeout = 1h\n" + BASE))
    assert mine.labels["big"].timeout == 3600.0


def test_a_section_with_a_url_replaces_the_earlier_one_and_its_labels(write):
    mine = profiles.find_profile("knowhere", write("[knowhere]\nurl = https://other/{id}\n"))
    assert mine == Profile(name="knowhere", url="https://other/{id}")


def test_a_section_without_a_url_changes_only_its_keys(write):
    usual = profiles.find_profile("knowhere")
    path = write(
        "[knowhere]\nauth = netrc\n[knowhere:small]\ntimeout = 5s\n[knowhere:huge]\nup_to = 9\n"
    )
    mine = profiles.find_profile("knowhere", path)
    assert mine._replace(labels={}) == usual._replace(labels={}, auth="netrc")
    assert list(mine.labels) == ["small", "medium", "large", "huge"]
    assert mine.labels["small"] == usual.labels["small"]._replace(auth="netrc", timeout=5.0)
    assert mine.labels["medium"] == usual.labels["medium"]._replace(auth="netrc")
    assert profile_for_job(mine, size=8).label == "huge"


def test_a_label_with_a_url_discards_its_earlier_keys(write):
    mine = profiles.find_profile("knowhere", write("[knowhere:small]\nurl = https://small/{id}\n"))
    assert mine.labels["small"] == mine._replace(label="small", url="https://small/{id}", labels={})


def test_the_base_in_the_environment_takes_precedence_over_the_files(write, monkeypatch):
    path = write(
        "[mine]\nurl = {base}/{id}\nbase = https://file\n[mine:eu]\nbase = https://eu\n"
        "[other]\nurl=https://a/{id}\n"
    )
    assert fill_base(profiles.find_profile("mine", path)).url == "https://file/{id}"
    assert fill_base(profiles.find_profile("mine", path), "https://flag").url == "https://flag/{id}"
    monkeypatch.setenv("POLLKIT_BASE_URL", "https://env/")
    mine = fill_base(profiles.find_profile("mine", path))
    assert (mine.url, mine.labels["eu"].url) == ("https://env/{id}", "https://env/{id}")
    assert fill_base(profiles.find_profile("mine", path), "https://flag").url == "https://flag/{id}"
    assert profiles.find_profile("other", path).base is None
    monkeypatch.setenv("POLLKIT_BASE_URL", "env")
    with pytest.raises(ConfigError, match="POLLKIT_BASE_URL: 'env' is not a URL"):
        profiles.find_profile("mine", path)


def test_a_missing_base_is_an_error_only_if_the_profile_is_used():
    assert profiles.find_profile("ray-jobs").url == "{base}/api/jobs/{id}"
    with pytest.raises(ConfigError, match="profile ray-jobs needs a base URL"):
        fill_base(profiles.find_profile("ray-jobs"))


def test_files_are_relative_to_the_profile_file(home, write, monkeypatch):
    path = write(
        "[a]\nurl = https://a/{id}\nca_file = ca.pem\nclient_cert = ~/c.pem\n"
        "client_key = /etc/k.pem\nauth = bearer file:secrets/token\n",
        "sub/mine.ini",
    )
    monkeypatch.chdir(str(home))
    for spelling in (path, "sub/mine.ini"):
        a = profiles.find_profile("a", spelling)
        sub = str(home / "sub")
        assert a.ca_file == os.path.join(sub, "ca.pem")
        assert (a.client_cert, a.client_key) == (str(home / "home" / "c.pem"), "/etc/k.pem")
        assert a.auth == "bearer file:" + os.path.join(sub, "secrets/token")
    home_token = write("[a]\nurl = https://a/{id}\nauth = basic file:~/t\n")
    assert profiles.find_profile("a", home_token).auth == "basic file:" + str(home / "home" / "t")


def test_every_kind_of_value_is_parsed(write):
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
    assert profiles.check_file(path) == []
    assert profiles.find_profile("all", path) == Profile(
        name="all",
        url="https://a/{label}/{id}?a=1;b=2",
        method="POST",
        body='{"a":\n1}',
        auth="header X-API-Key command:pass show api",
        headers={"X-Tenant": "blue; green"},
        status="data.state",
        done=("a", "B", "c"),
        unknown="failed",
        progress="p.done / p.total",
        pace=Fixed(3, attempts=60),
        retry=Backoff(1, 2, factor=2, jitter="none"),
        timeout=None,
        request_timeout=90.0,
        max_faults=3,
        not_found_grace=0.0,
        batch_url="https://a/?ids={ids}",
        batch_size=7,
        proxy="proxy.internal:3128",
    )


# Help


def test_the_help_explains_every_key_and_fits_on_a_terminal():
    text = text_of("profiles")
    for key in KEYS + ["header.NAME"]:
        assert re.search(r"^  %s\b" % re.escape(key), text, re.MULTILINE), key
    assert max(map(len, text.splitlines())) <= 90
    text.encode("ascii")  # a host without a locale prints it, too


def test_the_examples_in_the_help_are_valid(write):
    examples = [
        line
        for line in io.StringIO(text_of("profiles"))
        if line.startswith("    [")
        or not line.strip()
        or re.match(r"    \w+ +=|        \w+ +if ", line)
    ]
    path = write("".join(examples))
    assert profiles.check_file(path) == []
    assert sorted(profiles.profile_names(path)) == [
        "deletions",
        "invoices",
        "ray-jobs",
        "workflows",
    ]
    invoices = profiles.find_profile("invoices", path)
    assert profile_for_job(invoices, size=11).label == "yearly" and invoices.done == (
        "success",
        "archived",
    )
    assert (
        fill_base(profiles.find_profile("ray-jobs", path)).labels["nightly"].url
        == "http://ray.internal:8265/api/jobs/{id}"
    )


def test_every_field_of_a_profile_has_a_key():
    assert set(Profile._fields) - {"name", "label", "labels", "headers"} == set(KEYS)


def test_a_profile_from_python_can_be_written_to_a_file(write):
    mine = validate_profile(
        Profile(name="mine", url="https://a/{id}", done=["a", "b"], limit="60/m", pace="fixed 5s")
    )
    assert profiles.find_profile("mine", write(profile_to_ini(mine))) == mine
