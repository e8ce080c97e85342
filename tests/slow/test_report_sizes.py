"""Reports of many jobs stay small; the times are printed (pytest -s)."""

import os
import sys
import time

import pytest

from ledger_host import folder
from paths import ROOT
from pollkit.cli import main

sys.path.insert(0, os.path.join(ROOT, "scripts"))

import sample_ledger

from one_python import not_with_the_oldest

pytestmark = not_with_the_oldest


@pytest.mark.parametrize(
    "jobs, hours, largest", [(500, 6, 300000), (1000, 6, 300000), (10000, 48, 1000000)]
)
def test_the_page_of_many_jobs_is_small(capsys, jobs, hours, largest):
    with folder() as name:
        ledger = os.path.join(name, "jobs.db")
        page = os.path.join(name, "report.html")
        sample_ledger.make_ledger(ledger, sample_ledger.Plan(jobs=jobs, hours=hours))
        began_at = time.monotonic()
        assert main(["report", ledger, "-o", page]) == 0
        took_s = time.monotonic() - began_at
        size = os.path.getsize(page)
    with capsys.disabled():
        print("\n%d jobs: %d bytes in %.2f s" % (jobs, size, took_s))
    assert size < largest
