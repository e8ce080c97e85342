"""Read a list of jobs: its items by id, and the link to its next page."""

import re
from typing import Any, Dict, Optional, Tuple

from ..model import Reply
from ..profiles.profile import Profile
from ..urls import join_url, percent_encode
from .fields import conventions
from .fields.job_fields import paths_for
from .fields.json_paths import Path, split_next_page
from .json_decoding import JsonTooCostly, decode_json, try_decode_json
from .middleboxes import describe_page, is_page
from .verdict import Verdict

LONGEST_TOKEN = 2000  # characters of a page token
UNUSABLE_LINK = ""  # in place of the URL of a page, if the link to it can't be used
# Compiled when they are first used: few replies are lists with links.
_LINK = "<([^<>]*)>([^<]*)"  # RFC 8288, 3: a target and its parameters
_REL = r';\s*rel\s*=\s*"?([^";,]*)'
_ABSENT = {"done": Verdict.DONE, "failed": Verdict.FAILED}


class NextPage:
    """Finds the URL of the next page: `text` is that of `batch_next` or `result_next`."""

    __slots__ = ("_path", "_parameter")

    def __init__(self, text: str) -> None:
        # The path is None for the header Link. The parameter of the URL takes the token of a page;
        # '' if pages have links.
        self._path, self._parameter = split_next_page(text)

    def url(self, page: Reply, first_url: str) -> Optional[str]:
        """The URL of the next page; None if this is the last one, or UNUSABLE_LINK."""
        if self._path is None:
            value: Any = next_link(page.headers.get("link", ""))
            encoding = "latin-1"
        else:
            value = self._path.find(try_decode_json(page.body))
            encoding = "utf-8"
        is_last = value is None or value is False or value == ""
        if is_last:
            return None
        is_number = isinstance(value, int) and not isinstance(value, bool)
        is_text = isinstance(value, str) and len(value) <= LONGEST_TOKEN
        if not is_number and not is_text:
            return UNUSABLE_LINK
        text = str(value)
        if not self._parameter:
            return join_url(page.url, text, encoding) or UNUSABLE_LINK
        separator = "&" if "?" in first_url else "?"
        return "%s%s%s=%s" % (first_url, separator, self._parameter, percent_encode(text))


def next_link(header: str) -> Optional[str]:
    """The target with the relation `next` in a Link header (RFC 8288); None if there is none.

    >>> next_link('</jobs?page=1>; rel="first", </jobs?page=3>; rel="next"')
    '/jobs?page=3'
    """
    for target, parameters in re.findall(_LINK, header):
        relation = re.search(_REL, parameters, re.IGNORECASE)
        if relation is not None and "next" in relation.group(1).lower().split():
            return str(target)
    return None


class ListReader:
    """Reads the lists of the API that a profile describes."""

    __slots__ = ("_items", "_item_id", "_next", "_no_list", "absent")

    def __init__(self, profile: Profile) -> None:
        self._items = paths_for(profile.batch_items, conventions.BATCH_ITEMS_PATHS)
        self._item_id = Path(profile.batch_id)
        self._next = None if profile.batch_next is None else NextPage(profile.batch_next)
        self._no_list = "no list of jobs in the reply: set batch_items = PATH"
        if profile.batch_items is not None:
            self._no_list = "no list of jobs at %s in the reply: correct batch_items" % (
                profile.batch_items
            )
        self.absent = _ABSENT.get(profile.batch_absent, Verdict.PENDING)

    def find_items(self, page: Reply) -> Tuple[Optional[Dict[str, Any]], str]:
        """The jobs of a page by id; None and the reason if there is no list of jobs."""
        try:
            data = decode_json(page.body)
        except JsonTooCostly as error:
            return None, str(error)
        except ValueError:
            if is_page(page):
                return None, describe_page(page)
            data = None
        places = [data] if isinstance(data, list) else [path.find(data) for path in self._items]
        for found in places:
            if isinstance(found, dict):
                return found, ""
            if isinstance(found, list):
                ids = [self._item_id.find(item) for item in found]
                return {str(key): item for key, item in zip(ids, found) if key is not None}, ""
        return None, self._no_list

    def next_page_url(self, page: Reply, first_url: str) -> Optional[str]:
        """The URL of the next page; None if this is the last one, or UNUSABLE_LINK."""
        return None if self._next is None else self._next.url(page, first_url)
