"""pollkit waits for asynchronous jobs over HTTP, from hosts where nothing may be installed.

    result = pollkit.wait("https://api.internal/v1/jobs/42")

Public names are imported when they are first used, so that a script that cron starts every
minute imports only the parts that it needs.
"""

import sys
import types
from typing import TYPE_CHECKING, Any, List

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import adapters as adapters
    from .core.events import Event as Event
    from .core.model import Fault as Fault
    from .core.model import Job as Job
    from .core.model import Outcome as Outcome
    from .core.model import Reply as Reply
    from .core.model import State as State
    from .core.profiles.profile import Profile as Profile
    from .core.waiting.pace import Adaptive as Adaptive
    from .core.waiting.pace import Backoff as Backoff
    from .core.waiting.pace import Fixed as Fixed
    from .drivers.batch import BatchPoller as BatchPoller
    from .drivers.ledger.runner import LedgerRunner as LedgerRunner
    from .drivers.simulation.simulation import Simulation as Simulation
    from .drivers.single import Poller as Poller
    from .drivers.single import wait as wait
    from .drivers.submission import submit as submit
    from .edges.history_file import History as History
    from .edges.ledger.ledger import Ledger as Ledger
    from .edges.limits.shared_bucket import SharedBucket as SharedBucket
    from .edges.limits.token_bucket import TokenBucket as TokenBucket
    from .errors import ConfigError as ConfigError
    from .errors import JobError as JobError
    from .errors import JobFailed as JobFailed
    from .errors import JobTimedOut as JobTimedOut
    from .errors import JobUnreachable as JobUnreachable
    from .errors import LedgerError as LedgerError
    from .errors import PollkitError as PollkitError

_MODULES = {
    "wait": "drivers.single",
    "submit": "drivers.submission",
    "Poller": "drivers.single",
    "BatchPoller": "drivers.batch",
    "Ledger": "edges.ledger.ledger",
    "LedgerRunner": "drivers.ledger.runner",
    "Simulation": "drivers.simulation.simulation",
    "Job": "core.model",
    "Profile": "core.profiles.profile",
    "Outcome": "core.model",
    "State": "core.model",
    "Event": "core.events",
    "Reply": "core.model",
    "Fault": "core.model",
    "Fixed": "core.waiting.pace",
    "Backoff": "core.waiting.pace",
    "Adaptive": "core.waiting.pace",
    "TokenBucket": "edges.limits.token_bucket",
    "SharedBucket": "edges.limits.shared_bucket",
    "History": "edges.history_file",
    "PollkitError": "errors",
    "ConfigError": "errors",
    "JobError": "errors",
    "JobFailed": "errors",
    "JobTimedOut": "errors",
    "JobUnreachable": "errors",
    "LedgerError": "errors",
    "adapters": "adapters",
}
__all__ = sorted(_MODULES)


class _LazyModule(types.ModuleType):
    """Imports public names on first use: Python 3.6 has no module-level __getattr__."""

    def __getattr__(self, name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError("module 'pollkit' has no attribute %r" % name)
        module = "pollkit." + _MODULES[name]
        __import__(module)
        if _MODULES[name] == name:
            return sys.modules[module]
        value = getattr(sys.modules[module], name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> List[str]:
        return sorted(set(super().__dir__()) | set(_MODULES))


sys.modules[__name__].__class__ = _LazyModule
