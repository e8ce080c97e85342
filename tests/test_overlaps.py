"""Several exchanges under way in one thread: in the transport, and in a batch whose server is quick."""
import contextlib
import threading

import pytest

from pollkit import BatchPoller, Profile
from pollkit.drivers import crew
from pollkit.drivers.asking import Question
from pollkit.drivers.exchanges import wait
from pollkit.edges.clock import Clock
from pollkit.edges.wire import with_news
from raw_server import CLOSE, HANG, RawServer, reply, wait_for

DONE, RUNNING = reply('{"status": "done"}'), reply('{"status": "running"}')


# The transport

@pytest.fixture
def two_open(new_transport):
    """A transport with two open connections to a server, which answers `later` from then on."""
    with contextlib.ExitStack() as stack:
        def begin(*later, **settings):
            both = threading.Barrier(2, timeout=10)

            def together(connection, _):
                both.wait()
                connection.send(DONE)
            server = stack.enter_context(RawServer(together, together, *later))
            transport = new_transport(**settings)
            threads = [threading.Thread(target=transport.fetch, args=(server.url(), server.origin)) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return transport, server
        yield begin


def test_replies_are_taken_in_the_order_in_which_they_come(two_open):
    second_asked = threading.Event()

    def first(connection, _):
        second_asked.wait(10)
        connection.pause(0.1)
        connection.send(reply("1"))

    def second(connection, _):
        connection.send(reply("2"))
        second_asked.set()
    transport, server = two_open(first, second)
    exchanges = [transport.send(server.url("/1"), server.origin)]
    wait_for(lambda: len(server.requests) == 3)
    exchanges.append(transport.send(server.url("/2"), server.origin))
    assert with_news([each.wire for each in exchanges]) == [1]
    assert transport.receive(exchanges[1]).body == b"2"
    assert transport.receive(exchanges[0]).body == b"1"
    assert sorted(server.used) == [0, 0, 1, 1]


def test_what_has_come_meanwhile_is_found_all_at_once(two_open):
    transport, server = two_open(DONE)
    exchanges = [transport.send(server.url("/%d" % i), server.origin) for i in range(2)]
    wait_for(lambda: len(server.requests) == 4)
    wait_for(lambda: with_news([each.wire for each in exchanges]) == [0, 1])
    assert [transport.receive(each).status for each in exchanges] == [200, 200]


def test_where_no_connection_is_open_nothing_is_sent_before_somebody_listens(two_open):
    transport, server = two_open(DONE)
    exchanges = [transport.send(server.url("/%d" % i), server.origin) for i in range(3)]
    wait_for(lambda: len(server.requests) == 4)
    assert [each.wire is not None for each in exchanges] == [True, True, False]
    assert [transport.receive(each).status for each in exchanges] == [200] * 3
    assert server.accepted == 3


def test_one_that_ends_instead_of_a_reply_is_asked_again_and_the_other_is_untouched(two_open):
    transport, server = two_open(CLOSE, DONE)
    exchanges = [transport.send(server.url("/1"), server.origin)]
    wait_for(lambda: len(server.requests) == 3)
    exchanges.append(transport.send(server.url("/2"), server.origin))
    assert [transport.receive(each).status for each in exchanges] == [200, 200]
    assert sorted(server.targets[2:]) == ["/1", "/1", "/2"]


def test_a_reply_that_nobody_read_in_time_is_no_fault_of_the_servers(two_open):
    """The thread was held up, by another exchange: it asks again."""
    transport, server = two_open(DONE, request_timeout=0.3)
    exchange = transport.send(server.url("/late"), server.origin)
    wait_for(lambda: exchange.wire.is_broken_off)
    assert transport.receive(exchange).status == 200
    assert server.targets[2:] == ["/late", "/late"]


def test_replies_that_somebody_waits_for_in_vain_are_faults_all_at_once(two_open):
    """They had all of their time: none is asked for again, to wait for its end once more, and after the others."""
    transport, server = two_open(HANG, request_timeout=0.3)
    questions = [Question(transport.send(server.url("/%d" % i), server.origin), None) for i in range(2)]
    while questions:
        question = questions.pop(wait(questions)[0])
        assert "no complete reply" in str(transport.receive(question.exchange))
    assert len(server.requests) == 4


def test_after_an_abort_what_was_sent_is_not_asked_again(two_open):
    transport, server = two_open(HANG)
    exchanges = [transport.send(server.url("/%d" % i), server.origin) for i in range(2)]
    wait_for(lambda: len(server.requests) == 4)
    transport.abort()
    assert with_news([each.wire for each in exchanges]) == [0, 1]
    assert all("no complete reply" in str(transport.receive(each)) for each in exchanges)
    assert len(server.requests) == 4


def test_where_the_system_knows_no_poll_they_are_taken_in_turn(two_open, monkeypatch):
    transport, server = two_open(DONE)
    monkeypatch.delattr("select.poll")
    exchanges = [transport.send(server.url("/%d" % i), server.origin) for i in range(2)]
    assert with_news([each.wire for each in exchanges]) == [0]
    assert [transport.receive(each).status for each in exchanges] == [200, 200]


# The crew

class Office:
    """Work for a crew whose exchanges are quick, and so under way in one thread; some of it gets stuck."""

    def __init__(self, stuck_in):
        self.stuck_in, self.goes_on, self.is_stuck = stuck_in, threading.Event(), threading.Event()
        self.work, self.out, self.at_once, self.told = [], 0, [], []
        self.lock = threading.Lock()
        self.crew = crew.Crew(4, Clock(), self.lock, self.take, crew.Exchanges(
            lambda work: work, lambda asked: True, self.wait, self.end), self.finish, self.announce,
            leave=lambda: None, crash=self.told.append)

    def do(self, work):
        with self.lock:
            self.work += work
            self.crew.wake()

    def take(self, now):
        if not self.work or self.out == 4:
            return float("inf")
        self.out += 1
        return [self.work.pop(0)]

    def wait(self, several):
        self.at_once.append([work[0] for work in several])
        return list(range(len(several)))

    def end(self, work, asked):
        assert work is asked
        self.perhaps_get_stuck(work, "end")

    def finish(self, work, result, now):
        self.out -= 1
        return work

    def announce(self, work):
        if work is not None:
            self.perhaps_get_stuck(work, "announce")
            self.told.append(work[0])

    def perhaps_get_stuck(self, work, where):
        if work == ["stuck"] and where == self.stuck_in:
            self.is_stuck.set()
            assert self.goes_on.wait(10)


@pytest.mark.usefixtures("no_thread_is_left")
@pytest.mark.parametrize("where", ["end", "announce"])
def test_what_a_thread_has_under_way_that_is_stuck_another_one_takes_over(where, monkeypatch):
    """A reply that drips, or a callback that takes long, holds up nothing but itself."""
    monkeypatch.setattr(crew, "QUICK_S", 1.0)
    monkeypatch.setattr(crew, "STALL_S", 0.1)  # time enough to take all four
    office = Office(where)
    office.do(["first"])  # how quick it is decides what follows
    wait_for(lambda: office.told == ["first"])
    office.do(["stuck", "a", "b", "c"])
    assert office.is_stuck.wait(10) and office.at_once == [["stuck", "a", "b", "c"]]
    wait_for(lambda: sorted(office.told[1:]) == ["a", "b", "c"])
    office.do(["d", "e"])
    wait_for(lambda: len(office.told) == 6)
    office.goes_on.set()
    wait_for(lambda: office.told[6:] == ["stuck"])
    with office.lock:
        office.crew.dismiss()
    office.crew.join()


# A batch

class QuickServer(RawServer):
    """Answers at once, but for a job that is told to be slow."""

    def __init__(self, slow):
        self.slow, self.is_slow = slow, threading.Event()
        super().__init__(self.answer)

    def answer(self, connection, request):
        if request.target == "/slow" and self.is_slow.is_set():
            self.slow(connection)
        else:
            connection.send(RUNNING)

    def asked_about(self, job):
        return self.targets.count("/" + job)


@contextlib.contextmanager
def quick_batch(slow, monkeypatch, **settings):
    """A batch with several exchanges under way in a thread, for the server is quick; until it is slow about a job."""
    monkeypatch.setattr(crew, "QUICK_S", 1.0)  # whatever else this machine does
    events = []
    with QuickServer(slow) as server:
        profile = Profile(url=server.url("/{id}"), proxy="none", **settings)
        batch = BatchPoller(profile, pace="fixed 20ms", workers=4, on_event=events.append)
        try:
            for name in ("slow", "a", "b", "c"):
                batch.submit(name)
            wait_for(lambda: min(map(server.asked_about, ("slow", "a", "b", "c"))) > 5)
            del events[:]
            server.is_slow.set()
            yield server, events
        finally:
            batch.close(wait=False)


@pytest.mark.usefixtures("no_thread_is_left")
def test_a_reply_that_does_not_come_holds_up_no_other(monkeypatch):
    goes_on = threading.Event()

    def never(connection):
        goes_on.wait(10)
        connection.send(RUNNING)
    with quick_batch(never, monkeypatch) as (server, events):
        wait_for(lambda: server.asked_about("a") > 30)
        asked = server.asked_about("slow")
        assert asked < 20  # once since it is slow
        goes_on.set()
        wait_for(lambda: server.asked_about("slow") > asked)
        assert server.accepted <= 5
        assert not [event for event in events if event.kind == "fault"]


@pytest.mark.usefixtures("no_thread_is_left")
def test_a_reply_that_drips_holds_up_no_other(monkeypatch):
    """The thread that reads it is stuck; another one steps in."""
    drips, is_over = threading.Event(), threading.Event()

    def drip(connection):
        drips.set()
        connection.drip(RUNNING)
        is_over.set()
    with quick_batch(drip, monkeypatch) as (server, events):
        assert drips.wait(10)
        asked = {name: server.asked_about(name) for name in "abc"}
        wait_for(lambda: all(server.asked_about(name) > asked[name] + 5 for name in "abc"))
        assert not is_over.is_set()
        assert not [event for event in events if event.kind == "fault"]
