"""Client: the profiles, transports, endpoints and duration history of one driver."""

import enum
import os
import random
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from ...core.learning.completions import observed_duration
from ...core.learning.durations import Durations
from ...core.model import Job, Outcome
from ...core.profiles.origins import credential_origins, origin_text
from ...core.profiles.profile import Profile, fill_base, profile_for_job, validate_profile
from ...core.units import NEVER, Limit, to_seconds
from ...core.urls import Address, fill_ids, parse_url
from ...core.waiting.pace import Adaptive, Pace
from ...core.waiting.wait_settings import DEFAULTS, Defaults, WaitSettings
from ...core.waiting.wait_state import WaitState
from ...edges.clock import Clock
from ...edges.history_file import History, Kind
from ...edges.http.transport import Transport
from ...edges.http.user_headers import validate_headers
from ...edges.limits.token_bucket import TokenBucket
from ...errors import ConfigError
from ..publisher import OnEvent, Publisher
from .endpoint import Endpoint, Target, job_url

if TYPE_CHECKING:
    from ...edges.http.adapters.interface import Adapter
    from ...edges.results.save_path import SavePath

# Profiles that agree in these fields share a transport, and so its connections.
_CONNECTION_FIELDS = (
    "method",
    "body",
    "auth",
    "request_timeout",
    "ca_file",
    "client_cert",
    "client_key",
    "proxy",
    "transport",
    "tls_strict",
    "redirects",
)


class Default(enum.Enum):
    """Stands for 'as the profile says' in parameters where None has another meaning."""

    AS_PROFILE = "as the profile says"


Timeout = Union[float, str, None, Default]
SharedBucketFor = Callable[[Union[Limit, str, None], str], TokenBucket]


class Profiles:
    """The profiles of one client; `file` is an INI file that is searched besides the usual ones.

    `overrides` are fields that replace those of every profile. No request may take longer than
    `longest_request_s`.
    """

    def __init__(
        self,
        default: Union[Profile, str, None],
        file: Optional[str],
        overrides: Mapping[str, Any],
        longest_request_s: float,
    ) -> None:
        self._file = file
        self._overrides = overrides
        self._longest_request_s = longest_request_s
        self._by_name: Dict[str, Profile] = {}
        self._by_label: Dict[Tuple[Optional[str], Optional[str]], Profile] = {}
        if isinstance(default, str):
            default = self.named(default)
        self.default = validate_profile(Profile() if default is None else default)
        if self.default.name is not None:
            # A job that names it gets this one, which the caller may have changed.
            self._by_name[self.default.name] = self.default

    def named(self, name: Optional[str]) -> Profile:
        """The profile of that name, without overrides; the default if there is no name."""
        if name is None:
            return self.default
        if name not in self._by_name:
            from ...edges.profiles.catalog import find_profile  # late: not needed without a name

            self._by_name[name] = validate_profile(find_profile(name, self._file))
        return self._by_name[name]

    def for_job(self, job: Job) -> Profile:
        """The profile of a job, for its label or size, with the overrides."""
        profile = profile_for_job(self.named(job.profile), job.label, job.size)
        key = (job.profile, job.label or profile.label)
        settled = self._by_label.get(key)
        if settled is None:
            settled = validate_profile(profile._replace(**self._overrides))
            if to_seconds(settled.request_timeout) > self._longest_request_s:
                settled = settled._replace(request_timeout=self._longest_request_s)
            if settled.base is not None:
                settled = fill_base(settled)
            self._by_label[key] = settled
        return settled


class Transports:
    """The transports of one client; `headers` are sent by all of them.

    All requests go through `adapter`, if there is one; otherwise the profile names the transport.
    """

    def __init__(
        self, headers: Optional[Mapping[str, str]], adapter: "Optional[Adapter]" = None
    ) -> None:
        self._headers = headers
        self._adapter = adapter
        self._adapters: "Dict[str, Optional[Adapter]]" = {}  # those that profiles name
        self._transports: Dict[Tuple[Any, ...], Transport] = {}

    def for_profile(self, profile: Profile) -> Transport:
        """The transport of a profile, or a ConfigError if its settings can't be used."""
        headers = validate_headers(profile.headers)
        fields = tuple(getattr(profile, field) for field in _CONNECTION_FIELDS)
        key = fields + (tuple(headers.items()), credential_origins(profile))
        transport = self._transports.get(key)
        if transport is None:
            adapter = self._adapter or self._named_adapter(profile.transport)
            # setdefault: several threads may create one at once, and all must use the same.
            transport = self._transports.setdefault(key, Transport(profile, self._headers, adapter))
        return transport

    def _named_adapter(self, name: str) -> "Optional[Adapter]":
        if name == "builtin":
            return None
        if name not in self._adapters:
            from ...edges.http.adapters.catalog import named_adapter

            self._adapters.setdefault(name, named_adapter(name))
        return self._adapters[name]

    def scrub(self, text: str) -> str:
        """Remove all secrets that were sent from a text."""
        for transport in list(self._transports.values()):
            text = transport.scrub(text, "")
        return text

    def close(self) -> None:
        """Close the connections that are not in use."""
        for transport in list(self._transports.values()):
            transport.close()


class Client:
    """The APIs that one driver polls.

    `profile` applies to every job that names none. Names of profiles are also looked up in the
    INI file `profiles`. `pace`, `timeout` and `max_faults` override every profile. `bucket` holds
    the limit of all jobs. Without it, each origin gets the limit of its profile: in a bucket of
    this client, or in the one that `shared_bucket_for(limit, name)` returns. `transport` is an
    adapter for all requests, or the name of a transport; it overrides every profile, and so do
    `fields`, by the names of a profile's fields. Requests time out after `longest_request_s` if
    their profile allows more, and no poll is held after `holds_end_at`. Results are saved to the
    path `save`, which must have {id} in its name unless it is for one job (`saves_one`).
    """

    def __init__(
        self,
        profile: Union[Profile, str, None] = None,
        *,
        pace: Union[Pace, str, None] = None,
        timeout: Timeout = Default.AS_PROFILE,
        max_faults: Optional[int] = None,
        bucket: Optional[TokenBucket] = None,
        shared_bucket_for: Optional[SharedBucketFor] = None,
        headers: Optional[Mapping[str, str]] = None,
        transport: "Union[Adapter, str, None]" = None,
        fields: Optional[Mapping[str, Any]] = None,
        on_event: Optional[OnEvent] = None,
        clock: Optional[Clock] = None,
        rng: Optional[Callable[[], float]] = None,
        profiles: Optional[str] = None,
        history: Optional[History] = None,
        defaults: Defaults = DEFAULTS,
        longest_request_s: float = NEVER,
        holds_end_at: float = NEVER,
        save: Optional[str] = None,
        saves_one: bool = False,
    ) -> None:
        for rule, value, is_valid in (
            ("on_event must be callable", on_event, callable(on_event)),
            ("rng must be a callable that returns numbers from 0 to below 1", rng, callable(rng)),
            (
                "clock must be a Clock, such as pollkit.testing.VirtualClock",
                clock,
                hasattr(clock, "now"),
            ),
            ("history must be a History", history, isinstance(history, History)),
            (
                "profiles must be the name of a file",
                profiles,
                isinstance(profiles, (str, os.PathLike)),
            ),
            ("bucket must be a TokenBucket", bucket, isinstance(bucket, TokenBucket)),
        ):
            if value is not None and not is_valid:
                raise ConfigError("%s, not %r" % (rule, value))
        if headers is not None and not isinstance(headers, Mapping):
            raise ConfigError("headers must be a mapping of names to values")  # may be secret
        self.clock = clock or Clock()
        self.rng = rng or random.random
        adapter: "Optional[Adapter]" = None
        transport_name: Optional[str] = None
        if transport is None or isinstance(transport, str):
            transport_name = transport
        else:
            from ...edges.http.adapters.catalog import check_adapter  # late: most have none

            adapter = check_adapter(transport)
        self._transports = Transports(headers, adapter)
        self.publisher = Publisher(on_event, self._transports.scrub)
        self._defaults = defaults
        self._bucket = bucket
        self._shared_bucket_for = shared_bucket_for
        self._buckets: Dict[Tuple[str, Union[Limit, str, None]], TokenBucket] = {}
        self._history = history or History()
        self._save: "Optional[SavePath]" = None
        if save is not None:
            from ...edges.results.save_path import SavePath  # late: few runs save results

            self._save = SavePath(save, saves_one)
        # Measured once: if the host's clock is set, waits must not change their order.
        self._wall_offset = self.clock.wall() - self.clock.now()
        overrides = dict(fields or {})
        overrides.update(_overrides(pace, timeout, max_faults, transport_name))
        self._holds_end_at = holds_end_at
        self._profiles = Profiles(profile, profiles, overrides, longest_request_s)
        self._endpoints: Dict[Tuple[Optional[str], Optional[str], str, bool], Endpoint] = {}
        self._transports.for_profile(self._profiles.for_job(Job("")))  # reports bad settings now

    # Jobs

    def locate(self, job: Job, can_batch: bool = False) -> Target:
        """Find the URL and the endpoint of a job, or raise a ConfigError.

        With `can_batch`, the endpoint may ask about many jobs with one request.
        """
        profile = self._profiles.for_job(job)
        if job.label is None and profile.label is not None:
            job = job._replace(label=profile.label)  # its size has selected the label
        url = job_url(profile, job)
        # A job that has its own URL can't be polled together with others.
        asks_many = can_batch and job.url is None and profile.batch_url is not None
        polled_url = fill_ids(profile.batch_url or "", [job.id]) if asks_many else url
        address = parse_url(polled_url)
        return Target(job, url, self._endpoint(job, profile, address, asks_many))

    def locate_at(self, job: Job, url: str) -> Target:
        """Find the endpoint for requests about a job to another URL than its own."""
        profile = self.profile_for(job)
        if job.label is None and profile.label is not None:
            job = job._replace(label=profile.label)
        return Target(job, url, self._endpoint(job, profile, parse_url(url), asks_many=False))

    def profile_for(self, job: Job) -> Profile:
        """The profile of a job, for its label or size."""
        return self._profiles.for_job(job)

    def endpoint_for_callables(self) -> Endpoint:
        """The settings, the limit and the history of jobs that a function asks about."""
        job = Job("")
        return self._endpoint(job, self._profiles.for_job(job), None, asks_many=False)

    def list_endpoints(self) -> List[Endpoint]:
        """The endpoints of all jobs so far."""
        return list(self._endpoints.values())

    @property
    def default_profile(self) -> Profile:
        """The profile of the jobs that name none."""
        return self._profiles.default

    # Waits

    def begin_wait(self, endpoint: Endpoint, now: float) -> Optional[float]:
        """Note that a wait begins; the start that names it in the history."""
        return self._history.begin(endpoint.kind, now + self._wall_offset)

    def end_wait(self, start: Optional[float], endpoint: Endpoint, state: WaitState) -> None:
        """Add the duration of a finished job to the history."""
        if start is not None:
            ages = observed_duration(state, is_since_submitted=False)
            self._history.finish(endpoint.kind, start, ages)

    def outcome(self, state: WaitState) -> Outcome:
        """The outcome of a finished wait."""
        wall_offset = self.clock.wall() - self.clock.now()
        outcome = state.outcome(self._profiles.default, wall_offset)
        if outcome.url is None:
            return outcome
        return outcome._replace(url=self._transports.scrub(outcome.url))

    @property
    def saves_results(self) -> bool:
        """Whether the results of jobs are saved to files."""
        return self._save is not None

    def save_result(self, state: WaitState) -> WaitState:
        """Save the result that the last reply had; if that fails, the ending has an error."""
        if self._save is None:
            return state
        from .saving import save_result

        return save_result(self._save, state)

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._transports.close()

    def _bucket_for(self, job: Job, profile: Profile, origin: str) -> TokenBucket:
        if self._bucket is not None:
            return self._bucket
        limit = profile.limit
        if self._shared_bucket_for is None:
            new = TokenBucket(limit, clock=self.clock)
            return self._buckets.setdefault((origin, limit), new)
        name = profile.name or origin
        has_own_limit = limit != self._profiles.named(job.profile).limit
        if profile.label is not None and has_own_limit:
            name = "%s:%s" % (name, profile.label)
        return self._shared_bucket_for(limit, name)

    def _endpoint(
        self, job: Job, profile: Profile, address: Optional[Address], asks_many: bool
    ) -> Endpoint:
        origin = "" if address is None else address.origin
        key = (job.profile, job.label, origin, asks_many)
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            bucket = self._bucket_for(job, profile, origin)
            kind = Kind(profile.name or origin, job.label)
            is_adaptive = isinstance(profile.pace, Adaptive)
            durations = self._history.durations(kind) if is_adaptive else None
            is_held = address is not None and not asks_many
            new = Endpoint(
                profile,
                self._transports.for_profile(profile),
                origin=origin,
                shown_origin="" if address is None else origin_text(address),
                asks_many=asks_many,
                kind=kind,
                bucket=bucket,
                settings=self._settings(profile, bucket, durations, is_held),
                save=self._save,
            )
            endpoint = self._endpoints.setdefault(key, new)
        return endpoint

    def _settings(
        self, profile: Profile, bucket: TokenBucket, durations: Optional[Durations], is_held: bool
    ) -> WaitSettings:
        settings = WaitSettings.from_profile(
            profile, bucket.spacing, durations, defaults=self._defaults
        )
        if settings.holding is None or not is_held:
            return settings._replace(holding=None)
        settings.holding.ends_at = self._holds_end_at
        return settings


def _overrides(
    pace: Union[Pace, str, None],
    timeout: Timeout,
    max_faults: Optional[int],
    transport: Optional[str],
) -> Dict[str, Any]:
    """The fields of a profile that the caller's arguments replace."""
    given: Dict[str, Any] = {"pace": pace, "max_faults": max_faults, "transport": transport}
    overrides = {name: value for name, value in given.items() if value is not None}
    if timeout is not Default.AS_PROFILE:
        overrides["timeout"] = timeout
    return overrides
