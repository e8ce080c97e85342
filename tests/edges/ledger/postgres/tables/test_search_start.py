"""Where a claim begins to search, so that it does not read dead entries of the index again."""

from math import inf

import pytest

from pollkit.edges.ledger.postgres.tables import search_start
from pollkit.edges.ledger.postgres.tables.search_start import SearchStart


@pytest.fixture
def now(monkeypatch):
    """The monotonic clock, as a list with one instant."""
    instant = [100.0]
    monkeypatch.setattr(search_start.time, "monotonic", lambda: instant[0])
    return instant


def search(start, now, took_s, last_at=1000.0, server_now=2000.0):
    began = start.begin()
    now[0] += took_s
    start.end(last_at, server_now)
    return began


def test_as_long_as_searches_are_fast_they_begin_at_the_beginning(now):
    start = SearchStart()
    assert [search(start, now, 0.001) for _ in range(3)] == [-inf] * 3


def test_after_a_slow_search_the_next_ones_begin_where_it_ended_for_a_while(now):
    start = SearchStart()
    assert search(start, now, 0.1, last_at=1000.0) == -inf
    assert search(start, now, 0.001, last_at=1001.0) == 1000.0
    assert search(start, now, 0.001, last_at=1000.5) == 1001.0
    assert start.start == 1001.0
    now[0] += 5.0
    assert search(start, now, 0.1) == -inf


def test_the_last_seconds_are_never_skipped(now):
    start = SearchStart()
    search(start, now, 0.1, last_at=2010.0, server_now=2000.0)
    assert start.begin() == 1995.0


def test_after_a_reset_the_next_search_is_whole(now):
    start = SearchStart()
    search(start, now, 0.1)
    start.reset()
    assert search(start, now, 0.001) == -inf


def test_a_ledger_finds_the_jobs_before_the_start_before_it_says_that_none_waits(ledger, leases):
    ledger.add(["a"])
    leases._search.start = 1e12
    assert leases.next_due() is not None
    assert len(leases.claim(1)) == 1
