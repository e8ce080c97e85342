"""Callbacks: which are accepted, and which job they name."""

import hashlib
import hmac

import pytest

from pollkit.core.callbacks import Answer, Callback, CallbackRules, judge, sign

SECRET = b"s3cret"
RULES = CallbackRules(SECRET)
BODY = b'{"id": "job_1"}'


def post(target="/job_1", body=BODY, credential=None, header="x-pollkit-signature", secret=SECRET):
    if credential is None:
        credential = sign(body, secret)
    return Callback("POST", target, {header: credential}, body)


def test_the_signature_is_the_hmac_sha256_of_the_body():
    digest = hmac.new(SECRET, BODY, hashlib.sha256).hexdigest()
    assert sign(BODY, SECRET) == "sha256=" + digest
    assert judge(post(credential="sha256=" + digest), RULES) == Answer(204, "job_1")


@pytest.mark.parametrize(
    "credential",
    [sign(BODY, SECRET), sign(BODY, SECRET)[len("sha256=") :], "s3cret", "Bearer s3cret"],
)
def test_a_signature_or_the_secret_itself_is_accepted(credential):
    assert judge(post(credential=credential), RULES) == Answer(204, "job_1")


def test_the_secret_may_have_any_letters():
    secret = "sésame".encode()
    credential = "Bearer " + secret.decode("latin-1")  # as headers are decoded
    assert judge(post(credential=credential), CallbackRules(secret)) == Answer(204, "job_1")


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "sha256=",
        "sha256=" + "0" * 64,
        sign(BODY, b"another"),
        sign(BODY + b" ", SECRET),
        sign(BODY, SECRET).upper(),
        sign(BODY, SECRET)[:-1],
        sign(BODY, SECRET) + ", " + sign(BODY, SECRET),
        "sha1=" + hmac.new(SECRET, BODY, hashlib.sha1).hexdigest(),
        "Basic s3cret",
        "s3cre",
        "s\u00e9cret",
        "\udce9",
    ],
)
def test_any_other_credential_is_refused(credential):
    assert judge(post(credential=credential), RULES) == Answer(401)


def test_a_callback_without_the_header_is_refused():
    assert judge(Callback("POST", "/job_1", {}, BODY), RULES) == Answer(401)


def test_a_profile_can_name_another_header():
    rules = CallbackRules(SECRET, header="X-Hub-Signature-256")
    assert judge(post(header="x-hub-signature-256"), rules) == Answer(204, "job_1")
    assert judge(post(), rules) == Answer(401)


def test_only_post_is_accepted():
    for method in ("GET", "HEAD", "PUT", "OPTIONS"):
        assert judge(post()._replace(method=method), RULES) == Answer(405)


@pytest.mark.parametrize(
    "target, job_id",
    [
        ("/job_1", "job_1"),
        ("/hooks/v1/job_1", "job_1"),
        ("/job_1?try=2", "job_1"),
        ("/a%2Fb", "a/b"),
        ("/caf%C3%A9", "caf\u00e9"),
        ("/https%3A%2F%2Fapi.internal%2F7", "https://api.internal/7"),
        ("http://host/job_1", "job_1"),
        ("/a+b", "a+b"),
    ],
)
def test_by_default_the_id_is_the_last_part_of_the_path(target, job_id):
    assert judge(post(target), RULES) == Answer(204, job_id)


@pytest.mark.parametrize("target", ["/", "/jobs/", "*"[1:], "/?id=1", "/a%00b", "/" + "x" * 501])
def test_a_path_without_a_usable_id_is_not_found(target):
    assert judge(post(target), RULES) == Answer(404)


@pytest.mark.parametrize(
    "body, job_id", [(b'{"data": {"job": "job_1"}}', "job_1"), (b'{"data": {"job": 42}}', "42")]
)
def test_a_profile_can_name_the_place_of_the_id_in_the_body(body, job_id):
    rules = CallbackRules(SECRET, id_path="data.job")
    assert judge(post("/hook", body), rules) == Answer(204, job_id)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not JSON",
        b"[" * 100000,
        b'{"data": {}}',
        b'{"data": {"job": true}}',
        b'{"data": {"job": null}}',
        b'{"data": {"job": {"id": 1}}}',
        b'{"data": {"job": ""}}',
        b'{"data": {"job": "\\ud800"}}',
    ],
)
def test_a_body_without_a_usable_id_is_a_bad_request(body):
    rules = CallbackRules(SECRET, id_path="data.job")
    assert judge(post("/hook", body), rules) == Answer(400)


def test_a_sender_without_the_secret_learns_nothing_about_the_content():
    rules = CallbackRules(SECRET, id_path="data.job")
    for body in (b"", b'{"data": {"job": "job_1"}}'):
        assert judge(post("/", body, credential="wrong"), rules) == Answer(401)
        assert judge(post("/", body, credential="wrong"), RULES) == Answer(401)
