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
from pollkit.cli.commands.help import text_of
from pollkit.core.profile import fill_base, profile_for_job, validate_profile
from pollkit.core.reading.reader import Reader, Verdict
from pollkit.core.units import Limit
from pollkit.edges.credentials import Credential
from pollkit.edges.profiles import catalog as profiles

KINDS = {"pending": Verdict.PENDING, "done": Verdict.DONE, "failed": Verdict.FAILED}
ALL = """knowhere model-tasks sync generic ogc-processes azure google openai-batch replicate ray-jobs prefect airflow
    flower""".split()

# Each row: profile, kind, reply, and what is read from it besides: result, error (code, message), fraction, duration.
REPLIES = [
    (
        "knowhere",
        "pending",
        {"job_id": "j", "status": "running", "progress": {"processed_pages": 3, "total_pages": 12}},
        {"fraction": 0.25},
    ),
    ("knowhere", "pending", {"job_id": "j", "status": "waiting-file", "progress": None}, {}),
    (
        "knowhere",
        "done",
        {
            "job_id": "j",
            "status": "done",
            "result": {"url": "https://k/r.zip"},
            "progress": {"processed_pages": 12, "total_pages": 12},
        },
        {"result": {"url": "https://k/r.zip"}, "fraction": 1.0},
    ),
    (
        "knowhere",
        "failed",
        {"job_id": "j", "status": "failed", "error": {"code": "BAD_PDF", "message": "not a PDF"}},
        {"error": ("BAD_PDF", "not a PDF")},
    ),
    (
        "model-tasks",
        "pending",
        {"code": 200, "msg": "success", "data": {"taskId": "t", "state": "generating"}},
        {},
    ),
    (
        "model-tasks",
        "done",
        {
            "code": 200,
            "data": {"state": "success", "resultJson": '{"resultUrls": ["https://c/1"]}'},
        },
        {"result": ["https://c/1"]},
    ),
    (
        "model-tasks",
        "failed",
        {"data": {"state": "failed", "failCode": "422", "failMsg": "prompt refused"}},
        {"error": ("422", "prompt refused")},
    ),
    ("sync", "pending", {"id": "g", "status": "PROCESSING", "outputUrl": None, "error": None}, {}),
    (
        "sync",
        "done",
        {"id": "g", "status": "completed", "output": "https://s/1.mp4"},
        {"result": "https://s/1.mp4"},
    ),
    (
        "sync",
        "failed",
        {"id": "g", "status": "FAILED", "error": "no face found"},
        {"error": (None, "no face found")},
    ),
    ("generic", "pending", {"state": "queued", "progress": 40}, {"fraction": 0.4}),
    ("generic", "done", {"state": "finished", "result": [1]}, {"result": [1]}),
    (
        "generic",
        "failed",
        {"status": "error", "message": "disk full"},
        {"error": (None, "disk full")},
    ),
    (
        "ogc-processes",
        "pending",
        {"processID": "echo", "type": "process", "jobID": "81", "status": "accepted"},
        {},
    ),
    (
        "ogc-processes",
        "pending",
        {"jobID": "81", "status": "running", "message": "tile 3", "progress": 33},
        {"fraction": 0.33},
    ),
    (
        "ogc-processes",
        "done",
        {
            "jobID": "81",
            "status": "successful",
            "progress": 100,
            "created": "2026-11-16T09:00:00Z",
            "finished": "2026-11-16T09:01:30Z",
        },
        {"fraction": 1.0, "duration": 90.0},
    ),
    (
        "ogc-processes",
        "done",
        {"jobID": "81", "status": "succeeded", "result": {"a": 1}},
        {"result": {"a": 1}},
    ),
    (
        "ogc-processes",
        "failed",
        {"jobID": "81", "status": "failed", "message": "no such layer"},
        {"error": (None, "no such layer")},
    ),
    (
        "ogc-processes",
        "failed",
        {"jobID": "81", "status": "dismissed", "message": "dismissed"},
        {"error": (None, "dismissed")},
    ),
    (
        "azure",
        "pending",
        {
            "id": "/subscriptions/s/operationStatuses/o",
            "status": "InProgress",
            "percentComplete": 50.0,
            "startTime": "2026-11-16T09:00:00Z",
        },
        {"fraction": 0.5},
    ),
    ("azure", "pending", {"status": "Provisioning"}, {}),
    (
        "azure",
        "done",
        {
            "name": "o",
            "status": "Succeeded",
            "startTime": "2026-11-16T09:00:00.0000000Z",
            "endTime": "2026-11-16T09:00:20.0000000Z",
            "percentComplete": 100,
            "result": {"id": "vm"},
        },
        {"result": {"id": "vm"}, "fraction": 1.0, "duration": 20.0},
    ),
    (
        "azure",
        "failed",
        {"status": "Failed", "error": {"code": "QuotaExceeded", "message": "no cores left"}},
        {"error": ("QuotaExceeded", "no cores left")},
    ),
    ("azure", "failed", {"status": "Canceled"}, {"error": (None, None)}),
    (
        "google",
        "pending",
        {
            "name": "projects/p/locations/l/operations/1",
            "metadata": {"createTime": "2026-11-16T09:00:00Z"},
        },
        {},
    ),
    (
        "google",
        "pending",
        {"name": "operations/1", "done": False, "metadata": {"progressPercent": 20}},
        {"fraction": 0.2},
    ),
    (
        "google",
        "done",
        {
            "name": "operations/1",
            "done": True,
            "response": {"@type": "t", "uri": "gs://b/o"},
            "metadata": {
                "createTime": "2026-11-16T09:00:00.5Z",
                "endTime": "2026-11-16T09:00:10.5Z",
            },
        },
        {"result": {"@type": "t", "uri": "gs://b/o"}, "duration": 10.0},
    ),
    (
        "google",
        "failed",
        {"name": "operations/1", "done": True, "error": {"code": 3, "message": "bad input"}},
        {"error": ("3", "bad input")},
    ),
    (
        "openai-batch",
        "pending",
        {
            "id": "batch_1",
            "object": "batch",
            "status": "validating",
            "errors": None,
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
        },
        {},
    ),
    (
        "openai-batch",
        "pending",
        {
            "id": "batch_1",
            "status": "in_progress",
            "output_file_id": None,
            "request_counts": {"total": 100, "completed": 95, "failed": 5},
        },
        {"fraction": 0.95},
    ),
    (
        "openai-batch",
        "done",
        {
            "id": "batch_1",
            "status": "completed",
            "output_file_id": "file-1",
            "created_at": 1711471533,
            "completed_at": 1711493163,
            "request_counts": {"total": 2, "completed": 2, "failed": 0},
        },
        {"result": "file-1", "fraction": 1.0, "duration": 21630.0},
    ),
    (
        "openai-batch",
        "failed",
        {
            "id": "batch_1",
            "status": "failed",
            "errors": {
                "object": "list",
                "data": [{"code": "invalid_json_line", "message": "line 3 is not JSON", "line": 3}],
            },
        },
        {"error": ("invalid_json_line", "line 3 is not JSON")},
    ),
    (
        "openai-batch",
        "failed",
        {"id": "batch_1", "status": "expired", "errors": None},
        {"error": (None, None)},
    ),
    ("replicate", "pending", {"id": "g", "status": "starting", "output": None, "error": None}, {}),
    ("replicate", "pending", {"id": "g", "status": "processing", "output": ["partial"]}, {}),
    (
        "replicate",
        "done",
        {
            "id": "g",
            "status": "succeeded",
            "output": ["https://r/0.png"],
            "error": None,
            "created_at": "2026-11-16T09:00:00.1Z",
            "completed_at": "2026-11-16T09:00:05.1Z",
        },
        {"result": ["https://r/0.png"], "duration": 5.0},
    ),
    (
        "replicate",
        "failed",
        {"id": "g", "status": "failed", "output": None, "error": "CUDA out of memory"},
        {"error": (None, "CUDA out of memory")},
    ),
    (
        "replicate",
        "failed",
        {"id": "g", "status": "aborted", "error": None},
        {"error": (None, None)},
    ),
    (
        "ray-jobs",
        "pending",
        {
            "type": "SUBMISSION",
            "submission_id": "raysubmit_1",
            "status": "PENDING",
            "message": "Job has not started yet.",
            "error_type": None,
            "end_time": None,
        },
        {},
    ),
    (
        "ray-jobs",
        "done",
        {
            "submission_id": "raysubmit_1",
            "status": "SUCCEEDED",
            "start_time": 1763283600000,
            "end_time": 1763283660000,
            "driver_exit_code": 0,
        },
        {"duration": 60.0},
    ),
    (
        "ray-jobs",
        "failed",
        {
            "submission_id": "raysubmit_1",
            "status": "FAILED",
            "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR",
            "message": "exit code 1",
            "start_time": 1763283600000,
            "end_time": 1763283601000,
        },
        {"error": ("JOB_ENTRYPOINT_COMMAND_ERROR", "exit code 1"), "duration": 1.0},
    ),
    (
        "ray-jobs",
        "failed",
        {"submission_id": "raysubmit_1", "status": "STOPPED", "message": "stopped"},
        {"error": (None, "stopped")},
    ),
    (
        "prefect",
        "pending",
        {
            "id": "u",
            "name": "crimson-fox",
            "state_type": "RUNNING",
            "end_time": None,
            "state": {"type": "RUNNING", "name": "Retrying", "message": ""},
        },
        {},
    ),
    (
        "prefect",
        "pending",
        {"id": "u", "state": {"type": "SCHEDULED", "name": "Late", "message": None}},
        {},
    ),
    (
        "prefect",
        "done",
        {
            "id": "u",
            "created": "2026-11-16T09:00:00+00:00",
            "end_time": "2026-11-16T09:00:07.5+00:00",
            "state": {"type": "COMPLETED", "name": "Completed", "message": None},
        },
        {"duration": 7.5},
    ),
    (
        "prefect",
        "failed",
        {"id": "u", "state": {"type": "FAILED", "name": "TimedOut", "message": "exceeded 60 s"}},
        {"error": ("TimedOut", "exceeded 60 s")},
    ),
    (
        "prefect",
        "failed",
        {"id": "u", "state": {"type": "CRASHED", "name": "Crashed", "message": "pod evicted"}},
        {"error": ("Crashed", "pod evicted")},
    ),
    (
        "airflow",
        "pending",
        {"dag_run_id": "manual__1", "dag_id": "etl", "state": "queued", "end_date": None},
        {},
    ),
    (
        "airflow",
        "done",
        {
            "dag_run_id": "manual__1",
            "dag_id": "etl",
            "state": "success",
            "queued_at": "2026-11-16T09:00:00Z",
            "start_date": "2026-11-16T09:00:02Z",
            "end_date": "2026-11-16T09:00:32Z",
        },
        {"duration": 32.0},
    ),
    (
        "airflow",
        "failed",
        {"dag_run_id": "manual__1", "dag_id": "etl", "state": "failed", "note": "source was down"},
        {"error": (None, "source was down")},
    ),
    ("flower", "pending", {"task-id": "c60b", "state": "PENDING"}, {}),
    ("flower", "pending", {"task-id": "c60b", "state": "RETRY", "result": "OSError('reset')"}, {}),
    ("flower", "done", {"task-id": "c60b", "state": "SUCCESS", "result": 3}, {"result": 3}),
    (
        "flower",
        "failed",
        {"task-id": "c60b", "state": "FAILURE", "result": "ValueError('boom')", "traceback": "..."},
        {"error": (None, "ValueError('boom')")},
    ),
]


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch):
    """None but the built-in profiles."""
    monkeypatch.setattr(profiles, "SYSTEM_FILE", "/nowhere/profiles.ini")
    for name in ("HOME", "USERPROFILE", "POLLKIT_PROFILES", "POLLKIT_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name, kind, answer, said", REPLIES)
def test_a_reply_of_the_apis_own_shape_is_understood(name, kind, answer, said):
    reading = Reader(profiles.find_profile(name)).read(
        Reply(200, {"content-type": "application/json"}, json.dumps(answer))
    )
    assert reading.verdict is KINDS[kind], reading.because
    if "result" in said:
        assert reading.result == said["result"]
    assert (reading.error_code, reading.error_message) == said.get("error", (None, None))
    assert (
        reading.fraction == pytest.approx(said["fraction"])
        if "fraction" in said
        else reading.fraction is None
    )
    assert reading.duration_s == (pytest.approx(said["duration"]) if "duration" in said else None)


def test_every_profile_has_a_reply_of_each_kind():
    assert {(name, kind) for name, kind, _, _ in REPLIES} == {
        (name, kind) for name in ALL for kind in KINDS
    }


def test_the_words_that_are_named_need_no_guessing():
    """Every status in the table is known to its profile: nothing is pending for want of a meaning."""
    guessed = [
        (name, reading.warnings)
        for name, _, answer, _ in REPLIES
        for reading in [Reader(profiles.find_profile(name)).read(answer)]
        if reading.warnings
    ]
    assert {name for name, _ in guessed} <= {
        "knowhere",
        "azure",
    }  # which call any other word 'under way'


def test_the_list_is_what_the_design_names_and_none_has_a_mistake():
    listed = profiles.all_profiles()
    assert sorted(one.name for one in listed) == sorted(ALL)
    assert [one.problems for one in listed] == [[]] * len(ALL)
    assert {one.sources for one in listed} == {("built in",)}


@pytest.mark.parametrize("name", ALL)
def test_each_is_ready_for_use_as_it_is(name):
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
    """The Location style: 202 without a status, then 200 with what was made."""
    reader = Reader(profiles.find_profile("azure"))
    first = reader.read(Reply(202, {"location": "https://management.azure.com/o"}, b""))
    assert first.verdict is Verdict.PENDING and first.accepted
    assert reader.read(Reply(200, {}, b'{"id": "vm"}'), accepted=True).result == {"id": "vm"}


def test_every_one_is_in_the_help_and_has_a_comment_that_says_what_it_is():
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


def test_they_can_be_read_from_a_zip(tmp_path):
    root = os.path.dirname(os.path.dirname(os.path.abspath(pollkit.__file__)))
    archive = str(tmp_path / "all.zip")
    with zipfile.ZipFile(archive, "w") as file:
        for folder, _, names in os.walk(os.path.join(root, "pollkit")):
            for path in (
                os.path.join(folder, name) for name in names if name.endswith((".py", ".ini"))
            ):
                file.write(path, os.path.relpath(path, root))
    said = subprocess.check_output([sys.executable, "-I", "-c", READ_FROM_ZIP, archive]).decode()
    assert said.startswith(archive) and said.strip().endswith("https://sync.so/status/{id}")
