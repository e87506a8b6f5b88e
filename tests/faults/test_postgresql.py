"""A PostgreSQL that restarts, hangs, is held by others or is contended: every call ends, and all recovers."""

import contextlib
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import text

from tests.postgres import PASSWORD
from warmroute.adapters.store import sql
from warmroute.adapters.store.postgresql import LOCK
from warmroute.adapters.store.sql import open_store
from warmroute.controlplane.ports import StoreConflict, StoreUnavailable
from warmroute.controlplane.transactions import run
from warmroute.core import limits
from warmroute.core.errors import ConfigurationError


@pytest.fixture(autouse=True)
def short_limits(monkeypatch):
    monkeypatch.setattr(limits, "STORE_TRANSACTION_S", 1.0)
    monkeypatch.setattr(limits, "STORE_STATEMENT_S", 0.5)
    monkeypatch.setattr(limits, "STORE_CONNECT_S", 1.0)


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens a store, which is closed at the end."""
    stores = []

    def open_(url):
        stores.append(open_store(url, tmp_path, wait_s=0.0))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


def count(transaction):
    number = int(transaction.note("n") or 0) + 1
    transaction.set_note("n", str(number))
    return number


def note(store):
    return run(store, lambda transaction: transaction.note("n"))


def other(postgres, url):
    """Return a connection of somebody else to the same database."""
    name = url.partition("@/")[2].partition("?")[0]
    return psycopg.connect(host=str(postgres.home), dbname=name, user="warmroute", autocommit=True)


def test_what_another_session_wrote_meanwhile_is_a_conflict_and_the_whole_is_run_again(postgres, opened):
    url = postgres.database()
    store = opened(url)
    run(store, count)
    tries = []

    def work(transaction):
        number = int(transaction.note("n")) + 1
        if not tries:
            with other(postgres, url) as session:
                session.execute("UPDATE notes SET text = '10' WHERE name = 'n'")
        tries.append(number)
        transaction.set_note("n", str(number))
        return number

    assert run(store, work) == 11
    assert (tries, note(store)) == ([2, 11], "11")


def test_a_row_that_another_session_inserted_first_is_a_conflict(postgres, opened):
    url = postgres.database()
    store = opened(url)
    tries = []

    def work(transaction):
        tries.append(transaction.note("n"))
        if len(tries) == 1:
            with other(postgres, url) as session:
                session.execute("INSERT INTO notes VALUES ('n', '10')")
        return count(transaction)

    assert run(store, work) == 11
    assert len(tries) == 2


def test_a_row_that_another_session_holds_is_waited_for_no_longer_than_a_statement_may_take(postgres, opened):
    url = postgres.database()
    store = opened(url)
    run(store, count)
    with other(postgres, url) as session, session.transaction():
        session.execute("SELECT * FROM notes FOR UPDATE")
        begin_s = time.monotonic()
        with pytest.raises(StoreUnavailable, match="timeout"):
            run(store, count)
        took_s = time.monotonic() - begin_s
    assert 0.4 < took_s < 3.0
    time.sleep(took_s)
    assert run(store, count) == 2


def test_a_session_that_ends_between_two_transactions_is_made_anew(postgres, opened):
    store = opened(postgres.database())
    for expected in (1, 2):
        assert run(store, count) == expected
        with store.engine.connect() as connection:
            pid = connection.scalar(text("SELECT pg_backend_pid()"))
        postgres.execute(f"SELECT pg_terminate_backend({pid})")
    assert note(store) == "2"


def test_a_session_that_ends_at_the_commit_leaves_it_open_whether_the_change_was_made(postgres, opened):
    store = opened(postgres.database())

    def work(transaction):
        number = count(transaction)
        pid = transaction._connection.scalar(text("SELECT pg_backend_pid()"))
        postgres.execute(f"SELECT pg_terminate_backend({pid})")
        while postgres.execute(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid}"):
            time.sleep(0.01)
        return number

    with pytest.raises(StoreUnavailable, match="not known whether") as raised:
        run(store, work)
    assert not isinstance(raised.value, StoreConflict)
    assert PASSWORD not in str(raised.value)
    time.sleep(0.2)
    assert note(store) is None


def test_a_server_that_is_down_is_an_error_at_once_and_all_goes_on_when_it_is_back(own_postgres, opened):
    store = opened(own_postgres.database())
    assert run(store, count) == 1
    own_postgres.shut_down()
    begin_s = time.monotonic()
    for _ in range(20):
        with pytest.raises(StoreUnavailable, match="cannot be used") as raised:
            run(store, count)
        assert PASSWORD not in str(raised.value)
    assert time.monotonic() - begin_s < 2.0
    own_postgres.start()
    deadline_s = time.monotonic() + 10.0
    while time.monotonic() < deadline_s:
        with contextlib.suppress(StoreUnavailable):
            assert run(store, count) == 2
            break
    assert note(store) == "2"


def test_after_a_restart_somebody_else_may_hold_the_database_and_then_nothing_is_written(
    own_postgres, opened
):
    url = own_postgres.database()
    store = opened(url)
    assert run(store, count) == 1
    own_postgres.restart()
    with other(own_postgres, url) as session:
        session.execute(f"SELECT pg_advisory_lock({LOCK}, hashtext('public'))")
        with pytest.raises(StoreUnavailable, match="another control process"):
            run(store, count)
    while note_or_none(store) != "1":
        time.sleep(0.01)
    assert run(store, count) == 2


def note_or_none(store):
    with contextlib.suppress(StoreUnavailable):
        return note(store)


def family(pid):
    return [pid, *(int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


@pytest.mark.parametrize("connected", [True, False], ids=["in a transaction", "while connecting"])
def test_a_server_that_hangs_takes_no_longer_than_the_limit_and_at_most_half_of_the_time(
    own_postgres, opened, connected
):
    store = opened(own_postgres.database())
    assert run(store, count) == 1
    if not connected:
        store.engine.dispose()
    frozen = family(own_postgres.pid())
    stalls = []
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        begin_s = time.monotonic()
        while time.monotonic() - begin_s < 6.0:
            try_s = time.monotonic()
            with pytest.raises(StoreUnavailable):
                run(store, count)
            stalls.append(time.monotonic() - try_s)
            time.sleep(0.01)
        all_s = time.monotonic() - begin_s
    finally:
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert max(stalls) < 3.0, stalls
    assert sum(stalls) - stalls[-1] < 0.6 * (all_s - stalls[-1])
    deadline_s = time.monotonic() + 15.0
    while note_or_none(store) is None and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert note(store) == "1"


def test_a_server_that_comes_up_while_control_starts_is_waited_for(own_postgres, tmp_path, monkeypatch):
    url = own_postgres.database()
    own_postgres.shut_down()
    with pytest.raises(ConfigurationError, match="cannot be opened") as refusal:
        open_store(url, tmp_path, wait_s=0.0)
    assert PASSWORD not in str(refusal.value)
    monkeypatch.setattr(sql, "_AGAIN_S", 0.0)
    # Not time.sleep itself: to wait for a process sleeps, too, and would start the server a second time.
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: own_postgres.start())
    monkeypatch.setattr(sql, "time", clock)
    open_store(url, tmp_path, wait_s=10.0).close()


def test_one_transaction_takes_a_few_milliseconds(postgres, opened, record_property):
    store = opened(postgres.database())
    run(store, count)
    took = []
    for _ in range(50):
        begin_s = time.perf_counter()
        run(store, count)
        took.append(time.perf_counter() - begin_s)
    median_ms = sorted(took)[25] * 1000
    record_property("median_ms", median_ms)
    print(f"one transaction: {median_ms:.2f} ms")
    assert median_ms < 50.0
