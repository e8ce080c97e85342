"""What holds for every test: what `wait` and `batch` learn never gets into the history of whoever runs the tests."""
import itertools

import pytest

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def history_of_its_own(monkeypatch, tmp_path_factory):
    """A folder for each test, made by pollkit if it is used at all. Processes inherit it, or have no HOME."""
    place = tmp_path_factory.getbasetemp() / "histories" / str(next(_numbers))
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
    return place / "pollkit" / "history.json"
