"""Two jobs of a batch can't have the same id."""

from typing import Dict, List, Optional, Tuple

from ..core.model import display_id
from ..core.scheduling.agenda import Agenda
from ..errors import ConfigError
from .endpoints.endpoint import Target


def check_ids(agenda: Agenda, targets: List[Target]) -> None:
    """Raise a ConfigError for a second job with the same id: it would get the first outcome."""
    first: Dict[str, Tuple[object, Optional[str]]] = {}
    for job, url, endpoint in targets:
        place = endpoint.place(job, url)
        entry = agenda.get(job.id)
        if entry is None:
            first_place = first.setdefault(job.id, place)
        else:
            first_place = entry.endpoint.place(entry.state.job)
        if place != first_place:
            raise ConfigError(
                "%r is already pending, with another URL or profile, or as a callable: an id "
                "names one job" % display_id(job)
            )
