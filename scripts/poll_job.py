#!/usr/bin/env python3
"""Wait for one job: `pollkit wait`, from a copied folder, with nothing installed.

pollkit is taken from beside the folder of this script, or from beside the script itself: the
folder pollkit/, or the file pollkit.pyz. poll_job.py --help says more.
"""

import os
import sys

COMMAND = "wait"

# No more than what Python 2 understands, too, so that it can say what is wrong.


def is_trusted(path):  # type: (str) -> bool
    """Whether a package may be used: in a folder such as /tmp, anybody may have put one."""
    may_all_write = os.stat(os.path.dirname(path)).st_mode & 2
    own = [os.stat(__file__).st_uid, 0, getattr(os, "getuid", int)()]
    return not may_all_write or os.lstat(path).st_uid in own


here = os.path.dirname(os.path.realpath(__file__))
folders = [os.path.join(os.path.dirname(here), "pollkit"), os.path.join(here, "pollkit")]
found = [folder for folder in folders if os.path.isfile(os.path.join(folder, "__main__.py"))]
if os.path.isfile(os.path.join(here, "pollkit.pyz")):
    found.append(os.path.join(here, "pollkit.pyz"))
found = [path for path in found if is_trusted(path)]
problem = ""
if sys.version_info < (3, 6):
    problem = (
        "this is Python %d.%d, and pollkit needs 3.6 or newer: try python3" % sys.version_info[:2]
    )
elif not found:
    problem = "pollkit is not there: copy the folder pollkit/ or the file pollkit.pyz to %s" % here
if problem:
    sys.stderr.write("%s: %s\n" % (os.path.basename(__file__), problem))
    sys.exit(2)

# Python put the folder of this script first on sys.path. Other users may write there, if it is
# /tmp for example: a json.py of theirs must not be imported. The package is loaded from its file.
sys.path[:] = [place for place in sys.path if os.path.realpath(place) != here]
if os.path.isfile(found[0]):
    sys.path.insert(0, found[0])  # pollkit.pyz, which has nothing but pollkit in it
else:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("pollkit", os.path.join(found[0], "__init__.py"))
    assert spec is not None and spec.loader is not None
    sys.modules["pollkit"] = package = module_from_spec(spec)
    spec.loader.exec_module(package)

from pollkit.cli import main  # noqa: E402 - only now is it known where from

sys.argv.insert(1, COMMAND)
sys.exit(main())
