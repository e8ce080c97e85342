"""Put jobs in a ledger, a file that is created if needed; pollkit run polls them.

A job is stored with the name of its profile, its label, size, metadata and timeout, never with a
credential. A URL to which the profile's credential must not be sent is refused. A job that is in
the ledger already does not change. Timeouts count from now; pollkit prints when the jobs time out.

--timeout is for jobs whose JSON line has no timeout. The timeout stored with a job takes precedence
over --timeout of pollkit run and over the timeout of the profile.

examples:
  pollkit add jobs.db job_1 job_2 --profile knowhere --size 25
  pollkit add jobs.db job_3 --profile knowhere --timeout 2h
  pollkit add jobs.db https://api.internal/v1/jobs/42
  pollkit add jobs.db --from jobs.jsonl --profile model-tasks
  pollkit add jobs.db --from - --profile knowhere < jobs.txt
"""

import argparse
import time
from typing import List, Optional, Union

from ....core.model import NO_TIMEOUT, Job
from ....core.profiles.profile import Profile
from ....core.units import NEVER
from ....edges.ledger.records import Added
from ....edges.ledger.rows import job_to_row
from ....errors import ConfigError
from ...arguments import options
from ...arguments.argument_types import path
from ...arguments.job_deadlines import Deadlines, deadlines_text
from ...arguments.ledger_options import add_ids, add_ledger, open_ledger
from ...arguments.profile_options import named_profile
from ...exit_codes import ALL_DONE
from ...inputs.job_lists import UNKNOWN_BASE, named_jobs, read_jobs
from ...output.streams import join_names, write_message


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_ledger(parser)
    add_ids(parser, "the jobs: their ids, or their URLs")
    parser.add_argument(
        "--from",
        metavar="FILE|-",
        dest="source",
        type=path,
        help="read the jobs from a file or from standard input, as pollkit batch does",
    )
    options.add_ledger_job_options(parser)
    parser.add_argument("--quiet", action="store_true", help="don't print what was added")


def run(arguments: argparse.Namespace) -> int:
    """Read all jobs, then add all of them or none."""
    if bool(arguments.ids) == (arguments.source is not None):
        raise ConfigError("give either the jobs' ids or --from FILE: see pollkit add --help")
    profile = _with_some_base(named_profile(arguments))
    if arguments.ids:
        jobs = named_jobs(arguments.ids, arguments, profile)
        for job in jobs:
            job_to_row(job)  # raises ConfigError before a ledger is created
    else:
        jobs = read_jobs(arguments.source, arguments, profile, check=job_to_row)
    timeout = NO_TIMEOUT if arguments.timeout == NEVER else arguments.timeout
    jobs = [_with_defaults(job, profile.name, timeout) for job in jobs]
    with open_ledger(arguments, create=True) as ledger:
        added = ledger.add(jobs)
    if not arguments.quiet:
        _report(jobs, added, Deadlines(arguments.profiles))
    return ALL_DONE


def _report(jobs: List[Job], added: Added, deadlines: Deadlines) -> None:
    text = "%d added" % added.new
    if added.known:
        text += ", %d known already (%s)" % (len(added.known), join_names(added.known, 5))
    if added.new:
        now = time.time()
        known = set(added.known)
        instants = [deadlines.deadline(job, now) for job in jobs if job.id not in known]
        text += "; " + deadlines_text(instants, now)
    write_message(text)


def _with_some_base(profile: Profile) -> Profile:
    """The profile with a base URL, so that URLs can be checked; `run` may be given the real one."""
    if profile.base is not None:
        return profile
    labels = {
        name: label._replace(base=label.base or UNKNOWN_BASE)
        for name, label in profile.labels.items()
    }
    return profile._replace(base=UNKNOWN_BASE, labels=labels)


def _with_defaults(job: Job, profile: Optional[str], timeout: Union[float, str, None]) -> Job:
    """The job with the profile and the timeout of the options, unless it has its own."""
    if job.profile is None:
        job = job._replace(profile=profile)
    if job.timeout is None:
        job = job._replace(timeout=timeout)
    return job
