"""`python3 -m pollkit`, or `python3 FOLDER` of a copied package."""

import os
import sys

if not __package__:
    # Python put this folder first on sys.path; to find the package there, it takes the folder above.
    # That one may be /tmp, and another user's json.py in it would be imported. So the package is
    # loaded from its own file, with neither folder on sys.path.
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != folder]
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("pollkit", os.path.join(folder, "__init__.py"))
    assert spec is not None and spec.loader is not None
    sys.modules["pollkit"] = package = module_from_spec(spec)
    spec.loader.exec_module(package)

from pollkit.cli import main

sys.exit(main())
