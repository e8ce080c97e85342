"""The environment variables that programs of --exec do not inherit: those with credentials."""

from typing import Iterable, Optional, Set

from ...core.profiles.profile import Profile
from ...errors import ConfigError
from ..credentials import credential_variable
from ..ledger.records import Notification
from ..profiles.catalog import find_profile


class CredentialVariables:
    """The environment variables from which the profiles in use read their credentials.

    `profile` is the one of the run, with its flags; `names` are the profiles of the jobs in the
    ledger. `others` are more variables that hold secrets. Programs inherit the variables in `kept`
    in any case.
    """

    def __init__(
        self,
        profile: Profile,
        names: Iterable[Optional[str]],
        profiles: Optional[str],
        kept: Iterable[str],
        others: Iterable[str] = (),
    ) -> None:
        self._profiles = profiles
        self._kept = set(kept)
        self._known: Set[str] = set()
        self._variables = _variables_of(profile).union(others)
        # The run's own profile, too: --token-env may have replaced its auth.
        for name in (profile.name, *names):
            self._add(name)

    def hidden_for(self, notification: Notification) -> Set[str]:
        """The variables that a program run for this job does not inherit."""
        self._add(notification.outcome.get("profile"))  # the job may have been added since
        return self._variables - self._kept

    def _add(self, name: Optional[str]) -> None:
        if name is None or name in self._known:
            return
        self._known.add(name)
        try:
            found = _variables_of(find_profile(name, self._profiles))
        except ConfigError:  # the profile was removed: its jobs are not polled, either
            return
        # A new set: another thread may be reading the old one.
        self._variables = self._variables | found


def _variables_of(profile: Profile) -> Set[str]:
    variables: Set[str] = set()
    for each in (profile, *profile.labels.values()):
        name = None if each.auth is None else credential_variable(each.auth)
        if name is not None:
            variables.add(name)
    return variables
