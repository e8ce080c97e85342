"""The server of the tests of pollkit submit, and its profile."""

import os

import pytest

from submit_server import SubmitServer


@pytest.fixture(scope="module")
def served():
    with SubmitServer() as server:
        yield server


@pytest.fixture
def server(served, place):
    with open("job.json", "w") as file:
        file.write('{"pages": 3}')
    return served


@pytest.fixture
def describe(server):
    """A function that writes the profile of the server."""

    def write(how="ok", more=""):
        with open("mine.ini", "w") as file:
            file.write(server.profile(how, more))
        os.environ["POLLKIT_PROFILES"] = os.path.abspath("mine.ini")

    write()
    return write


@pytest.fixture
def submit(pollkit, describe):
    def run(*words, json="job.json"):
        return pollkit("submit", "--profile", "counted", "--json", json, "--quiet", *words)

    return run
