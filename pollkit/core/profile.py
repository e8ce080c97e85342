"""Profile: how one API speaks. A plain value; edges read it from INI, core obeys it."""
from typing import Mapping, NamedTuple, Optional, Tuple

from .pace import Backoff, Pace
from .units import Limit


class Profile(NamedTuple):
    """How one API speaks: its URL, where the status stands, what its words mean, its limit, its pace.

    Every field has the default of an API nobody has described: the status is found by itself.

    >>> Profile(name="mine", url="https://api.internal/jobs/{id}", status="data.state").timeout
    300.0
    """

    name: Optional[str] = None
    url: Optional[str] = None
    method: str = "GET"
    body: Optional[str] = None
    headers: Mapping[str, str] = {}
    auth: Optional[str] = None

    # where things stand in a reply: dotted paths; None: the common places
    status: Optional[str] = None
    result: Optional[str] = None
    error: Optional[str] = None
    error_code: Optional[str] = None
    progress: Optional[str] = None
    created: Optional[str] = None
    finished: Optional[str] = None

    # what the words mean; None: the common words
    done: Optional[Tuple[str, ...]] = None
    failed: Optional[Tuple[str, ...]] = None
    pending: Optional[Tuple[str, ...]] = None
    unknown: str = "pending"

    # when to look, how long, how often at the most
    pace: Optional[Pace] = None
    retry: Pace = Backoff(1, 30, factor=2, jitter="equal")
    limit: Optional[Limit] = None
    timeout: Optional[float] = 300.0
    request_timeout: float = 30.0
    max_faults: int = 10
    not_found_grace: float = 10.0
    retry_after_default: Optional[float] = None

    # one request for many jobs: {ids} in its URL, the path of the items, and of the id in each
    batch_url: Optional[str] = None
    batch_items: Optional[str] = None
    batch_id: str = "id"
    batch_size: int = 50

    # how to connect
    ca_file: Optional[str] = None
    client_cert: Optional[str] = None
    client_key: Optional[str] = None
    proxy: str = "env"
