"""Results that have their own URL: fetched, saved, continued. The server is another process."""

import json
import os

import pytest

from pollkit import BatchPoller, ConfigError, Poller, Profile
from pollkit.core.waiting.ends.endings import RESULT_ERROR, SAVE_ERROR
from pollkit.drivers.endpoints import results
from pollkit.edges.http import streaming
from result_server import SMALL, ResultServer


@pytest.fixture(scope="module")
def server():
    with ResultServer() as server:
        yield server


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("API_TOKEN", "s3cr3t-token")


def profile(server, **fields):
    return Profile(
        name="api",
        url=server.url("/jobs/{id}"),
        auth="bearer env:API_TOKEN",
        proxy="none",
        retry="fixed 10ms",
        not_found_grace=0,
        **fields,
    )


def poll(server, job_id, save=None, **fields):
    with Poller(profile(server, **fields), save=save) as poller:
        return poller.poll(job_id)


def content(outcome):
    with open(outcome.saved_to, "rb") as file:
        return file.read()


# In memory


def warnings_of(server, ids, **fields):
    events = []
    with BatchPoller(profile(server, **fields), on_event=events.append) as batch:
        batch.run(ids)
    return [event.text for event in events if event.kind == "warning"]


def test_a_result_that_lacks_its_path_causes_one_warning(server):
    fields = {"result_url": "/linked/2", "result": "nope"}
    (warning,) = warnings_of(server, ["w1", "w2", "w3"], **fields)
    assert "nothing at nope in the fetched result" in warning


def test_pages_cause_that_warning_only_if_none_has_the_path(server):
    fields = {"result_url": "/pages/1", "result_next": "next"}
    (warning,) = warnings_of(server, ["w4"], result="nope", **fields)
    assert "nothing at nope" in warning
    assert warnings_of(server, ["w5"], result="next", **fields) == []  # the last page has no next


def test_the_result_is_fetched_with_the_credential(server):
    outcome = poll(server, "m1", result_url="/secured/{id}")
    assert (outcome.state, outcome.result, outcome.polls) == ("done", "secret report", 2)
    assert outcome.url == server.url("/jobs/m1") and outcome.saved_to is None


def test_a_path_names_the_link_in_the_reply(server):
    assert poll(server, "m2", result_url="flaky", result="items").result == [1, 2]


def test_a_result_that_fails_is_fetched_again(server):
    outcome = poll(server, "m3", result_url="flaky")
    assert (outcome.state, outcome.faults) == ("done", 2)


def test_each_attempt_uses_a_new_link(server):
    outcome = poll(server, "m4", result_url="signed")
    assert outcome.result == [3]
    assert [path for path in server.paths() if "signed" in path] == [
        "/signed/1",
        "/signed/2",
        "/signed/3",
    ]


def test_the_pages_of_a_result_become_one_list(server):
    fields = {"result_url": "pages", "result_next": "next", "result": "items"}
    assert poll(server, "m5", **fields).result == [10, 11, 20, 21, 30, 31]


def test_the_pages_may_be_linked_in_the_header_link(server):
    outcome = poll(server, "m11", result_url="/linked/1", result_next="header Link")
    assert outcome.result == [1, 2, 3]


def test_without_a_path_the_pages_themselves_are_the_result(server):
    outcome = poll(server, "m6", result_url="/pages/2", result_next="next")
    assert [page["items"] for page in outcome.result] == [[20, 21], [30, 31]]


def test_a_page_that_links_to_itself_ends_the_attempt(server):
    outcome = poll(server, "m7", result_url="/loop/{id}", result_next="next")
    assert (outcome.state, outcome.error.code) == ("done", RESULT_ERROR)
    assert "a page that was read already" in outcome.error.message
    assert server.paths().count("/loop/m7") == 1


def test_a_link_that_makes_no_sense_does_not_shorten_the_result(server):
    outcome = poll(server, "m10", result_url="pages", result_next="items")
    assert (outcome.state, outcome.error.code, outcome.result) == ("done", RESULT_ERROR, None)
    assert outcome.error.message.endswith("the link to its next page makes no sense")


def test_the_number_of_pages_is_limited(server, monkeypatch):
    monkeypatch.setattr(results, "MOST_PAGES", 2)
    outcome = poll(server, "m8", result_url="pages", result_next="next")
    assert outcome.error.message.endswith("it has over 2 pages")


def test_the_size_of_all_pages_is_limited(server, monkeypatch):
    monkeypatch.setattr(results, "MAX_BODY", 30)
    outcome = poll(server, "m9", result_url="pages", result_next="next")
    assert "--save has no limit" in outcome.error.message


# Credentials


@pytest.mark.parametrize("field", ["elsewhere", "redirected"])
def test_another_origin_gets_no_credential(server, tmp_path, field):
    before = len(server.log())
    outcome = poll(server, "c1", str(tmp_path / "{id}"), result_url=field)
    assert content(outcome) == SMALL
    sent = {
        request["path"]: request["authorization"]
        for request in server.log()[before:]
        if request["path"] != "/redirect/c1"
    }
    assert sent == {"/jobs/c1": "Bearer s3cr3t-token", "/small/c1": None}


def test_a_result_at_another_origin_that_needs_the_credential_is_one_line(server):
    outcome = poll(server, "c2", result_url="locked")
    assert (outcome.state, outcome.error.code) == ("done", RESULT_ERROR)
    assert "401 from" in outcome.error.message and "\n" not in outcome.error.message
    assert "credentials go to" in outcome.error.message


def test_a_url_in_the_profile_gets_the_credential_if_its_origin_is_listed(server):
    fields = {"result_url": server.other_url("/secured/{id}")}
    error = poll(server, "c3", **fields).error
    assert error.code == RESULT_ERROR
    assert "add origins = %s" % server.other_url("") in error.message
    fields["origins"] = (server.other_url(""),)
    assert poll(server, "c3", **fields).result == "secret report"


def test_redirects_decide_whether_a_link_is_followed(server):
    outcome = poll(server, "c4", result_url="elsewhere", redirects="same-origin")
    assert "redirects = same-origin forbids" in outcome.error.message


def test_a_job_without_the_label_that_its_result_needs_is_refused_at_once(server):
    """Not when it is done: that stopped all jobs of a batch."""
    with BatchPoller(profile(server, result_url="/small/{label}/{id}")) as batch:
        with pytest.raises(ConfigError, match="needs a label"):
            batch.submit("c5")


# In a file


def test_the_body_is_saved_as_it_is(server, tmp_path):
    outcome = poll(server, "f/1", str(tmp_path / "{id}.bin"), result_url="/small/{id}")
    assert outcome.saved_to == str(tmp_path / "f%2F1.bin")
    assert content(outcome) == SMALL and outcome.result is None
    assert os.listdir(str(tmp_path)) == ["f%2F1.bin"]


def test_a_download_that_is_cut_is_continued(server, tmp_path):
    outcome = poll(server, "f2", str(tmp_path / "{id}"), result_url="/cut/{id}")
    assert content(outcome) == SMALL and outcome.faults == 2
    ranges = [each["range"] for each in server.log() if each["path"] == "/cut/f2"]
    assert ranges == [None, "bytes=%d-" % (len(SMALL) // 2), "bytes=%d-" % (len(SMALL) * 3 // 4)]


def test_downloads_that_are_cut_are_no_outage(server, tmp_path):
    """The server is up: its other jobs are polled as before."""
    cut = profile(server, result_url="/cut/{id}")
    with BatchPoller(cut, save=str(tmp_path / "{id}")) as batch:
        outcomes = batch.run(["f20", "f21", "f22", "f23"])
        assert batch.outages == []
    assert [outcome.faults for outcome in outcomes] == [2] * 4
    assert {outcome.slept_s.fault < 0.5 for outcome in outcomes} == {True}


def test_a_server_without_ranges_sends_all_of_it_again(server, tmp_path):
    outcome = poll(server, "f3", str(tmp_path / "{id}"), result_url="/stubborn/{id}")
    assert content(outcome) == SMALL and outcome.faults == 1


def test_a_server_that_stops_in_the_middle_is_a_fault(server, tmp_path):
    fields = {"result_url": "/stall/{id}", "request_timeout": "300ms"}
    outcome = poll(server, "f4", str(tmp_path / "{id}"), **fields)
    assert content(outcome) == SMALL and outcome.faults == 1


def test_a_gzip_bomb_does_not_fill_the_disk(server, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "UNCHECKED_SIZE", 20 * 1024 * 1024)
    outcome = poll(server, "s9", str(tmp_path / "{id}"), result_url="/bomb/{id}")
    assert (outcome.state, outcome.error.code) == ("done", RESULT_ERROR)
    assert outcome.error.message.endswith("have the server send it uncompressed")
    assert server.paths().count("/bomb/s9") == 1
    assert os.listdir(str(tmp_path)) == []


def test_pages_are_saved_as_one_list(server, tmp_path):
    fields = {"result_url": "pages", "result_next": "next", "result": "items"}
    outcome = poll(server, "f5", str(tmp_path / "{id}.json"), **fields)
    assert json.loads(content(outcome).decode()) == [10, 11, 20, 21, 30, 31]


def test_a_login_page_is_not_saved_unless_the_file_is_html(server, tmp_path):
    fields = {"result_url": "login", "max_faults": 2}
    outcome = poll(server, "f6", str(tmp_path / "{id}.json"), **fields)
    assert (outcome.state, outcome.error.code) == ("done", RESULT_ERROR)
    assert os.listdir(str(tmp_path)) == []
    assert b"log in" in content(poll(server, "f6", str(tmp_path / "{id}.html"), **fields))


def test_the_result_in_the_reply_is_saved_if_there_is_no_url(server, tmp_path):
    outcome = poll(server, "f7", str(tmp_path / "result.json"))
    assert outcome.result == {"of": "f7"} == json.loads(content(outcome).decode())


@pytest.mark.parametrize("fields", [{}, {"result_url": "small"}])
def test_a_file_that_cannot_be_written_leaves_the_job_done(server, tmp_path, fields):
    folder = tmp_path / "results"
    folder.mkdir()
    with Poller(profile(server, **fields), save=str(folder / "{id}")) as poller:
        folder.rmdir()
        outcome = poller.poll("f8")
    assert (outcome.state, outcome.error.code, outcome.saved_to) == ("done", SAVE_ERROR, None)
    assert outcome.error.message.endswith("f8: No such file or directory")


@pytest.mark.parametrize("transport", ["urllib", "curl"])
def test_other_clients_save_results_too(server, tmp_path, transport):
    fields = {"result_url": "/small/{id}", "transport": transport}
    assert content(poll(server, "f9", str(tmp_path / "{id}"), **fields)) == SMALL


# Many jobs


def test_a_batch_saves_the_results_of_all_jobs(server, tmp_path):
    save = str(tmp_path / "{id}")
    with BatchPoller(profile(server, result_url="small", limit="1000/s"), save=save) as batch:
        outcomes = batch.run(["b%d" % number for number in range(20)])
    assert {outcome.state.value for outcome in outcomes} == {"done"}
    assert all(content(outcome) == SMALL for outcome in outcomes)
    assert batch.stats.polls == 40


def test_the_jobs_of_a_list_have_one_result_each(server, tmp_path):
    listed = profile(server, result_url="small", batch_url=server.url("/list"))
    with BatchPoller(listed, save=str(tmp_path / "{id}")) as batch:
        outcomes = batch.run(["a", "b", "c"])
    assert [content(outcome) == SMALL for outcome in outcomes] == [True] * 3
    assert len(os.listdir(str(tmp_path))) == 3


def test_a_single_poll_may_fetch_its_result(server):
    """timeout=0 polls once, and the result has its own time."""
    with BatchPoller(profile(server, result_url="flaky"), timeout=0) as batch:
        assert batch.run(["b30"])[0].result == {"items": [1, 2]}
