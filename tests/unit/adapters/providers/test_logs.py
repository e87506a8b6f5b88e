import os

from warmroute.adapters.providers import logs
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
