"""`python3 -m pollkit`, or `python3 FOLDER` of a copied package."""
import os
import sys

if not __package__:  # Python has put the package's own folder on the path, and not the one it is in
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from pollkit.cli import main

sys.exit(main())
