"""Checks of the keys of a profile for results and for cancelling."""

from typing import TYPE_CHECKING

from ...errors import ConfigError
from ..reading.fields.json_paths import parse_single_path, split_next_page
from ..urls import is_link_template

if TYPE_CHECKING:
    from .profile import Profile

ON_TIMEOUT = ("stop", "cancel")  # the values of on_timeout


def check_result_and_cancel(profile: "Profile") -> None:
    """Raise a ConfigError if one of these keys makes no sense."""
    for next_page in (profile.batch_next, profile.result_next):
        if next_page is not None:
            split_next_page(next_page)
    if profile.result_url is not None and not is_link_template(profile.result_url):
        parse_single_path(profile.result_url)
    if profile.cancel_url is not None and not is_link_template(profile.cancel_url):
        raise ConfigError("cancel_url must be a URL, such as {base}/jobs/{id}/cancel")
    if profile.on_timeout == "cancel" and profile.cancel_url is None:
        raise ConfigError("on_timeout = cancel needs cancel_url")
