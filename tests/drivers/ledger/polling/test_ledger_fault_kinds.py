"""A run counts the faults of its polls by kind, and writes them now and then and at its end."""

from job_api import JobApi
from ledger_shell import profile
from pollkit import Ledger
from pollkit.cli import main


def faults_until_done(name, count):
    answers = [(500, {}, None), (500, {}, None), (200, {}, {}), "running"]
    return answers[count] if count < len(answers) else "done"


def test_faults_are_counted_by_kind(place):
    with JobApi(faults_until_done) as api:
        profile(api.url, "retry = fixed 10ms\nlimit = 1000/s burst 50\n")
        assert main(["add", "jobs.db", "job_1", "job_2", "--profile", "fake", "--quiet"]) == 0
        assert main(["run", "jobs.db", "--quiet"]) == 0
    with Ledger("jobs.db") as ledger:
        faults = ledger.statistics.faults_by_kind()
    assert faults.pop("http 500") == 4
    assert faults == {"no status": 2}
