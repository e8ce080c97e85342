"""Look at the way to a job, step by step, and ask about it once.

Each line says ok, warning, problem or skipped, what was looked at, and after -> what to do. Steps
that need an earlier one are skipped where it failed. Nothing secret is shown.

The exit code is 0 if there is no problem, and 4 if there is one. A problem is what would keep a
wait from ending well. A job that has failed is none; one that the server does not know is.

All flags of pollkit wait are taken, so that its command line can be used as it is. Those that
make no sense for a single look change nothing here: --pace, --timeout, --max-faults, --bucket,
--history, --result, --progress, --log-json, -v, --quiet.

examples:
  pollkit doctor https://api.internal/v1/jobs/42
  pollkit doctor job_1 --profile knowhere
  pollkit doctor https://api.internal/v1/jobs/42 --token-env API_TOKEN --ca-file /etc/ssl/internal.pem
"""

import argparse
import sys
from typing import List

from ...drivers.doctor.examination import Examination
from ...drivers.doctor.findings import Finding, Level, summary
from .. import options
from ..exit_codes import ALL_DONE, UNREACHABLE
from ..output import as_text
from ..profile_options import profile_from
from . import wait


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments: those of the wait that needs a doctor."""
    wait.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Examine, print each finding as it comes, and say by the exit code whether there is a problem."""
    profile = profile_from(arguments, needs_credential=False)
    checkup = Examination(
        options.job_from(arguments, arguments.job), profile, options.headers_from(arguments)
    )
    _print(checkup.url)
    found: List[Finding] = []
    for finding in checkup.run():
        found.append(finding)
        _print(str(finding))
    _print(summary(found))
    return UNREACHABLE if any(one.level is Level.PROBLEM for one in found) else ALL_DONE


def _print(line: str) -> None:
    sys.stdout.write(as_text(line))
    sys.stdout.flush()  # what takes long should be seen to
