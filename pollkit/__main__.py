"""`python3 -m pollkit`."""
import sys

from .cli import main

sys.exit(main())
