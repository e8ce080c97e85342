"""`python3 -m pollkit`, or `python3 FOLDER` for a copied package."""

import os
import sys

if not __package__:
    # Python has put this folder first on sys.path. To import the package from there, the parent
    # folder would have to be on sys.path. That may be /tmp, and another user's json.py in it
    # would be imported. So the package is loaded from its file, with neither folder on sys.path.
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != folder]
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("pollkit", os.path.join(folder, "__init__.py"))
    assert spec is not None and spec.loader is not None
    sys.modules["pollkit"] = package = module_from_spec(spec)
    spec.loader.exec_module(package)

from pollkit.cli import main

sys.exit(main())
