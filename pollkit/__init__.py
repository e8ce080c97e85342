"""pollkit waits for asynchronous jobs over HTTP, from hosts where nothing may be installed.

    result = pollkit.wait("https://api.internal/v1/jobs/42")

Public names are loaded when first used, so that a script that needs one of them, started by
cron every minute, does not pay for the others.
"""

import sys
import types
from typing import TYPE_CHECKING, Any, List

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .core.model import Fault as Fault
    from .core.model import Job as Job
    from .core.model import Outcome as Outcome
    from .core.model import Reply as Reply
    from .core.pace import Adaptive as Adaptive
    from .core.pace import Backoff as Backoff
    from .core.pace import Fixed as Fixed
    from .core.profile import Profile as Profile
    from .drivers.batch import BatchPoller as BatchPoller
    from .drivers.simulation.simulation import Simulation as Simulation
    from .drivers.single import Poller as Poller
    from .drivers.single import wait as wait
    from .edges.ledger.ledger import Ledger as Ledger
    from .edges.limits.shared_bucket import SharedBucket as SharedBucket
    from .edges.limits.token_bucket import TokenBucket as TokenBucket
    from .errors import ConfigError as ConfigError
    from .errors import JobFailed as JobFailed
    from .errors import JobTimedOut as JobTimedOut
    from .errors import JobUnreachable as JobUnreachable
    from .errors import LedgerError as LedgerError
    from .errors import PollkitError as PollkitError

_HOMES = {
    "wait": "drivers.single",
    "Poller": "drivers.single",
    "BatchPoller": "drivers.batch",
    "Simulation": "drivers.simulation.simulation",
    "Job": "core.model",
    "Reply": "core.model",
    "Fault": "core.model",
    "Outcome": "core.model",
    "Profile": "core.profile",
    "Fixed": "core.pace",
    "Backoff": "core.pace",
    "Adaptive": "core.pace",
    "TokenBucket": "edges.limits.token_bucket",
    "SharedBucket": "edges.limits.shared_bucket",
    "Ledger": "edges.ledger.ledger",
    "PollkitError": "errors",
    "ConfigError": "errors",
    "JobFailed": "errors",
    "JobTimedOut": "errors",
    "JobUnreachable": "errors",
    "LedgerError": "errors",
}
__all__ = sorted(_HOMES)


class _Lazy(types.ModuleType):
    """What a module-level __getattr__ does from Python 3.7 on; 3.6 needs a class for it."""

    def __getattr__(self, name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError("module 'pollkit' has no attribute %r" % name)
        __import__("pollkit." + home)
        value = getattr(sys.modules["pollkit." + home], name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> List[str]:
        return sorted(set(super().__dir__()) | set(_HOMES))


sys.modules[__name__].__class__ = _Lazy
