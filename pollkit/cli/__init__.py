"""The command line."""
import sys
from typing import List, Optional

from .. import __version__

HELP = """\
usage: python3 -m pollkit [--help | --version]

pollkit waits for asynchronous jobs over HTTP, from hosts where nothing may be installed.

So far there is the library, for one job and for many:

    import pollkit
    result = pollkit.wait("https://api.internal/v1/jobs/42")
    outcomes = pollkit.BatchPoller(profile=...).run(["job_1", "job_2"])

  --help      this text
  --version   the version

Exit codes: 0 all is well, 2 usage.
"""


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command line; the exit code comes back."""
    words = sys.argv[1:] if arguments is None else arguments
    if words == ["--version"]:
        sys.stdout.write("pollkit %s\n" % __version__)
        return 0
    if words and words not in (["--help"], ["-h"], ["help"]):
        sys.stderr.write("pollkit: don't know %r; try python3 -m pollkit --help\n" % " ".join(words))
        return 2
    sys.stdout.write(HELP)
    return 0
