"""The profile that the options describe: the named one, changed by the other options."""

import argparse
import os
import re
from typing import Any, Dict, List, Optional

from ..core.profile import Profile, fill_base, validate_profile
from ..core.units import NEVER
from ..errors import ConfigError

# Options that change the profile of --profile and no other.
_ONE_PROFILE_ONLY = (
    "base_url",
    "limit",
    "token_env",
    "token_file",
    "ca_file",
    "client_cert",
    "client_key",
    "proxy",
    "transport",
)
# Options that replace the field of the same name.
_REPLACING = (
    "pace",
    "limit",
    "max_faults",
    "ca_file",
    "client_cert",
    "client_key",
    "proxy",
    "transport",
)


def profile_from(arguments: argparse.Namespace, needs_credential: bool = True) -> Profile:
    """The profile that the options describe, checked."""
    if needs_credential and arguments.token_env is not None:
        _check_is_set(arguments.token_env)
    profile = named_profile(arguments)
    if arguments.base_url is not None:
        _check_has_base(profile)
    if arguments.client_key is not None and not (arguments.client_cert or profile.client_cert):
        raise ConfigError("--client-key needs its certificate: give --client-cert, too")
    if arguments.base_url is not None or profile.base is not None:
        profile = fill_base(profile, arguments.base_url)
    changes = {name: getattr(arguments, name) for name in _REPLACING}
    changes = {name: value for name, value in changes.items() if value is not None}
    if arguments.timeout is not None:
        changes["timeout"] = None if arguments.timeout == NEVER else arguments.timeout
    return validate_profile(_change(profile, changes, _credential_source(arguments)))


def named_profile(arguments: argparse.Namespace) -> Profile:
    """The profile of --profile, unchanged; without --profile, one with only the defaults."""
    if arguments.profile is None and arguments.profiles is None:
        return Profile()
    from ..edges.profiles.catalog import find_profile, profile_names  # late: reads INI files

    if arguments.profile is not None:
        return find_profile(arguments.profile, arguments.profiles)
    profile_names(arguments.profiles)  # raises ConfigError if the file can't be read
    return Profile()


def options_for_one_profile(arguments: argparse.Namespace) -> List[str]:
    """The given options that change the profile of --profile and no other."""
    return [
        "--" + name.replace("_", "-")
        for name in _ONE_PROFILE_ONLY
        if getattr(arguments, name, None) is not None
    ]


def _change(profile: Profile, changes: Dict[str, Any], source: Optional[str]) -> Profile:
    """Change the profile and its labels; `source` replaces that of the credential."""
    if source is not None:
        changes = dict(changes, auth=_auth(profile.auth, source))
    labels = {name: _change(one, changes, source) for name, one in profile.labels.items()}
    return profile._replace(labels=labels, **changes)


def _credential_source(arguments: argparse.Namespace) -> Optional[str]:
    if arguments.token_env is not None and arguments.token_file is not None:
        raise ConfigError("--token-env and --token-file both name the credential: give one")
    if arguments.token_env is not None:
        return "env:" + str(arguments.token_env)
    if arguments.token_file is not None:
        return "file:" + str(arguments.token_file)
    return None


def _auth(auth: Optional[str], source: str) -> str:
    """Replace the source of the credential; without `auth`, send it as a bearer token."""
    words = (auth or "bearer").split()
    kind = words[0].lower()
    if kind == "header":
        return " ".join(words[:2] + [source])
    return "%s %s" % ("bearer" if kind == "bearer" else "basic", source)


def _check_is_set(variable: str) -> None:
    # The name is shown only if it can't be the credential itself, given by mistake.
    shown = " " + variable if re.fullmatch("[A-Z][A-Z_]{0,39}", variable) else ""
    if not os.environ.get(variable, "").strip():
        raise ConfigError(
            "--token-env: the environment variable%s is not set, or empty: export it first" % shown
        )


def _check_has_base(profile: Profile) -> None:
    if profile.name is None:
        raise ConfigError(
            "--base-url replaces {base} in a profile's URLs: give --profile NAME, too"
        )
    urls = ["%s %s" % (one.url, one.batch_url) for one in [profile, *profile.labels.values()]]
    if "{base}" not in " ".join(urls):
        raise ConfigError(
            "the URL of the profile %s has no {base}: --base-url would change nothing"
            % profile.name
        )
