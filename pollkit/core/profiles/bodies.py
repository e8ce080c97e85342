"""Request bodies with placeholders: {id}, {label} and {ids}; {hold} and others if polls are held.

House rules: only these names in braces are replaced, because JSON has braces, too. In JSON, a
value is escaped and {ids} becomes a list; in any other body, which is a form, values are
percent-encoded and {ids} has commas between them.
"""

import re
from typing import Dict, Mapping, Sequence

from ...errors import ConfigError
from ..model import Job
from ..urls import fill_ids, percent_encode

_NAMES = r"\{(id|label|hold|hold_ms|index)\}"  # compiled when a body first needs it
_JOB_NAMES = ("id", "label")


def job_values(job: Job) -> Dict[str, str]:
    """The values of {id} and {label}, in a body or in a URL template."""
    values = {"id": job.id}
    if job.label is not None:
        values["label"] = job.label
    return values


def has_id(body: str) -> bool:
    """Whether a body names the job."""
    return "{id}" in body


def has_placeholder(body: str) -> bool:
    """Whether `fill_body` changes a body."""
    return "{" in body and re.search(_NAMES, body) is not None


def fill_body(body: str, values: Mapping[str, str]) -> str:
    """A body with its placeholders filled in; a ConfigError if a job has no label.

    >>> fill_body('{"JobId": "{id}"}', {"id": 'a"b'})
    '{"JobId": "a\\\\"b"}'
    """

    def encode_value(match: "re.Match[str]") -> str:
        name = match.group(1)
        if name not in values:
            if name not in _JOB_NAMES:  # these polls are not held
                return match.group()
            raise ConfigError("body: no value for {%s}: the job needs a label (--label)" % name)
        return json_text(values[name])[1:-1] if is_json(body) else percent_encode(values[name])

    return re.sub(_NAMES, encode_value, body)


def fill_batch_body(body: str, ids: Sequence[str]) -> str:
    """A body with {ids} filled in.

    >>> fill_batch_body('{"jobIds": {ids}}', ["a", "b"])
    '{"jobIds": ["a", "b"]}'
    >>> fill_batch_body("{id=ids}&all=1", ["a", "b"])
    'id=a&id=b&all=1'
    """
    if is_json(body):
        return body.replace("{ids}", "[%s]" % ", ".join(map(json_text, ids)))
    return fill_ids(body, ids)


def is_json(body: str) -> bool:
    """Whether a body is JSON once its placeholders are filled in; otherwise it is a form."""
    text = body.lstrip()
    return text[:1] == "[" or (text[:1] == "{" and not re.match(r"\{[\w.%\[\]-]*(=ids)?\}", text))


def json_text(value: str) -> str:
    """A text as JSON, in quotes."""
    import json  # late: most profiles have no body

    return json.dumps(value)
