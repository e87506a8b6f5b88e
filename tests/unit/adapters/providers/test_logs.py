import os

import pytest

from warmroute.adapters.providers import logs
from warmroute.adapters.providers.logs import LocalLogs
from warmroute.controlplane.ports import LogPiece
from warmroute.core.limits import ENDED_LOGS_MAX, EXIT_DETAIL_CHARACTERS_MAX


def test_the_last_lines_that_say_something(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n\n" % number for number in range(9000)) + b"\xff end  \n \n")
    assert logs.last_lines(log) == "line 8996\nline 8997\nline 8998\nline 8999\n\ufffd end"
    assert logs.last_lines(log, 1) == "\ufffd end"


def test_no_log_has_no_lines(tmp_path):
    assert logs.last_lines(tmp_path / "log") == ""


def test_long_lines_are_cut_at_the_front(tmp_path):
    log = tmp_path / "log"
    log.write_text("x" * 5000 + "reason")
    assert len(logs.last_lines(log)) == EXIT_DETAIL_CHARACTERS_MAX
    assert logs.last_lines(log).endswith("reason")


def test_a_log_at_its_bound_stays_and_one_past_it_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "INSTANCE_LOG_BYTES_MAX", 100)
    monkeypatch.setattr(logs, "INSTANCE_LOG_KEPT_BYTES", 10)
    log = tmp_path / "log"
    log.write_text("a" * 100)
    logs.cap_log(log)
    assert log.read_text() == "a" * 100
    log.write_text("a" * 91 + "0123456789")
    logs.cap_log(log)
    assert log.read_text() == "[warmroute: older lines were removed]\n0123456789"
    logs.cap_log(tmp_path / "none")


def test_ended_logs_are_kept_up_to_a_number_the_oldest_going_first(tmp_path):
    kept = tmp_path / "ended"
    for number in range(ENDED_LOGS_MAX + 1):
        log = tmp_path / "log"
        log.write_text(str(number))
        os.utime(log, (number, number))
        logs.keep_ended_log(log, kept, f"i-{number}")
    logs.keep_ended_log(tmp_path / "none", kept, "i-none")
    assert {path.stem for path in kept.iterdir()} == {
        f"i-{number}" for number in range(1, ENDED_LOGS_MAX + 1)
    }


# --- Reading for an operator -----------------------------------------------------------------


def of_instance(tmp_path, data, *, ended=False):
    """Write an instance's log and return what reads it."""
    path = tmp_path / ("ended-logs/i-1.log" if ended else "instances/i-1/log")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return LocalLogs(tmp_path)


def test_the_last_bytes_of_a_log_are_read_and_then_what_comes_after(tmp_path):
    local = of_instance(tmp_path, b"one\ntwo\nthree\n")
    assert local.read("i-1", begin=None, bytes_max=6) == LogPiece("three\n", 8, 14, 14)
    of_instance(tmp_path, b"one\ntwo\nthree\nfour\n")
    assert local.read("i-1", begin=14, bytes_max=100) == LogPiece("four\n", 14, 19, 19)
    assert local.read("i-1", begin=19, bytes_max=100) == LogPiece("", 19, 19, 19)


def test_a_long_log_comes_in_pieces_of_the_bound(tmp_path):
    local = of_instance(tmp_path, b"abcdefgh")
    assert local.read("i-1", begin=0, bytes_max=8) == LogPiece("abcdefgh", 0, 8, 8)
    assert local.read("i-1", begin=0, bytes_max=7) == LogPiece("abcdefg", 0, 7, 8)


def test_a_log_that_was_cut_is_read_from_its_beginning(tmp_path):
    local = of_instance(tmp_path, b"new\n")
    assert local.read("i-1", begin=1000, bytes_max=100) == LogPiece("new\n", 0, 4, 4)


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_character_is_never_cut_in_two(tmp_path, cut):
    local = of_instance(tmp_path, "a\N{GRINNING FACE}b".encode())
    first = local.read("i-1", begin=0, bytes_max=cut)
    second = local.read("i-1", begin=first.end, bytes_max=100)
    assert first.text + second.text == "a\N{GRINNING FACE}b"


def test_a_character_that_never_ends_is_shown_once_the_instance_has_ended(tmp_path):
    assert of_instance(tmp_path, b"a\xf0\x9f").read("i-1", begin=0, bytes_max=100).text == "a"
    (tmp_path / "instances/i-1/log").unlink()
    ended = of_instance(tmp_path, b"a\xf0\x9f", ended=True).read("i-1", begin=0, bytes_max=100)
    assert (ended.text, ended.end, ended.ended) == ("a\N{REPLACEMENT CHARACTER}", 3, True)


@pytest.mark.parametrize("name", ["i-2", "", "../i-1", "i-1/../i-1", "i" * 65, "i-1\n"])
def test_only_an_id_names_a_log(tmp_path, name):
    assert of_instance(tmp_path, b"x").read(name, begin=None, bytes_max=100) is None
