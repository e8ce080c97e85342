"""The profile that the options describe: the named one, changed by the other options."""

import argparse
import os
import re
from typing import Any, Dict, List, Optional

from ...core.profiles.profile import Profile, fill_base, needs_base, validate_profile
from ...core.units import NEVER
from ...errors import ConfigError

# Options that describe the connection, besides --header.
_CONNECTION = (
    "token_env",
    "token_file",
    "auth",
    "ca_file",
    "client_cert",
    "client_key",
    "proxy",
    "transport",
)
_CREDENTIAL = _CONNECTION[:3]  # only one of them can be given
# Options that change the profile of --profile and no other.
_ONE_PROFILE_ONLY = ("base_url", "limit") + _CONNECTION
# Options that replace the field of the same name.
_REPLACING = ("pace", "limit", "max_faults") + _CONNECTION[2:]


def profile_from(arguments: argparse.Namespace, needs_credential: bool = True) -> Profile:
    """The profile that the options describe, checked."""
    if needs_credential:
        _check_variable(arguments)
    profile = named_profile(arguments)
    if arguments.base_url is not None:
        _check_has_base(profile)
    _check_client_key(arguments, profile)
    if arguments.base_url is not None or profile.base is not None:
        profile = fill_base(profile, arguments.base_url)
    changes = {name: getattr(arguments, name) for name in _REPLACING}
    changes = {name: value for name, value in changes.items() if value is not None}
    if arguments.timeout is not None:
        changes["timeout"] = None if arguments.timeout == NEVER else arguments.timeout
    return validate_profile(_change(profile, changes, _credential_source(arguments)))


def connection_profile(arguments: argparse.Namespace) -> Profile:
    """A profile with only the settings of the connection; paths of files in it are absolute."""
    from ...edges.profiles.keys import read_key  # late: only profiles suggest needs it

    _check_variable(arguments)
    _check_client_key(arguments, Profile())
    source = _credential_source(arguments)
    auth = arguments.auth if source is None else _auth(None, source)
    texts = {name: getattr(arguments, name) for name in _CONNECTION[3:]}
    texts["auth"] = auth
    folder = os.getcwd()
    fields = {
        name: read_key(name, text, folder) for name, text in texts.items() if text is not None
    }
    return validate_profile(Profile(**fields))


def given_connection_options(arguments: argparse.Namespace) -> List[str]:
    """The flags of the connection that were given."""
    names = [name for name in ("header",) + _CONNECTION if getattr(arguments, name)]
    return ["--" + name.replace("_", "-") for name in names]


def named_profile(arguments: argparse.Namespace) -> Profile:
    """The profile of --profile, unchanged; without --profile, one with only the defaults."""
    if arguments.profile is None and arguments.profiles is None:
        return Profile()
    from ...edges.profiles.catalog import find_profile, profile_names  # late: reads INI files

    if arguments.profile is not None:
        try:
            return find_profile(arguments.profile, arguments.profiles)
        except ConfigError as error:
            if "profile" not in arguments.variables:
                raise
            raise ConfigError("%s: %s" % (arguments.variables["profile"], error)) from None
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
    """The source of --token-env or --token-file, which keeps the profile's scheme."""
    given = [name for name in _CREDENTIAL if getattr(arguments, name) is not None]
    if len(given) > 1:
        flags = " and ".join("--" + name.replace("_", "-") for name in given[:2])
        raise ConfigError("%s both name the credential: give one" % flags)
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


def _check_variable(arguments: argparse.Namespace) -> None:
    """Raise a ConfigError if the options name an environment variable that is not set."""
    flag = "--token-env"
    variable: Optional[str] = arguments.token_env
    if variable is None and arguments.auth is not None:
        from ...edges.credentials import credential_variable  # late: many waits need none

        flag = "--auth"
        variable = credential_variable(arguments.auth)
    if variable is None or os.environ.get(variable, "").strip():
        return
    # The name is shown only if it can't be the credential itself, given by mistake.
    shown = " " + variable if re.fullmatch("[A-Z][A-Z_]{0,39}", variable) else ""
    raise ConfigError(
        "%s: the environment variable%s is not set, or empty: export it first" % (flag, shown)
    )


def _check_client_key(arguments: argparse.Namespace, profile: Profile) -> None:
    if arguments.client_key is not None and not (arguments.client_cert or profile.client_cert):
        raise ConfigError("--client-key needs its certificate: give --client-cert, too")


def _check_has_base(profile: Profile) -> None:
    if profile.name is None:
        raise ConfigError(
            "--base-url replaces {base} in a profile's URLs: give --profile NAME, too"
        )
    if not any(map(needs_base, [profile, *profile.labels.values()])):
        raise ConfigError(
            "the URL of the profile %s has no {base}: --base-url would change nothing"
            % profile.name
        )
