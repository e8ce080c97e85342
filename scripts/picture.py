#!/usr/bin/env python3
"""Make the picture of a report that the README shows, from a ledger that sample_ledger.py makes.

It needs Chromium (Debian's package chromium), which the tests of the report drive as well.

example:
  python3 scripts/picture.py                      # writes .pictures/report.png
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
sys.path.insert(0, os.path.join(sys.path[0], "tests", "support"))

import sample_ledger

from browser import running_browser  # type: ignore[import-not-found]
from pollkit import Ledger
from pollkit.cli.report.loading import Selection, read_ledger
from pollkit.cli.report.page import report_page

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLAN = sample_ledger.Plan(jobs=300, hours=3.0)
WIDTH = 1120
HEIGHT = 1530
SCROLLED = 2600  # pixels, to jobs that the limit held back


def main() -> int:
    """Make the ledger, the page and the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = os.path.join(ROOT, ".pictures", "report.png")
    parser.add_argument("-o", default=default, help="the picture (default: .pictures/report.png)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "media.db")
        ended_at = sample_ledger.make_ledger(path, PLAN)
        page = Path(folder, "report.html")
        with Ledger(path) as ledger:
            page.write_bytes(report_page(read_ledger(ledger, "media.db", Selection(ended_at))))
        with running_browser() as browser:
            opened = browser.open(page.as_uri(), WIDTH, HEIGHT)
            opened.evaluate("document.querySelector('.jobs').scrollTop = %d" % SCROLLED)
            opened.screenshot(arguments.o, 0, HEIGHT)
    print("%s: %d bytes" % (arguments.o, os.path.getsize(arguments.o)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
