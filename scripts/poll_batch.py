#!/usr/bin/env python3
"""Wait for many jobs: `pollkit batch` from a copied folder, without installation.

The script uses the folder pollkit/ next to its own folder, or pollkit/ or pollkit.pyz next to
itself. See poll_batch.py --help.
"""

import os
import sys

COMMAND = "batch"

# Down to the check of its version, this is valid in Python 2, too, which then prints a message.


def is_trusted(path):  # type: (str) -> bool
    """Whether a package may be used: in a folder such as /tmp, any user may have put one."""
    can_all_write = os.stat(os.path.dirname(path)).st_mode & 2
    trusted_users = [os.stat(__file__).st_uid, 0, getattr(os, "getuid", int)()]
    return not can_all_write or os.lstat(path).st_uid in trusted_users


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

# Python put the folder of this script first on sys.path. In a folder such as /tmp, another user may
# have put a json.py, which must not be imported. So the package is loaded from its file.
sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder) != here]
if os.path.isfile(found[0]):
    sys.path.insert(0, found[0])  # pollkit.pyz, which contains nothing but pollkit
else:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("pollkit", os.path.join(found[0], "__init__.py"))
    assert spec is not None and spec.loader is not None
    sys.modules["pollkit"] = package = module_from_spec(spec)
    spec.loader.exec_module(package)

from pollkit.cli import main  # noqa: E402 - sys.path had to be set first

sys.argv.insert(1, COMMAND)
sys.exit(main())
