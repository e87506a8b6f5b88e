import errno
import logging
import os

import pytest

from warmroute.adapters import decision_log
from warmroute.adapters.decision_log import BATCH, BUFFERED_BYTES_MAX, DecisionLog, check
from warmroute.core.errors import ConfigurationError
from warmroute.routing.log import FORMAT, Began, Ended, VariantChosen, decode

BEGAN = Began(FORMAT, "0.1.0", 1, "ff")
LINE = VariantChosen("llm", None, "", "", "v", 1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "decisions.jsonl"


def lines_of(path):
    return [decode(line) for line in path.read_bytes().splitlines()]


def test_lines_are_written_with_the_next_flush(path):
    log = DecisionLog(str(path), bytes_max=10_000)
    assert log.add(BEGAN)
    assert log.add(LINE)
    assert path.read_bytes() == b""
    log.flush()
    assert lines_of(path) == [BEGAN, LINE]
    log.close()


def test_the_end_of_the_router_is_written(path):
    log = DecisionLog(str(path), bytes_max=10_000)
    log.add(BEGAN)
    log.close()
    log.close()
    assert lines_of(path) == [BEGAN, Ended("stopped")]
    assert log.stopped == ""


def test_only_its_user_may_read_it(path):
    DecisionLog(str(path), bytes_max=10_000).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_much_is_written_without_waiting_for_a_flush(path):
    log = DecisionLog(str(path), bytes_max=100_000_000)
    count = 0
    while path.stat().st_size == 0:
        log.add(LINE)
        count += 1
        assert count < 100_000
    assert path.stat().st_size >= BUFFERED_BYTES_MAX
    assert count % BATCH == 0
    log.close()


def test_a_log_stops_at_its_limit_with_a_line_and_a_warning(path, caplog):
    log = DecisionLog(str(path), bytes_max=4000)
    log.add(BEGAN)
    added = 1
    while log.add(LINE):
        added += 1
        assert added < 10_000
    assert log.stopped == "full"
    assert not log.add(LINE)
    log.flush()
    log.close()
    *lines, last = lines_of(path)
    assert last == Ended("full")
    assert lines[0] == BEGAN
    assert len(lines) > BATCH - 2
    assert path.stat().st_size < 4000 + 100
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "has reached router.decision_log_bytes_max = 4000" in record.getMessage()


def test_a_write_that_fails_stops_the_log_and_nothing_else(path, caplog, monkeypatch):
    log = DecisionLog(str(path), bytes_max=10_000)
    log.add(BEGAN)
    log.flush()
    log.add(LINE)

    def full(_descriptor, _data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(decision_log.os, "write", full)
    log.flush()
    monkeypatch.undo()
    assert log.stopped == "failed"
    assert not log.add(LINE)
    log.close()
    assert lines_of(path) == [BEGAN]
    (record,) = caplog.records
    assert record.getMessage().endswith("serving goes on: it cannot be written: No space left on device.")


def test_a_write_that_takes_a_part_goes_on_with_the_rest(path, monkeypatch):
    write = os.write
    log = DecisionLog(str(path), bytes_max=10_000)
    monkeypatch.setattr(decision_log.os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    log.add(BEGAN)
    log.close()
    assert lines_of(path) == [BEGAN, Ended("stopped")]


def test_a_line_that_cannot_be_written_stops_the_log(path, caplog):
    log = DecisionLog(str(path), bytes_max=10_000)
    log.add(VariantChosen("\ud800"))
    log.flush()
    assert log.stopped == "failed"
    assert "a line of it cannot be written" in caplog.text
    log.close()
    assert path.read_bytes() == b""


def test_the_log_of_the_router_before_is_kept(path):
    for seed in ("1", "2", "3"):
        log = DecisionLog(str(path), bytes_max=10_000)
        log.add(Began(FORMAT, "0.1.0", 1, seed))
        log.close()
    assert lines_of(path)[0].seed == "3"
    assert lines_of(path.with_name("decisions.jsonl.1"))[0].seed == "2"


def test_a_log_that_cannot_be_begun_says_where_and_why(tmp_path, path):
    for place, problem in (
        (tmp_path / "missing" / "log", "No such file or directory"),
        (tmp_path, "File exists"),
    ):
        with pytest.raises(ConfigurationError, match=f"{place} cannot be opened: {problem}"):
            DecisionLog(str(place), bytes_max=10_000)
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match="File exists"):
        DecisionLog(str(path), bytes_max=10_000)


def test_a_place_is_looked_at_before_anything_is_started(tmp_path, path):
    check(str(path))
    path.write_text("an old log")
    check(str(path))
    for place, problem in (
        (tmp_path / "missing" / "log", "No such file or directory"),
        (path / "log", "Not a directory"),
        (tmp_path, "it exists and is no file"),
    ):
        with pytest.raises(
            ConfigurationError, match=f"{place} cannot be opened: {problem}.*router.decision_log"
        ):
            check(str(place))
    assert path.read_text() == "an old log"


def test_a_directory_without_the_right_to_write_is_refused(path, monkeypatch):
    monkeypatch.setattr(decision_log.os, "access", lambda _path, _mode: False)  # the tests may run as root
    with pytest.raises(ConfigurationError, match="Permission denied"):
        check(str(path))
