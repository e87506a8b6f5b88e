import socket
import time

import pytest

from warmroute.adapters.store.watchdog import Watchdog


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(5.0)
        yield ours, theirs


@pytest.fixture
def watchdog():
    made = Watchdog(0.2)
    yield made
    made.close()


def test_a_wait_without_end_ends_at_the_limit(watchdog, pair):
    ours, _ = pair
    begin_s = time.monotonic()
    with watchdog.over(ours.fileno()):
        assert ours.recv(1) == b""
    assert 0.15 < time.monotonic() - begin_s < 4.0


def test_one_after_another_is_watched_and_a_quick_one_is_left_alone(watchdog, pair):
    ours, theirs = pair
    for _ in range(50):
        with watchdog.over(ours.fileno()):
            theirs.sendall(b"x")
            assert ours.recv(1) == b"x"
    watchdog._due_s = 0.0  # as if the time of the last one had come
    with watchdog._condition:
        watchdog._condition.notify()
    theirs.sendall(b"y")
    assert ours.recv(1) == b"y"
    with watchdog.over(ours.fileno()):
        assert ours.recv(1) == b""


def test_a_descriptor_that_is_closed_by_then_is_no_error(watchdog, pair):
    ours, _ = pair
    with watchdog.over(ours.fileno()):
        ours.close()
        while watchdog._descriptor is not None:
            time.sleep(0.01)
