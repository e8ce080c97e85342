"""Imports pollkit from pollkit.pyz, in which this file is pollkit/__init__.py.

The modules are compressed together, in one file of the archive, because that takes a quarter less
space than one file per module. That file begins with a line "SIZE NAME" for each module or other
file, and an empty line. Their contents follow, in the same order.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Dict, Optional

CONTENTS = "contents"  # the name of the file in the archive


class Contents:
    """Finds and loads modules: a finder and loader of importlib."""

    def __init__(self, archive: str, data: bytes) -> None:
        self._archive = archive
        self.files: Dict[str, bytes] = {}
        index, _, contents = data.partition(b"\n\n")
        start = 0
        for line in index.decode("ascii").split("\n"):
            size, name = line.split(" ", 1)
            end = start + int(size)
            self.files[name] = contents[start:end]
            start = end

    def find_spec(self, module: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """The specification of a module; None if it is not in the archive."""
        name = module.replace(".", "/")
        is_package = name + "/__init__.py" in self.files
        name += "/__init__.py" if is_package else ".py"
        if name not in self.files:
            return None
        origin = os.path.join(self._archive, *name.split("/"))
        loader: Any = self
        spec = ModuleSpec(module, loader, origin=origin, is_package=is_package)
        spec.has_location = True  # the module gets a __file__
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(origin)]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module as usual."""

    def exec_module(self, module: ModuleType) -> None:
        path = module.__file__ or ""
        exec(compile(self.get_data(path), path, "exec", dont_inherit=True), module.__dict__)

    def get_data(self, path: str) -> bytes:
        """The content of a file, by its path below that of the archive."""
        name = path[len(self._archive) + 1 :].replace(os.sep, "/")
        try:
            return self.files[name]
        except KeyError:
            raise FileNotFoundError(path) from None

    def get_source(self, module: str) -> str:
        """The source of a module; tracebacks show lines of it."""
        spec = self.find_spec(module)
        if spec is None or spec.origin is None:
            raise ImportError(module)
        return self.get_data(spec.origin).decode("utf-8")


def install(zip_loader: Any) -> None:
    """Import pollkit again, with its modules from the archive of this loader."""
    archive = zip_loader.archive
    data = zip_loader.get_data(os.path.join(archive, CONTENTS))
    finder: Any = Contents(archive, data)
    sys.meta_path.insert(0, finder)
    del sys.modules["pollkit"]
    __import__("pollkit")


if __name__ == "pollkit":
    install(globals()["__loader__"])
