"""The keys of a profile that are URLs with placeholders."""

import re
from typing import Callable

from ...core.reading.fields.json_paths import parse_single_path
from ...core.urls import PLACEHOLDER, REPEATED_IDS, is_link_template, parse_url
from ...errors import ConfigError


def url_parser(*placeholders: str) -> Callable[[str], str]:
    """A parser for a URL with some placeholders."""

    def parse(text: str) -> str:
        for name in re.findall(PLACEHOLDER, text):
            if name not in placeholders:
                known = ", ".join("{%s}" % known for known in placeholders)
                raise ConfigError("has an unknown placeholder {%s}: use %s" % (name, known))
        url = text
        if text.startswith("{base}"):
            url = text.replace("{base}", "https://base", 1)
        has_inner_base = "{base}" in url
        if "ids" in placeholders:
            url = re.sub(REPEATED_IDS, "x", url)
        url = re.sub(PLACEHOLDER, "x", url)
        if has_inner_base or set(url) & set("{} "):
            raise ConfigError(
                "is not a URL: it has a space, an unmatched brace, or {base} not at its start"
            )
        parse_url(url)
        return text

    return parse


def parse_result_url(text: str) -> str:
    """A URL template, or the path of a link in the reply."""
    return _parse_url_of_job(text) if is_link_template(text) else parse_single_path(text).text


def parse_cancel_url(text: str) -> str:
    """A URL template."""
    if not is_link_template(text):
        raise ConfigError("must be a URL, such as {base}/jobs/{id}/cancel, or a path from /")
    return _parse_url_of_job(text)


def _parse_url_of_job(text: str) -> str:
    """A URL template of a job, which may begin with the path: the origin is that of the job."""
    prefix = "https://base" if text.startswith("/") else ""
    url_parser("id", "label", "base")(prefix + text)
    return text
