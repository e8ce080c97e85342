"""URLs as text."""

import pytest

from pollkit import ConfigError
from pollkit.core.urls import (
    fill_ids,
    fill_template,
    is_secret,
    is_url,
    join_url,
    parse_url,
    redact_url,
    secrets_in_header,
    secrets_in_url,
)


@pytest.mark.parametrize(
    "url, origin, authority, target",
    [
        (
            "https://api.internal/v1/jobs/42",
            "https://api.internal:443",
            "api.internal",
            "/v1/jobs/42",
        ),
        ("http://API.Internal:80", "http://api.internal:80", "api.internal", "/"),
        (
            "http://api.internal:8080?x=1#part",
            "http://api.internal:8080",
            "api.internal:8080",
            "/?x=1",
        ),
        ("HTTPS://[::1]:8443/a", "https://::1:8443", "[::1]:8443", "/a"),
        ("http://127.0.0.1:/a", "http://127.0.0.1:80", "127.0.0.1", "/a"),
        (" http://a/b c\r\nX: y ", "http://a:80", "a", "/b%20c%0D%0AX:%20y"),
        (
            "http://bücher.example/ü",
            "http://xn--bcher-kva.example:80",
            "xn--bcher-kva.example",
            "/%C3%BC",
        ),
        ("http://me:pw@a/", "http://a:80", "a", "/"),
        ("http://%6cocalHost%2eExample/", "http://localhost.example:80", "localhost.example", "/"),
        (
            "http://b%C3%BCcher.example/",
            "http://xn--bcher-kva.example:80",
            "xn--bcher-kva.example",
            "/",
        ),
        ("http://[fe80::1%1]/", "http://fe80::1%1:80", "[fe80::1%1]", "/"),
    ],
)
def test_a_url_is_parsed(url, origin, authority, target):
    address = parse_url(url)
    assert (address.origin, address.authority, address.target) == (origin, authority, target)


@pytest.mark.parametrize(
    "url, text", [("http://a/", "a:80"), ("https://a/", "a:443"), ("http://[::1]:81/", "[::1]:81")]
)
def test_host_and_port_name_the_port_in_any_case(url, text):
    assert parse_url(url).host_and_port == text


def test_user_and_password_are_not_part_of_the_origin():
    assert parse_url("http://me:p%40w@a/").userinfo == "me:p%40w"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "job_1",
        "ftp://a/b",
        "file:///etc/passwd",
        "http\u017f://a/",  # an s without regard to case and ASCII
        "http://",
        "http:///x",
        "http://:80/",
        "http://a:99999/",
        "http://a:0/",
        "http://a:x/",
        "http://a b/",
        "http://[::1/",
        "javascript:alert(1)",
        "http://a\\b/",
        "http://" + "ü" * 300 + "/",
        "http://a\x01b/",
        "http://a\0b/",
        "http://\x7f/",
        "http://127.0.0.1%2fa.example/",
        "http://127.0.0.1%252fa.example/",
        "http://me%40a.example/",
        "http://a%0d%0aX:y/",
        "http://a%E9.example/",
        "http://a%zz/",
        "http://%20/",
        "http://[127.0.0.1]/",
        "http://[%6c%6f%63%61%6c%68%6f%73%74]/",
        # IDNA turns these into a / ? @ : % and a/c
        "http://127.0.0.1\uff0fa.example/",
        "http://127.0.0.1\uff1fa.example/",
        "http://me\uff20a.example/",
        "http://a\uff1a80/",
        "http://a\uff0541.example/",
        "http://\u2100.example/",
    ],
)
def test_a_url_that_cannot_be_polled_is_one_clear_line(url):
    with pytest.raises(ConfigError) as caught:
        parse_url(url)
    assert "\n" not in str(caught.value)


def test_an_error_never_shows_a_password():
    with pytest.raises(ConfigError) as caught:
        parse_url("ftp://me:hunter2@a/?api_key=hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("http://a", True),
        ("HTTPS://a", True),
        ("ftp://a", True),
        ("job_1", False),
        ("a/b", False),
        ("", False),
    ],
)
def test_a_url_is_distinguished_from_an_id(text, expected):
    assert is_url(text) is expected


@pytest.mark.parametrize(
    "value, filled",
    [
        ("job_1", "job_1"),
        ("a/b", "a%2Fb"),
        ("a b?c#d", "a%20b%3Fc%23d"),
        ("../x", "..%2Fx"),
        ("ü", "%C3%BC"),
        ("{label}", "%7Blabel%7D"),
        ("\r\n", "%0D%0A"),
    ],
)
def test_every_special_character_of_an_id_is_percent_encoded(value, filled):
    assert fill_template("http://a/{id}", id=value) == "http://a/" + filled


@pytest.mark.parametrize(
    "template, values",
    [
        ("http://a/{id}", {"id": ".."}),
        ("http://a/{id}", {"id": "."}),
        ("http://a/{id}", {"id": ""}),
        ("{base}/{id}", {"id": "1"}),
        ("http://a/{}", {"id": "1"}),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused(template, values):
    with pytest.raises(ConfigError, match="can't be used as {id}|no value for {"):
        fill_template(template, **values)


def test_a_missing_label_is_named():
    with pytest.raises(ConfigError, match="no value for {label}: the job needs a label"):
        fill_template("http://a/{label}/{id}", id="1")


@pytest.mark.parametrize(
    "link, expected",
    [
        ("/b", "http://a/b"),
        ("c", "http://a/x/c"),
        ("//h/z", "http://h/z"),
        ("https://h/", "https://h/"),
        ("?q=1", "http://a/x/y?q=1"),
        ("ftp://h/", None),
        ("mailto:x", None),
        ("http://[", None),
        ("", "http://a/x/y"),
    ],
)
def test_a_link_is_joined_to_the_url_if_it_is_usable(link, expected):
    assert join_url("http://a/x/y", link) == expected


def test_only_a_link_within_the_origin_keeps_the_user_and_password_of_the_url():
    assert join_url("http://me:pw@a/x", "/y") == "http://me:pw@a/y"
    assert join_url("http://me:pw@a/x", "http://a/y") == "http://me:pw@a/y"
    assert join_url("http://me:pw@a/x", "http://b/y") == "http://b/y"
    assert join_url("http://me:pw@a/x", "http://you@a/y") == "http://you@a/y"


def test_a_link_in_a_header_keeps_its_bytes():
    """Headers are decoded as Latin-1; most links beyond ASCII are UTF-8."""
    link = "/caf\u00e9".encode("utf-8").decode("latin-1")
    assert join_url("http://a/", link, "latin-1") == "http://a/caf%C3%A9"
    # No header can contain this, but a Reply from a callable may.
    assert join_url("http://a/", "/\u20ac", "latin-1") == "http://a/\u20ac"


def test_a_host_in_a_header_may_have_any_letters():
    link = "http://b\u00fccher.example/".encode("utf-8").decode("latin-1")
    joined = join_url("http://a/", link, "latin-1")
    assert joined and parse_url(joined).host == "xn--bcher-kva.example"


def test_any_other_link_is_encoded_as_utf_8():
    assert join_url("http://a/", "/caf\u00e9/\u20ac") == "http://a/caf%C3%A9/%E2%82%AC"
    assert join_url("http://a/", "/\ud800") is None


def test_the_secrets_in_a_url_are_found():
    assert secrets_in_url("http://me:hunt%65r2@a/?api_key=abcd&x=1&sig=no") == {
        "me:hunt%65r2",
        "me:hunter2",
        "hunt%65r2",
        "hunter2",
        "abcd",
    }
    assert secrets_in_url("http://a/?x=1") == set()
    assert "hunter2" in secrets_in_url("http://me:hunter2@a/x@y")


@pytest.mark.parametrize(
    "header, secrets",
    [
        ("Bearer tok12345", {"Bearer tok12345", "tok12345"}),
        ("tok12345", {"tok12345"}),
        ("abc", set()),
        (
            "Basic bWU6aHVudGVyMg==",
            {"Basic bWU6aHVudGVyMg==", "bWU6aHVudGVyMg==", "me:hunter2", "hunter2"},
        ),
        ("Basic nonsens", {"Basic nonsens", "nonsens"}),
    ],
)
def test_the_secrets_in_a_header_are_found(header, secrets):
    assert secrets_in_header(header) == secrets


@pytest.mark.parametrize(
    "name, expected",
    [
        ("X-Jwt", True),
        ("Authentication", True),
        ("X-Bearer", True),
        ("passphrase", True),
        ("author", False),
        ("api_key", True),
        ("apikey", True),
        ("X-API-Key", True),
        ("access_token", True),
        ("sig", True),
        ("X-Amz-Signature", True),
        ("Authorization", True),
        ("Cookie", True),
        ("code", True),
        ("design", False),
        ("author", False),
        ("jwt", True),
        ("bearer", True),
        ("otp", True),
        ("user_pin", True),
        ("ticket", True),
        ("X-Hub-Hmac", True),
        ("sas", True),
        ("AWSAccessKeyId", True),
        ("key[]", True),
        ("key%5B%5D", True),
        ("user[pin]", True),
        ("pass", True),
        ("user_pass", True),
        ("pw", True),
        ("passcode", True),
        ("sign", True),
        ("authkey", True),
        ("AccountKey", True),
        ("licenseKey", True),
        ("bypass", False),
        ("passed", False),
        ("passenger", False),
        ("signal", False),
        ("zipcode", False),
        ("monkey", False),
        ("ping", False),
        ("tickets", False),
        ("sassafras", False),
        ("id", False),
    ],
)
def test_names_of_secrets_are_distinguished_from_others(name, expected):
    assert is_secret(name) is expected


def test_many_ids_are_filled_in_with_commas_between():
    assert (
        fill_ids("http://a/?ids={ids}&x=1", ["a", "b,c", "d&e"])
        == "http://a/?ids=a,b%2Cc,d%26e&x=1"
    )
    with pytest.raises(ConfigError, match="no value for {id}"):
        fill_ids("http://a/{id}?ids={ids}", ["a"])


@pytest.mark.parametrize("job_id", [".", "..", ""])
def test_an_id_that_is_a_step_in_a_path_is_refused_in_a_list_too(job_id):
    with pytest.raises(ConfigError, match="can't be used as {ids}"):
        fill_ids("http://a/jobs/{ids}", [job_id])


@pytest.mark.parametrize(
    "url, shown",
    [
        ("http://me:pa/ss@h/x", "http://***@h/x"),
        ("http://me:pa?ss@h/x", "http://***@h/x"),
        ("http://a/b?x=1", "http://a/b?x=1"),
        ("http://me:pw@a/b", "http://***@a/b"),
        ("http://tok@a", "http://***@a"),
        ("http://a/?api_key=s&x=1", "http://a/?api_key=***&x=1"),
        ("http://a/?X-Amz-Signature=s", "http://a/?X-Amz-Signature=***"),
        ("http://a/?x=1;Token=s#access_token=t", "http://a/?x=1;Token=***#access_token=***"),
        ("job@home", "job@home"),
        ("http://a/b@c", "http://a/b@c"),
        ("http://a:80/b@c", "http://a:80/b@c"),
        ("http://a/?token=", "http://a/?token="),
        ("http://a/?u=http://me:pw@b/c", "http://a/?u=http://***@b/c"),
        ("http://a/http://me:pw@b/c", "http://a/http://***@b/c"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url, shown):
    assert redact_url(url) == shown


def test_a_hostile_url_is_redacted_in_linear_time():
    assert redact_url("http://a/?" + "key" * 100000).count("key") == 100000


def test_a_session_in_a_path_is_a_secret():
    assert (
        redact_url("http://h/a;jsessionid=S3CRET?x=1&PHPSESSID=S3")
        == "http://h/a;jsessionid=***?x=1&PHPSESSID=***"
    )


def test_a_link_of_over_8000_characters_is_not_followed():
    assert join_url("http://a/", "/" + "x" * 7999) == "http://a/" + "x" * 7999
    assert join_url("http://a/", "/" + "x" * 8000) is None
