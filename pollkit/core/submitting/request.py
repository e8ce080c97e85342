"""The request that submits a job: its URL and body, filled in with the user's JSON and the key."""

import json
import re
from typing import Any, Dict, Mapping, Optional

from ...errors import ConfigError
from ..profiles.bodies import is_json, json_text
from ..profiles.profile import Profile
from ..urls import fill_template, percent_encode

LARGEST_BODY = 10 << 20  # bytes
_NAMES = re.compile(r"\{(json|key|label)\}")
_FORM = r"[\w.%+-]+="  # begins a form such as a=b&c=d


def data_to_text(data: Any) -> Optional[str]:
    """Data as JSON; None stays None. A ConfigError if it can't be JSON."""
    if data is None:
        return None
    try:
        return json.dumps(data, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError("json can't be encoded: %s" % error) from None


def fill_submit_url(template: str, key: str, label: Optional[str]) -> str:
    """A URL with {key} and {label} filled in."""
    return fill_template(template, **_values(key, label))


def fill_submit_body(profile: Profile, text: Optional[str], label: Optional[str], key: str) -> str:
    """The body of the request; a ConfigError if it lacks JSON or a label, or takes no JSON.

    `text` is the user's JSON; None for none.

    >>> mine = Profile(submit_body='{"input": {json}, "token": "{key}"}')
    >>> fill_submit_body(mine, '{"pages": 3}', None, "k1")
    '{"input": {"pages": 3}, "token": "k1"}'
    """
    template = profile.submit_body
    if template is None:
        body = text or ""
    else:
        if text is not None and "{json}" not in template:
            raise ConfigError("submit_body of the profile has no {json}, so it takes no JSON")
        if text is None and "{json}" in template:
            raise ConfigError("submit_body of the profile needs JSON in place of {json}: give some")
        body = fill_names(template, dict(_values(key, label), json=text or ""))
    if len(body.encode("utf-8")) > LARGEST_BODY:
        raise ConfigError("the body is larger than %d MB" % (LARGEST_BODY >> 20))
    return body


def fill_names(template: str, values: Mapping[str, str]) -> str:
    """A body with its {names} filled in; {json} as it is unless the body is a form."""
    is_in_form = re.match(_FORM, template) is not None

    def encode_value(match: "re.Match[str]") -> str:
        name = match.group(1)
        if name not in values:
            raise ConfigError("submit_body: no value for {%s}: give --label" % name)
        if name == "json" and not is_in_form:
            return values[name]
        is_in_json = is_json(template)
        return json_text(values[name])[1:-1] if is_in_json else percent_encode(values[name])

    return _NAMES.sub(encode_value, template)


def _values(key: str, label: Optional[str]) -> Dict[str, str]:
    values = {"key": key}
    if label is not None:
        values["label"] = label
    return values
