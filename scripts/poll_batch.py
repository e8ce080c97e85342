#!/usr/bin/env python3
"""Wait for many jobs: `pollkit batch`, from a copied folder, with nothing installed.

pollkit is taken from beside the folder of this script, or from beside the script itself: the
folder pollkit/, or the file pollkit.pyz. poll_batch.py --help says more.
"""
import os
import sys

COMMAND = "batch"

# No more than what Python 2 understands, too, so that it can say what is wrong.
here = os.path.dirname(os.path.realpath(__file__))
places = [os.path.dirname(here), here, os.path.join(here, "pollkit.pyz")]
found = [place for place in places
         if os.path.isfile(place) or os.path.isfile(os.path.join(place, "pollkit", "__main__.py"))]
problem = ""
if sys.version_info < (3, 6):
    problem = "this is Python %d.%d, and pollkit needs 3.6 or newer: try python3" % sys.version_info[:2]
elif not found:
    problem = "pollkit is not there: copy the folder pollkit/ or the file pollkit.pyz to %s" % here
if problem:
    sys.stderr.write("%s: %s\n" % (os.path.basename(__file__), problem))
    sys.exit(2)

sys.path.insert(0, found[0])

from pollkit.cli import main  # noqa: E402 - only now is it known where from

sys.argv.insert(1, COMMAND)
sys.exit(main())
