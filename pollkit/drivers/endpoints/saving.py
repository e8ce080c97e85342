"""Save the result that a reply had; one from `result_url` is in its file already."""

from ...core.model import Error, State
from ...core.waiting.ends.endings import SAVE_ERROR
from ...core.waiting.wait_state import WaitState
from ...edges.results.result_file import ResultFileError
from ...edges.results.save_path import SavePath


def save_result(save: SavePath, state: WaitState) -> WaitState:
    """The finished wait with the path of its result, or with an error if it can't be saved."""
    ending = state.ending
    was_fetched = state.done is not None
    if ending is None or ending.state is not State.DONE or was_fetched:
        return state
    try:
        path = save.write(state.job.id, ending.result)
        return state._replace(ending=ending._replace(saved_to=path))
    except ResultFileError as error:
        problem = Error(SAVE_ERROR, str(error))
        return state._replace(ending=ending._replace(error=problem))
