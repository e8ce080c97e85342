"""SavePath: the files in which results are saved (`--save`)."""

import json
import os
import re
from typing import Any, List

from ...core.file_names import file_name
from ...core.urls import PLACEHOLDER
from ...errors import ConfigError
from ..files import check_links, is_special_file
from ..ledger.places import belongs_to_ledger
from .result_file import LEDGER, SPECIAL_FILE, ResultFile

_ID = "{id}"


class SavePath:
    """A path with {id} in the name of the file: each job gets its own file.

    Without {id}, the path is for one job only (`is_for_one`).
    """

    def __init__(self, template: Any, is_for_one: bool = False) -> None:
        if not isinstance(template, (str, os.PathLike)) or not os.fspath(template):
            raise ConfigError("save must be a path such as 'results/{id}.json', not %r" % template)
        text = os.path.abspath(os.path.expanduser(os.fspath(template)))
        self._folder, self._name = os.path.split(text)
        unknown = [name for name in re.findall(PLACEHOLDER, text) if name != "id"]
        if unknown:
            raise ConfigError(
                "can't save results to %s: {%s} is unknown, use {id}" % (text, unknown[0])
            )
        if _ID in self._folder:
            raise ConfigError(
                "can't save results to %s: write {id} in the name of the file only" % text
            )
        if _ID not in self._name and not is_for_one:
            raise ConfigError(
                "can't save the results of several jobs to %s: write {id} in the name of the file, "
                "as in results/{id}.json" % text
            )
        self._check()

    def _check(self) -> None:
        """Raise a ConfigError if no file can be written there."""
        folder = self._folder
        if not os.path.isdir(folder):
            raise ConfigError(
                "can't save results: there is no directory %s: create it, or name another" % folder
            )
        try:
            check_links(os.path.join(folder, self._name))
        except OSError as error:
            raise ConfigError("can't save results to %s: %s" % (folder, error.strerror)) from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError("can't save results: this user may not write to %s" % folder)
        path = os.path.join(folder, self._name)
        if _ID not in self._name and os.path.isdir(path):
            raise ConfigError(
                "can't save results to %s, a directory: name a file in it, such as {id}.json" % path
            )
        if _ID in self._name:
            return
        if is_special_file(path):
            raise ConfigError("can't save results to %s: %s" % (path, SPECIAL_FILE))
        if belongs_to_ledger(path):
            raise ConfigError("can't save results to %s: %s" % (path, LEDGER))

    @property
    def can_be_html(self) -> bool:
        """Whether results may be HTML pages, by the name of the file."""
        return self._name.lower().endswith((".html", ".htm"))

    def file_for(self, job_id: str) -> ResultFile:
        """The file for a job's result; use it in a `with` block."""
        name = self._name.replace(_ID, file_name(job_id))
        return ResultFile(os.path.join(self._folder, name))

    def write(self, job_id: str, result: Any) -> str:
        """Save a result as JSON, text as it is; the path. A ResultFileError if that fails."""
        text = result if isinstance(result, str) else json.dumps(result) + "\n"
        with self.file_for(job_id) as file:
            file.begin()
            file.write(text.encode("utf-8", "surrogatepass"))
            return file.finish()


class JsonList:
    """Writes a JSON list to a file, part by part."""

    def __init__(self, file: ResultFile) -> None:
        self._file = file
        self._is_empty = True
        file.begin()

    def extend(self, values: List[Any]) -> None:
        """Append values."""
        for value in values:
            start = b"[" if self._is_empty else b",\n"
            self._is_empty = False
            self._file.write(start + json.dumps(value).encode("ascii"))

    def finish(self) -> str:
        """End the list, and give the file its name; the path."""
        self._file.write(b"[]\n" if self._is_empty else b"]\n")
        return self._file.finish()
