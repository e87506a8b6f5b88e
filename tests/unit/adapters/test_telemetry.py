import contextlib
import json
import os
import socket
import stat
from pathlib import Path

import pytest

from tests.unit.dataplane.conftest import target
from warmroute.adapters import telemetry
from warmroute.adapters.fakes import FakeClock
from warmroute.adapters.telemetry import BATCH, BUFFERED_LINES_MAX, AccessLog, Telemetry
from warmroute.core.errors import ConfigurationError
from warmroute.core.events import FailureCause, Invocation
from warmroute.observe import catalogue
from warmroute.observe.projection import Projection
from warmroute.routing.health import HealthChange


def record(clock, request_id="r-1", **more):
    now_ns = clock.now_ns()
    fields = {"outcome": "completed", "status": 200, "ended_ns": now_ns, "endpoint": "llm"} | more
    return Invocation(request_id, "invocations", now_ns, **fields)


class Told:
    """A router's telemetry and all it tells."""

    def __init__(self, path=""):
        self.clock = FakeClock()
        self.log = AccessLog(str(path))
        self.projection = Projection()
        self.changes = []
        self.telemetry = Telemetry(
            projection=self.projection, log=self.log, clock=self.clock, on_health=self.changes.append
        )

    def total(self, metric):
        return sum(value for name, _, value in self.projection.snapshot({}).values if name == metric.name)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "access.log"


def read(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


# --- the file -----------------------------------------------------------------------------------


def test_lines_are_written_together_at_a_flush(path):
    log = AccessLog(str(path))
    log.add(b"1\n")
    log.add(b"2\n")
    assert path.read_bytes() == b""
    log.flush()
    assert path.read_bytes() == b"1\n2\n"
    log.flush()
    log.close()
    assert path.read_bytes() == b"1\n2\n"
    assert log.lost == 0


def test_only_the_owner_may_read_it(path):
    AccessLog(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_in_the_file_stays(path):
    path.write_bytes(b"before\n")
    log = AccessLog(str(path))
    log.add(b"after\n")
    log.close()
    assert path.read_bytes() == b"before\nafter\n"


def test_the_end_writes_what_was_kept(path):
    log = AccessLog(str(path))
    log.add(b"last\n")
    log.close()
    assert path.read_bytes() == b"last\n"
    log.close()
    assert not log.wanted


def descriptors(path):
    """Return this process's descriptors of a file."""
    links = Path("/proc/self/fd").iterdir()
    return [int(link.name) for link in links if os.path.realpath(link) == str(path)]


def test_children_do_not_inherit_it_and_it_is_closed(path):
    log = AccessLog(str(path))
    (descriptor,) = descriptors(path)
    assert not os.get_inheritable(descriptor)
    log.close()
    assert descriptors(path) == []


def test_a_dash_is_standard_output_which_stays_open(capfd):
    log = AccessLog("-")
    assert log.wanted
    log.add(b"line\n")
    log.close()
    assert capfd.readouterr().out == "line\n"
    os.fstat(1)


def test_without_a_path_nothing_goes_anywhere():
    log = AccessLog("")
    assert not log.wanted
    log.add(b"line\n")
    log.flush()
    log.close()
    assert log.lost == 0


def test_lines_beyond_the_limit_are_counted_as_lost(path):
    log = AccessLog(str(path))
    for _ in range(BUFFERED_LINES_MAX):
        log.add(b"x\n")
    assert log.lost == 0
    log.add(b"y\n")
    assert log.lost == 1
    log.close()
    assert path.read_bytes() == b"x\n" * BUFFERED_LINES_MAX


def test_lines_that_the_file_does_not_take_are_counted_as_lost():
    log = AccessLog("/dev/full")
    log.add(b"1\n")
    log.add(b"2\n")
    log.flush()
    assert log.lost == 2
    log.add(b"3\n")
    log.close()
    assert log.lost == 3


def test_what_a_file_takes_in_pieces_is_written_whole(path, monkeypatch):
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, data[:3]))
    log = AccessLog(str(path))
    log.add(b"12345\n")
    log.add(b"6\n")
    log.close()
    assert path.read_bytes() == b"12345\n6\n"
    assert log.lost == 0


@pytest.mark.parametrize("path", ["/nonexistent/access.log", "/", "/proc/access.log"])
def test_a_file_that_cannot_be_opened_is_a_wrong_setting(path):
    with pytest.raises(ConfigurationError, match=f"^The access log {path} cannot be opened: "):
        AccessLog(path)


def test_a_fifo_that_nobody_reads_is_refused_and_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        AccessLog(str(path))


# --- what may be full: pipes, sockets, terminals --------------------------------------------------


@pytest.fixture(params=["pipe", "socket", "fifo"])
def reader(request, path, monkeypatch):
    """Return the end that reads what is logged to standard output, or to a FIFO; not blocking."""
    other = None
    if request.param == "fifo":
        os.mkfifo(path)
        end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        log = AccessLog(str(path))
    else:
        if request.param == "pipe":
            end, other = os.pipe()
        else:
            pair = socket.socketpair()
            end, other = (one.detach() for one in pair)
        os.set_blocking(end, False)
        monkeypatch.setattr(telemetry, "_STANDARD_OUTPUT", other)
        log = AccessLog("-")
    reader = Reader(end, log, other)
    yield reader
    log.close()
    reader.leave()
    if other is not None:
        os.close(other)


class Reader:
    """The end that reads, and the log it reads from."""

    def __init__(self, end, log, standard_output):
        self.end = end
        self.log = log
        self.standard_output = standard_output

    def leave(self):
        """Close this end, once."""
        if self.end is not None:
            os.close(self.end)
        self.end = None

    def read(self):
        """Return what is there now."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.end, 1 << 20):
                data += piece
        return data


def lines_of(count, size=400):
    return [f"{number:06}".encode().ljust(size - 1, b".") + b"\n" for number in range(count)]


def test_a_reader_that_is_slow_gets_every_line_whole_and_in_order(reader):
    lines = lines_of(9000)
    for line in lines:
        reader.log.add(line)
    got = []
    reader.log.flush()
    while piece := reader.read():
        assert piece.endswith(b"\n")
        got += piece.splitlines(keepends=True)
        reader.log.flush()
    assert got == lines
    assert reader.log.lost == 0


def test_a_reader_that_reads_nothing_is_not_waited_for_and_lines_beyond_the_limit_are_lost(reader):
    lines = lines_of(2 * BUFFERED_LINES_MAX + 5000)
    for line in lines:
        reader.log.add(line)
        if line.endswith(b"9\n") or int(line[:6]) % 64 == 0:
            reader.log.flush()
    reader.log.flush()
    lost = reader.log.lost
    assert lost > 0
    got = reader.read()
    reader.log.flush()
    while piece := reader.read():
        got += piece
        reader.log.flush()
    assert got.splitlines(keepends=True) == lines[: len(lines) - lost]
    assert reader.log.lost == lost


def test_what_a_reader_has_not_taken_at_the_end_is_lost(reader):
    lines = lines_of(BUFFERED_LINES_MAX)
    for line in lines:
        reader.log.add(line)
    reader.log.close()
    got = reader.read().splitlines(keepends=True)
    assert got == lines[: len(got)]
    assert reader.log.lost == len(lines) - len(got) > 0


def test_a_reader_that_has_gone_loses_lines_and_nothing_else(reader):
    reader.leave()
    for line in lines_of(100):
        reader.log.add(line)
    reader.log.flush()
    assert reader.log.lost == 100


def test_a_line_longer_than_a_piece_is_written_whole(reader):
    lines = [b"x" * 200_000 + b"\n", b"y\n"]
    for line in lines:
        reader.log.add(line)
    reader.log.flush()
    got = b""
    while piece := reader.read():
        got += piece
        reader.log.flush()
    assert got == b"".join(lines)
    assert reader.log.lost == 0


def test_standard_output_stays_as_it_was_for_others(reader):
    reader.log.add(b"x\n")
    reader.log.flush()
    assert reader.read() == b"x\n"
    if reader.standard_output is not None:
        assert os.get_blocking(reader.standard_output)


def test_a_batch_is_written_at_once_where_little_is_taken_at_a_time(reader):
    told = Told()
    told.telemetry = Telemetry(
        projection=told.projection, log=reader.log, clock=told.clock, on_health=told.changes.append
    )
    for number in range(BATCH):
        told.telemetry.invocation_ended(record(told.clock, f"r-{number}"))
    assert len(reader.read().splitlines()) == BATCH


# --- facts --------------------------------------------------------------------------------------


def test_invocations_are_counted_and_logged_when_they_are_folded(path):
    told = Told(path)
    told.telemetry.invocation_ended(record(told.clock))
    assert told.total(catalogue.INVOCATIONS) == 0
    told.telemetry.fold()
    told.log.close()
    assert told.total(catalogue.INVOCATIONS) == 1
    assert [line["id"] for line in read(path)] == ["r-1"]


def test_a_batch_is_folded_by_itself(path):
    told = Told(path)
    for number in range(BATCH - 1):
        told.telemetry.invocation_ended(record(told.clock, f"r-{number}"))
    assert told.total(catalogue.INVOCATIONS) == 0
    told.telemetry.invocation_ended(record(told.clock, "last"))
    assert told.total(catalogue.INVOCATIONS) == BATCH
    told.telemetry.fold()
    assert told.total(catalogue.INVOCATIONS) == BATCH
    told.log.close()
    assert [line["id"] for line in read(path)] == [*(f"r-{number}" for number in range(BATCH - 1)), "last"]


def test_a_lines_time_is_that_of_the_end_not_of_the_folding(path):
    told = Told(path)
    ended_s = told.clock.wall_s()
    told.telemetry.invocation_ended(record(told.clock))
    told.clock.pass_s(30)
    told.telemetry.invocation_ended(record(told.clock, "later"))
    told.telemetry.fold()
    told.log.close()
    assert [line["time"] for line in read(path)] == pytest.approx([ended_s, ended_s + 30], abs=0.001)


def test_without_a_log_invocations_are_counted_all_the_same():
    told = Told()
    told.telemetry.invocation_ended(record(told.clock))
    told.telemetry.fold()
    assert told.total(catalogue.INVOCATIONS) == 1
    assert told.log.lost == 0


def test_a_failed_attempt_is_counted_at_once():
    told = Told()
    told.telemetry.attempt_failed(target("i-1"), FailureCause.CONNECT_FAILED, again=True)
    assert told.total(catalogue.ATTEMPT_FAILURES) == told.total(catalogue.RETRIES) == 1


def test_an_ejection_is_counted_and_passed_on_and_a_recovery_only_passed_on():
    told = Told()
    ejection = HealthChange("i-1", 1, ejected=True, reason="closed")
    recovery = HealthChange("i-1", 1, ejected=False, reason="recovered")
    told.telemetry.health_changed(ejection)
    told.telemetry.health_changed(recovery)
    assert told.total(catalogue.EJECTIONS) == 1
    assert told.changes == [ejection, recovery]
