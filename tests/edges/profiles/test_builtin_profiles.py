"""The profiles that come with pollkit, each against replies of the shape that its API sends."""

import json
import os
import re
import subprocess
import sys
import zipfile

import pytest

import pollkit
from pollkit import Adaptive, Backoff, Fixed, Reply
from pollkit.cli.commands.program.help import text_of
from pollkit.core.profiles.profile import fill_base, profile_for_job, validate_profile
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Verdict
from pollkit.core.submitting.intent import Kind
from pollkit.core.submitting.reply import SubmitReader
from pollkit.core.units import Limit
from pollkit.edges.credentials import Credential
from pollkit.edges.profiles import catalog as profiles
from profile_replies import REPLIES

KINDS = {"pending": Verdict.PENDING, "done": Verdict.DONE, "failed": Verdict.FAILED}
ALL = """
    knowhere model-tasks sync generic ogc-processes azure google openai-batch replicate ray-jobs
    prefect airflow flower rq-dashboard
    """.split()


@pytest.fixture(autouse=True)
def only_built_in_profiles(monkeypatch):
    """Ignore the profile files of the user."""
    monkeypatch.setattr(profiles, "SYSTEM_FILE", "/nowhere/profiles.ini")
    for name in ("HOME", "USERPROFILE", "POLLKIT_PROFILES", "POLLKIT_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name, kind, data, expected", REPLIES)
def test_a_reply_of_the_api_is_understood(name, kind, data, expected):
    reply = Reply(200, {"content-type": "application/json"}, json.dumps(data))
    reading = Reader(profiles.find_profile(name)).read(reply)
    assert reading.verdict is KINDS[kind], reading.because
    if "result" in expected:
        assert reading.result == expected["result"]
    assert (reading.error_code, reading.error_message) == expected.get("error", (None, None))
    assert reading.fraction == pytest.approx(expected.get("fraction"))
    assert reading.duration_s == pytest.approx(expected.get("duration"))


def test_every_profile_has_a_reply_of_each_kind():
    assert {(name, kind) for name, kind, _, _ in REPLIES} == {
        (name, kind) for name in ALL for kind in KINDS
    }


def test_every_status_in_the_table_is_known_to_its_profile():
    """Knowhere and Azure are exceptions: any word that they don't list means pending."""
    with_warnings = {
        name
        for name, _, data, _ in REPLIES
        if Reader(profiles.find_profile(name)).read(data).warnings
    }
    assert with_warnings <= {"knowhere", "azure"}


def test_the_list_is_complete_and_has_no_mistakes():
    listed = profiles.all_profiles()
    assert sorted(one.name for one in listed) == sorted(ALL)
    assert [one.problems for one in listed] == [[]] * len(ALL)
    assert {one.sources for one in listed} == {("built in",)}


@pytest.mark.parametrize("name", ALL)
def test_each_profile_is_valid(name):
    profile = profiles.find_profile(name)
    assert validate_profile(profile) == profile
    assert profile.name == name and profile.timeout is not None
    for label, one in profile.labels.items():
        assert validate_profile(one) == one
        assert (one.name, one.label, one.labels) == (name, label, {})
    if profile.auth:
        Credential(profile.auth)
    if "{base}" in (profile.url or ""):
        assert fill_base(profile, "http://host:1/api/").url.startswith("http://host:1/api/")


@pytest.mark.parametrize(
    "size, label, pace, timeout",
    [
        (0, "small", Backoff(2, 5, factor=1.5), 60),
        (10, "small", Backoff(2, 5, factor=1.5), 60),
        (10.5, "medium", Backoff(3, 10, factor=1.5), 180),
        (50, "medium", Backoff(3, 10, factor=1.5), 180),
        (51, "large", Backoff(5, 15, factor=1.5), 600),
        (10**400, "large", Backoff(5, 15, factor=1.5), 600),
        (None, None, Backoff(2, 10, factor=1.5), 300),
    ],
)
def test_knowhere_by_size(size, label, pace, timeout):
    one = profile_for_job(profiles.find_profile("knowhere"), size=size)
    assert (one.label, one.pace, one.timeout) == (label, pace, timeout)
    assert (one.limit, one.retry_after_default) == (Limit(60, 60), 60.0)
    assert (one.url, one.auth) == (
        "https://api.knowhereto.ai/v1/jobs/{id}",
        "bearer env:KNOWHERE_API_KEY",
    )


@pytest.mark.parametrize(
    "label, first, every, timeout",
    [
        ("nano-banana", 5, 3, 120),
        ("flux-2", 10, 5, 180),
        ("sora-2", 60, 15, 600),
        ("veo-3-1", 45, 10, 480),
        ("suno", 30, 10, 300),
        (None, 10, 5, 300),
        ("a-model-of-tomorrow", 10, 5, 300),
    ],
)
def test_model_tasks_by_model(label, first, every, timeout):
    one = profile_for_job(profiles.find_profile("model-tasks"), label)
    assert (one.pace, one.timeout) == (Adaptive(first=first, every=every), timeout)
    assert (
        fill_base(one, "https://media.internal").url == "https://media.internal/status/{label}/{id}"
    )


def test_sync_starts_at_5_s_and_doubles_on_429_up_to_300_s():
    one = profiles.find_profile("sync")
    assert (one.url, one.pace) == ("https://sync.so/status/{id}", Fixed(5))
    assert one.retry == Backoff(5, 300, factor=2, jitter="equal")
    assert one.timeout >= 15 * 60


def test_an_azure_operation_that_ends_with_the_resource_itself_is_done():
    """The Location style: 202 without a status, then 200 with the resource."""
    reader = Reader(profiles.find_profile("azure"))
    first = reader.read(Reply(202, {"location": "https://management.azure.com/o"}, b""))
    assert first.verdict is Verdict.PENDING and first.accepted
    assert reader.read(Reply(200, {}, b'{"id": "vm"}'), accepted=True).result == {"id": "vm"}


def test_each_profile_is_in_the_help_and_has_a_comment():
    with open(profiles.__file__.replace("catalog.py", "builtin.ini"), encoding="ascii") as file:
        text = file.read()
    for name in ALL:
        assert re.search(r"^  %s +\S" % name, text_of("profiles"), re.MULTILINE)
        assert re.search(r"^#.*\n\[%s\]$" % name, text, re.MULTILINE)


READ_FROM_ZIP = """
import sys
sys.path[:] = [sys.argv[1]] + sys.path
from pollkit.edges.profiles import catalog as profiles
print(profiles.__file__, profiles.find_profile("sync").url)
"""


def test_the_profiles_can_be_read_from_a_zip(tmp_path):
    root = os.path.dirname(os.path.dirname(os.path.abspath(pollkit.__file__)))
    archive = str(tmp_path / "all.zip")
    with zipfile.ZipFile(archive, "w") as file:
        for folder, _, names in os.walk(os.path.join(root, "pollkit")):
            for name in names:
                if name.endswith((".py", ".ini")):
                    path = os.path.join(folder, name)
                    file.write(path, os.path.relpath(path, root))
    output = subprocess.check_output([sys.executable, "-I", "-c", READ_FROM_ZIP, archive]).decode()
    assert output.startswith(archive) and output.strip().endswith("https://sync.so/status/{id}")


@pytest.mark.parametrize(
    "name, reply, job_id",
    [
        ("openai-batch", {"id": "batch_1", "object": "batch", "status": "validating"}, "batch_1"),
        ("replicate", {"id": "gm3", "status": "starting", "urls": {"get": "x"}}, "gm3"),
        ("ray-jobs", {"job_id": "raysubmit_1", "submission_id": "raysubmit_1"}, "raysubmit_1"),
        ("prefect", {"id": "f1", "state": {"type": "SCHEDULED"}}, "f1"),
        ("airflow", {"dag_run_id": "k1", "state": "queued", "conf": {}}, "k1"),
        ("flower", {"task-id": "t1", "state": "PENDING"}, "t1"),
        ("ogc-processes", {"jobID": "81574318", "status": "accepted", "type": "process"}, None),
    ],
)
def test_the_reply_to_a_submission_names_the_job(name, reply, job_id):
    profile = fill_base(profiles.find_profile(name), "https://api.internal")
    url = profile.submit_url.replace("{label}", "x")
    headers = {"Location": "/jobs/81574318"} if job_id is None else {}
    answer = SubmitReader(profile).read(Reply(201, headers, json.dumps(reply), url))
    assert (answer.kind, answer.is_finished) == (Kind.ACCEPTED, False)
    if job_id is None:  # OGC API - Processes, 7.11.4: the URL is in Location
        assert answer.job_url == "https://api.internal/jobs/81574318"
    else:
        assert (answer.job_id, answer.job_url) == (job_id, None)
