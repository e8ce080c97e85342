"""What a program of --exec inherits: the environment, without the credentials in it."""

from typing import Iterable, Optional, Set

from ...core.profile import Profile
from ...errors import ConfigError
from ..credentials import credential_variable
from ..ledger.statistics import Notification
from ..profiles.catalog import find_profile


class CredentialVariables:
    """The environment variables that the profiles in use read their credentials from.

    `profile` is the one of the run, with its flags; `names` are those of the jobs in the ledger.
    `kept` are variables that programs get all the same.
    """

    def __init__(
        self,
        profile: Profile,
        names: Iterable[Optional[str]],
        profiles: Optional[str],
        kept: Iterable[str],
    ) -> None:
        self._profiles = profiles
        self._kept = set(kept)
        self._known: Set[Optional[str]] = {None}
        self._found = _variables_of(profile)
        for name in (profile.name, *names):  # its own, too: --token-env may have replaced its auth
            self._add(name)

    def hidden_for(self, telling: Notification) -> Set[str]:
        """The variables that a program run for this job does not get."""
        self._add(telling.outcome.get("profile"))  # it may have been added since
        return self._found - self._kept

    def _add(self, name: Optional[str]) -> None:
        if name is None or name in self._known:
            return
        self._known.add(name)
        try:
            found = _variables_of(find_profile(name, self._profiles))
        except ConfigError:  # there is no such profile any more: its jobs are not polled, either
            return
        self._found = self._found | found  # a new set: another thread may be reading the old one


def _variables_of(profile: Profile) -> Set[str]:
    found: Set[str] = set()
    for one in (profile, *profile.labels.values()):
        name = None if one.auth is None else credential_variable(one.auth)
        if name is not None:
            found.add(name)
    return found
