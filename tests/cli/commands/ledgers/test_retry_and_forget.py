"""The commands retry and forget."""

import pytest

from ledger_shell import added

pytestmark = pytest.mark.usefixtures("place")


def test_finished_jobs_can_wait_again_by_id_or_by_state(api, pollkit):
    added(api, 2, fails="no")
    pollkit("run", "jobs.db")
    assert pollkit("retry", "jobs.db", "job_0") == (0, "", "pollkit: 1 waits again\n")
    assert pollkit("retry", "jobs.db", "job_0", "job_1") == (
        0,
        "",
        "pollkit: 1 waits again, 1 had not finished\n",
    )
    pollkit("run", "jobs.db")
    assert pollkit("retry", "jobs.db", "job_0", "job_0") == (0, "", "pollkit: 1 waits again\n")
    pollkit("run", "jobs.db")
    assert pollkit("retry", "jobs.db", "--state", "failed", "--quiet") == (0, "", "")
    assert pollkit("status", "jobs.db")[0] == 5
    assert pollkit("retry", "jobs.db", "job_0", "nix")[0] == 2
    assert pollkit("retry", "jobs.db")[0] == 2


def test_forgotten_jobs_are_removed(api, pollkit):
    added(api, 3)
    assert pollkit("forget", "jobs.db", "job_0", "nix") == (
        0,
        "",
        "pollkit: 1 forgotten, not in the ledger: nix\n",
    )
    pollkit("run", "jobs.db")
    assert (
        pollkit("forget", "jobs.db", "--finished", "--older-than", "30d")[2]
        == "pollkit: 0 forgotten\n"
    )
    assert pollkit("forget", "jobs.db", "--finished", "--notified")[2] == "pollkit: 0 forgotten\n"
    pollkit("run", "jobs.db", "--outbox", "out.jsonl")
    assert pollkit("forget", "jobs.db", "--finished", "--notified")[2] == "pollkit: 2 forgotten\n"
    assert pollkit("status", "jobs.db") == (0, "no jobs\n", "")


@pytest.mark.parametrize(
    "words", [[], ["a", "--finished"], ["a", "--older-than", "1d"], ["a", "--notified"]]
)
def test_forget_needs_either_ids_or_finished(described, pollkit, words):
    pollkit("add", "jobs.db", "a", "--profile", "fake")
    code, _, err = pollkit("forget", "jobs.db", *words)
    assert code == 2 and err.count("\n") == 1
