"""The command `pollkit profiles`."""

import json
import re

import pytest

from pollkit.edges.profiles import catalog as profiles
from pollkit.edges.profiles.keys import KEYS

BASE = "[mine]\nurl = https://a/{id}\ntimeout = 1m\nlimit = 60/m\nheader.X-A = 1\nheader.x-b = 2\n"
U = "[a]\nurl = https://a/{id}\n"
pytestmark = pytest.mark.usefixtures("home")


def test_the_list_is_a_table_with_the_files_of_each_profile(write, pollkit):
    path = write(
        "[knowhere]\nauth = netrc\n"
        "[mine]\nurl = https://a/{id}\nlimit = 10/s burst 20\n"
        "[odd]\nx = 1\n"
    )
    code, out, err = pollkit("profiles", "--profiles", path)
    rows = {line.split()[0]: re.split("  +", line) for line in out.splitlines()}
    assert (code, err) == (0, "")
    assert rows["NAME"] == ["NAME", "LABELS", "LIMIT", "FROM"]
    assert rows["knowhere"] == ["knowhere", "small, medium, large", "60/m", "built in, " + path]
    assert rows["mine"] == ["mine", "-", "10/s burst 20", path]
    assert rows["odd"] == [
        "odd",
        "-",
        "-",
        "%s (has mistakes: pollkit profiles check %s)" % (path, path),
    ]
    column = out.splitlines()[0].index("FROM")
    assert all(line[column - 1] == " " and line[column] != " " for line in out.splitlines())
    assert pollkit("profiles", "list")[0] == 0


@pytest.mark.parametrize("name", [one.name for one in profiles.all_profiles()])
def test_a_shown_profile_can_be_read_back_unchanged(write, pollkit, name):
    code, out, err = pollkit("profiles", "show", name)
    path = write(out)
    assert (code, err) == (0, "")
    assert profiles.check_file(path) == []
    assert profiles.find_profile(name, path) == profiles.find_profile(name)
    other = write(out.replace("[%s" % name, "[copy"))
    assert profiles.find_profile("copy", other) == _renamed(profiles.find_profile(name), "copy")


def _renamed(profile, name):
    return profile._replace(
        name=name, labels={label: _renamed(one, name) for label, one in profile.labels.items()}
    )


def test_every_key_of_a_profile_is_shown(write, pollkit):
    path = write(EVERY_KEY)
    assert profiles.check_file(path) == []
    code, out, _ = pollkit("profiles", "show", "all", "--profiles", path)
    shown = set(re.findall(r"^([\w.-]+) +=", out, re.MULTILINE))
    assert code == 0 and shown == set(KEYS) | {"header.X-Tenant"}
    assert profiles.find_profile("all", write(out, "copy.ini")) == profiles.find_profile(
        "all", path
    )


EVERY_KEY = """
[all]
url = {base}/{label}/{id}
base = https://a
origins = https://b, https://c:8443
redirects = same-origin
tls_strict = no
transport = curl
callback_header = X-Hub-Signature-256
callback_id = data.id
submit_url = {base}/submit/{label}
submit_method = PUT
submit_body = {"in": {json},
    "token": "{key}"}
submit_id = id
submit_status_url = links.self
submit_lookup = {base}/find/{key}
submit_settle = 2m
idempotency_header = Idempotency-Key
idempotency_ttl = 1h
prefer = respond-async
result_url = data.url
result_next = next as page
cancel_url = {base}/{id}/cancel
cancel_method = DELETE
on_timeout = cancel
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
confirm = 2
unknown_ids = pending
rules =
    done if http 404
    failed if a.b == 'x y'
result = f|json.g
error = h
error_code = i
progress = j / k
created = l
finished = m
limit = 7/5s burst 3
weight = 2.5
hold = 25s
hold_url = {base}/{label}/{id}/wait
hold_method = POST
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
batch_body = {"ids": {ids}}
batch_next = p as q
batch_absent = failed
[all:x]
up_to = 2.5
timeout = never
[all:y]
up_to = inf
timeout = 500ms
"""


def test_a_timeout_equal_to_the_default_is_shown_if_an_earlier_file_has_another(write, pollkit):
    path = write("[azure]\ntimeout = 5m\n")
    out = pollkit("profiles", "show", "azure", "--profiles", path)[1]
    assert profiles.find_profile("azure", write(out)).timeout == 300.0


def test_secrets_are_never_shown(write, pollkit):
    path = write(
        "[a]\nurl = https://me:s3cr3t@a/{id}?api_key=s3cr3t&page=1\n"
        "header.Authorization = Bearer s3cr3t\n"
        "header.X-API-Key = s3cr3t\nheader.X-Tenant = blue\nproxy = http://me:s3cr3t@proxy:3128\n"
        'method = POST\nbody = {"token": "s3cr3t", "page": 1}\n'
        "[a:b]\nbody = password=s3cr3t&page=2\n"
    )
    code, out, err = pollkit("profiles", "show", "a", "--profiles", path)
    assert code == 0 and "s3cr3t" not in out + err
    for part in (
        "https://***@a/{id}?api_key=***&page=1",
        "header.Authorization = ***",
        "header.X-API-Key     = ***",
        "header.X-Tenant      = blue",
        "http://***@proxy:3128",
        '{"token": "***", "page": 1}',
        "password=***&page=2",
    ):
        assert part in out, part
    assert profiles.find_profile("a", path).headers["Authorization"] == "Bearer s3cr3t"


def test_check_reports_that_a_file_has_no_mistakes(write, pollkit):
    one = write(BASE)
    two = write(EVERY_KEY + U, "two.ini")
    assert pollkit("profiles", "check", one) == (0, "%s: 1 profile, no mistakes\n" % one, "")
    assert pollkit("profiles", "check", two) == (0, "%s: 2 profiles, no mistakes\n" % two, "")


@pytest.mark.parametrize(
    "words, message",
    [
        (["show"], "profiles show needs a NAME"),
        (["check"], "profiles check needs a FILE"),
        (["import"], "profiles import needs a FILE"),
        (["import", "/nowhere/x"], "can't read /nowhere/x: No such file"),
        (["import", "a", "--profiles", "b"], "leave --profiles out"),
        (["show", "knowher"], "did you mean knowhere?"),
        (["check", "/nowhere/x"], "/nowhere/x: No such file"),
        (["check", "/"], "Is a directory"),
        (["list", "x"], "profiles list takes no 'x'"),
        (["sho", "x"], "invalid choice"),
        (["--profiles"], "expected one argument"),
        (["--profiles", "/nowhere/x"], "No such file"),
        (["check", "a", "--profiles", "b"], "leave --profiles out"),
        (["show", "sync", "more"], "unrecognized arguments"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(pollkit, words, message):
    code, out, err = pollkit("profiles", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("pollkit: ") and message in err


def waiters_file(tmp_path, **waiters):
    """A waiters-2.json with these waiters, each with one acceptor."""
    entries = {
        name: {"delay": 5, "maxAttempts": 12, "acceptors": [dict(acceptor, state="success")]}
        for name, acceptor in waiters.items()
    }
    path = tmp_path / "waiters-2.json"
    path.write_text(json.dumps({"version": 2, "waiters": entries}))
    return str(path)


GOOD = {"matcher": "path", "argument": "Table.Status", "expected": "ACTIVE"}
BAD = {"matcher": "path", "argument": "a || b", "expected": "X"}


def test_import_prints_profiles_and_the_reason_for_each_waiter_left_out(write, pollkit, tmp_path):
    path = waiters_file(tmp_path, TableExists=GOOD, Odd=BAD, TableReady=GOOD)
    code, out, err = pollkit("profiles", "import", path)
    assert (code, err) == (0, "pollkit: Odd: not imported: 'a || b' is too complicated\n")
    mine = write(out)
    assert profiles.check_file(mine) == []
    assert sorted(profiles.profile_names(mine)) == ["TableExists", "TableReady"]
    assert profiles.find_profile("TableReady", mine).rules == ("done if Table.Status == ACTIVE",)


def test_import_exits_with_2_if_no_waiter_can_be_a_profile(pollkit, tmp_path):
    code, out, err = pollkit("profiles", "import", waiters_file(tmp_path, Odd=BAD))
    assert (code, out) == (2, "") and "Odd: not imported" in err


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"waiters": {}}', '{"shapes": {"a": 1}}'])
def test_import_refuses_a_file_without_waiters(pollkit, tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_text(text)
    code, out, err = pollkit("profiles", "import", str(path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(path) in err and ("has no waiters" in err or "is not JSON" in err)
