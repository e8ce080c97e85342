"""The targets `urls` and `ini`: text from users, files and servers."""

import random

from pollkit.core.profiles.profile import validate_profile
from pollkit.core.reading.reader import Reader
from pollkit.core.urls import (
    Address,
    fill_template,
    join_url,
    parse_url,
    redact_url,
    secrets_in_url,
)
from pollkit.edges.profiles import catalog
from pollkit.edges.profiles.ini import parse_ini
from pollkit.errors import ConfigError

from .common import Target, Violation

SECRET = "s3cr3t-0815"
TEMPLATE = "https://api.internal/v1/{id}/status"
URLS = [
    b"https://user:pa:ss@api.internal:8443/v1/jobs/1?token=s3cr3t&x=1#part",
    b"http://[::1]:80/a/../b;p=1?q=%41&key[]=abcd",
    b"//other.internal/x",
    b"../../admin",
    b"job 1",
    "https://b\u00fccher.example/\u4e2d".encode("utf-8"),
    b"HTTP://A.B:65536/",
    b"javascript:alert(1)",
    b"http://\x7f/",  # failed once, like the next ones
    b"@",
    "http\u017f://a/".encode("utf-8"),
]
URL_TOKENS = [b"://", b"@", b"%2e%2e/", b"..", b"/", b"\\", b"\r\n", b"#", b"?", b"token=", b":0"]
URL_TOKENS += [b"[", b"]", b"%00", b"\xe2\x80\xa8", b" HTTP/1.1\r\nX: y", b"http:", b"{id}"]
URL_TOKENS += [b"%2f", b"%40", b"%6c", "\uff0f".encode("utf-8"), "\uff20".encode("utf-8")]
INI = [
    b"[mine]\nurl = https://api.internal/{id}\nauth = bearer env:TOKEN\nlimit = 60/m, 5000/d\n",
    b"[mine]\nurl = {base}/{label}/{id}\nbase = http://a\npace = backoff 2s..10s x1.5\n",
    b"[m]\nurl = http://a\ntimeout = 5m\n[m:small]\nup_to = 10\npace = fixed 3s attempts=60\n",
    b"[a]\nurl = http://a/{id}\nstatus = data.state\ndone = ok, 1\nunknown = failed\n",
    b"[a]\nurl = http://a/{id}\nprogress = a.b / c.d\nresult = x|json.y\nheader.X: 1 ; y\n",
    b"[b]\nurl = http://b/{id}\nrules =\n    done if http 404\n    failed if any t[].s in A, B\n",
    b"[c]\nurl = http://b/{id}\nrules = pending if count y > 3\nbatch_url = http://b/?ids={ids}\n",
]
INI_TOKENS = [b"\n", b"[", b"]", b"=", b" if ", b"{id}", b"{", b"..", b"x", b"/m", b"rules = \n  "]
INI_TOKENS += [
    b"[mine:",
    b"pace = ",
    b"jitter=",
    b"timeout = never",
    b";",
    b"\xef\xbb\xbf",
    b"|json",
]


def check_url(data: bytes, rng: random.Random, is_thorough: bool) -> str:
    """Parse, redact, join and fill in a text; a summary of the outcome, or a Violation."""
    text = data.decode("utf-8", "replace")
    for secret_url in (text + "&api_key=" + SECRET, "http://me:%s@a/%s" % (SECRET, text)):
        if SECRET in redact_url(secret_url):
            raise Violation("a secret is shown: %r" % redact_url(secret_url)[:200])
        if SECRET not in secrets_in_url(secret_url):
            raise Violation("a secret is not found")
    link = join_url("https://me:pw@api.internal/v1/jobs/1", text)
    if link is not None:
        _check_address(link)
    outcome = "no link" if link is None else "link"
    try:
        filled = fill_template(TEMPLATE, id=text)
    except ConfigError:
        return outcome + ", no id"
    address = _check_address(filled)
    parts = address.target.split("/")
    if address.origin != "https://api.internal:443" or len(parts) != 4 or "?" in address.target:
        raise Violation("an id leads elsewhere: %r" % filled)
    try:
        _check_address(text)
    except ConfigError:
        return outcome
    return outcome + ", URL"


def _check_address(url: str) -> Address:
    address = parse_url(url)
    is_plain = all("!" <= char <= "~" for char in address.target + address.host)
    if not is_plain or not 0 < address.port < 65536 or not address.target.startswith("/"):
        raise Violation("an unusable address: %r" % (address,))
    again = parse_url("%s://%s%s" % (address.scheme, address.authority, address.target))
    if again != address._replace(userinfo=""):
        raise Violation("another client would parse it differently: %r" % (address,))
    return address


def check_ini(data: bytes, rng: random.Random, is_thorough: bool) -> str:
    """Build the profiles of a file; a summary of the outcome, or a Violation."""
    text = data.decode("utf-8", "replace").replace("\0", "")
    file = parse_ini("mine.ini", text)
    usable = 0
    problems = len(file.problems)
    for name, entry in catalog._collect_entries([file]).items():
        profile, found = catalog._build_profile(name, entry)
        problems += len(found)
        if not found:
            usable += 1
            try:
                Reader(validate_profile(profile))
            except ConfigError:
                problems += 1
    return "%d usable, %d problems" % (min(usable, 3), min(problems, 9))


def prepare() -> None:
    """Nothing to prepare."""


URL_TARGET = Target("URLs, links and ids", URLS, URL_TOKENS, prepare, check_url)
INI_TARGET = Target("files of profiles", INI, INI_TOKENS, prepare, check_ini)
