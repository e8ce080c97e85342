"""The name of a file for each job."""

import itertools

import pytest

from pollkit.core.file_names import LONGEST_NAME, file_name

ODD_IDS = [
    "", ".", "..", "...", "-rf", "--", "a/b", "a\\b", "/etc/passwd", "../../x", "a\0b", "a\nb",
    "%", "%2F", "/", "~", "~a", "a~b", "a b", "ä", "job_1", "job-1", "job.1", ".job", "job",
    "x" * 120, "x" * 121, "x" * 5000, "x" * 4999 + "y", "ä" * 500, "\udc80", "COM1",
    "https://api/jobs/1?token=s3cr3t", "https://api/jobs/1?token=0ther", "https://api/jobs/1",
]  # fmt: skip


@pytest.mark.parametrize("job_id", ODD_IDS)
def test_a_name_is_safe(job_id):
    name = file_name(job_id)
    assert name and len(name) <= LONGEST_NAME
    assert not set(name) & set("/\\\0\n ") and name[0] not in ".-"
    assert "s3cr3t" not in name


def test_different_ids_have_different_names():
    short = ["".join(parts) for parts in itertools.product("a%2F/.~-", repeat=3)]
    names = [file_name(job_id) for job_id in ODD_IDS + short]
    assert len(set(names)) == len(set(ODD_IDS + short))


def test_a_plain_id_is_its_own_name():
    assert file_name("job_1.v2-x") == "job_1.v2-x"
