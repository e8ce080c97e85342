"""Put jobs in a ledger, a file that is made if need be; pollkit run polls them.

A job is kept with its profile's name, label, size, metadata and timeout, and never with a
credential. One that is there already stays as it is. The wait begins now: timeouts count from here.

--timeout is for jobs whose JSON line has no timeout. A timeout that is kept with a job takes
precedence over --timeout of pollkit run and over the profile's.

examples:
  pollkit add jobs.db job_1 job_2 --profile knowhere --size 25
  pollkit add jobs.db job_3 --profile knowhere --timeout 2h
  pollkit add jobs.db https://api.internal/v1/jobs/42
  pollkit add jobs.db --from jobs.jsonl --profile model-tasks
  pollkit add jobs.db --from - --profile knowhere < jobs.txt
"""

import argparse
from typing import List, Union

from ...core.model import Job
from ...core.profile import Profile
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.rows import job_to_row
from ...errors import ConfigError
from .. import options as flags
from ..exit_codes import ALL_DONE
from ..job_lists import named_jobs, read_jobs
from ..ledger_arguments import add_ids, add_ledger, listed, say

_LATER = "http://base.invalid"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger(parser)
    add_ids(parser, "the jobs: their ids, or their URLs")
    parser.add_argument(
        "--from",
        metavar="FILE|-",
        dest="source",
        type=flags.path,
        help="read the jobs from a file, or from standard input: as pollkit batch does",
    )
    flags.add_job_arguments(parser)
    parser.add_argument("--quiet", action="store_true", help="do not say how many were added")


def run(arguments: argparse.Namespace) -> int:
    """Read them all, then put them in, all or none."""
    if bool(arguments.ids) == (arguments.source is not None):
        raise ConfigError(
            "give the jobs' ids, or --from FILE, and not both: see pollkit add --help"
        )
    profile = _profile(arguments)
    if arguments.ids:
        jobs = named_jobs(arguments.ids, arguments, profile)
        for job in jobs:
            job_to_row(job)  # complains, if it must, before a ledger is made
    else:
        jobs = read_jobs(arguments.source, arguments, profile, job_to_row)
    with Ledger(arguments.ledger, warn=lambda text: say("warning: " + text)) as ledger:
        added = ledger.add(_kept(job, profile, flags.job_timeout_from(arguments)) for job in jobs)
    if not arguments.quiet:
        say(_said(added.new, added.known))
    return ALL_DONE


def _profile(arguments: argparse.Namespace) -> Profile:
    if arguments.profile is None:
        if arguments.profiles is not None:
            flags.check_file(arguments.profiles)
        return Profile()
    from ...edges.profiles.catalog import find_profile

    profile = find_profile(arguments.profile, arguments.profiles)
    # Where it is, `run` may be told; here it only has to make sense.
    return (
        profile
        if profile.base is not None
        else profile._replace(
            base=_LATER,
            labels={
                name: one._replace(base=one.base or _LATER) for name, one in profile.labels.items()
            },
        )
    )


def _kept(job: Job, profile: Profile, timeout: Union[float, str, None]) -> Job:
    """The job as the ledger keeps it: what it does not say itself comes from the flags."""
    if job.profile is None:
        job = job._replace(profile=profile.name)
    if job.timeout is None:
        job = job._replace(timeout=timeout)
    return job


def _said(new: int, known: List[str]) -> str:
    return "%d added" % new + (
        ", %d known already (%s)" % (len(known), listed(known, 5)) if known else ""
    )
