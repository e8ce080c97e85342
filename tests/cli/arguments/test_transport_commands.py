"""--transport, and transport = in a profile, from the command line."""

import json

import pytest

from pollkit import Poller
from pollkit.cli.commands.program.help import text_of
from raw_server import RawServer, redirect, reply
from transports import NAMES, adapter_for

DONE = reply('{"status": "done", "result": 7}')


@pytest.fixture(autouse=True)
def environment(environment):
    """No proxies but those of the test."""
    return environment


@pytest.mark.parametrize("name", NAMES)
def test_wait_polls_with_the_transport(name, pollkit):
    adapter_for(name)
    with RawServer(DONE) as server:
        code, out, _ = pollkit("wait", server.url(), "--transport", name)
    assert code == 0
    assert json.loads(out)["result"] == 7


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_names_the_transport(name, pollkit, write):
    adapter_for(name)
    with RawServer(DONE) as server:
        jobs = write("a\nb\n", "jobs.txt")
        path = write("[mine]\nurl = %s/{id}\ntransport = %s\n" % (server.origin, name))
        code, out, _ = pollkit("batch", jobs, "--profile", "mine", "--profiles", path)
        shown = pollkit("profiles", "show", "mine", "--profiles", path)[1]
    assert code == 0
    assert [json.loads(line)["state"] for line in out.splitlines()] == ["done"] * 2
    assert ("transport = %s" % name in shown) == (name != "builtin")


def test_run_polls_with_the_transport(pollkit, tmp_path):
    ledger = str(tmp_path / "jobs.db")
    with RawServer(DONE) as server:
        assert pollkit("add", ledger, server.url())[0] == 0
        assert pollkit("run", ledger, "--transport", "urllib")[0] == 0
    assert server.requests[0].headers["connection"] == "close"  # as urllib does


def test_an_unknown_transport_is_one_line(pollkit, write):
    code, out, err = pollkit("wait", "http://api.test/1", "--transport", "httpx")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and "httpx" in err
    path = write("[mine]\nurl = http://api.test/{id}\ntransport = httpx\n")
    code, _, err = pollkit("wait", "1", "--profile", "mine", "--profiles", path)
    assert code == 2
    assert "transport: must be builtin or urllib or requests or curl, not 'httpx'" in err


def test_a_missing_curl_is_one_line(pollkit, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = pollkit("wait", "http://api.test/1", "--transport", "curl")
    assert (code, out) == (2, "")
    assert err == (
        "pollkit: the transport curl can't run curl: No such file or directory; "
        "install curl, or choose another transport\n"
    )


@pytest.mark.parametrize("name", NAMES[1:])
def test_the_doctor_names_the_transport_and_examines_the_poll_only(name, doctor):
    adapter = adapter_for(name)
    with RawServer(redirect("/there"), DONE) as server:
        report = doctor(server.url(), "--transport", name)
    assert report.steps == ["transport", "credential", "poll", "meaning", "limits", "clock"]
    assert report.text["transport"].startswith(adapter.description)
    assert "proxy, DNS, TCP and TLS are its own, not examined" in report.text["transport"]
    assert report.level["poll"] == "ok"
    assert len(server.requests) == 2


def test_the_doctor_reports_a_fault_of_the_transport(doctor):
    report = doctor("http://127.0.0.1:9/1", "--transport", "urllib")
    assert report.code == 4
    assert report.problems == ["poll"]


def test_the_adapter_in_the_topic_works():
    blocks = text_of("transports").split("\n\n")
    start = next(i for i, block in enumerate(blocks) if "class Urllib3Transport" in block)
    code = "\n\n".join(blocks[start - 1 : start + 2])
    names = {}
    exec("\n".join(line[4:] for line in code.splitlines()), names)
    with RawServer(reply("", "503 X"), redirect("/2"), DONE) as server:
        poller = Poller(pace="fixed 10ms", transport=names["Urllib3Transport"]())
        outcome = poller.poll(server.url("/1"))
    assert (outcome.state, outcome.faults, server.targets) == ("done", 1, ["/1", "/1", "/2"])
