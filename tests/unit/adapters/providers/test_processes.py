import asyncio
import os
import signal
import subprocess
import sys

import pytest

from warmroute.adapters.providers import processes

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def child():
    process = subprocess.Popen(SLEEPER, start_new_session=True, env={**os.environ, "MARK": "a=b"})
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("name", ["python", "a b", "x) S 1 1 (y", ")"])
def test_a_command_name_with_spaces_and_brackets_does_not_shift_the_fields(name):
    numbers = " ".join(str(number) for number in range(5, 53))
    stat = processes.parse_stat(f"42 ({name}) S 1 {numbers}")
    assert (stat.pid, stat.state, stat.group, stat.session, stat.start_ticks) == (42, "S", 5, 6, 22)


@pytest.mark.parametrize("text", ["", "42 (python", "42 (python) S 1 2"])
def test_another_shape_is_refused(text):
    with pytest.raises(ValueError, match="not a /proc/PID/stat"):
        processes.parse_stat(text)


def test_a_process_is_known_by_id_and_start(child):
    stat = processes.process_stat(child.pid)
    assert (stat.pid, stat.group, stat.session) == (child.pid, child.pid, child.pid)
    assert processes.is_running(child.pid, stat.start_ticks)
    assert not processes.is_running(child.pid, stat.start_ticks + 1)


def test_an_unknown_process_is_none_and_has_no_environment():
    assert processes.process_stat(2**22 + 1) is None
    assert processes.environment_value(2**22 + 1, "PATH") is None


def test_marked_processes_are_found_by_the_value_of_their_variable(child):
    marked = processes.marked_processes("MARK")
    assert [stat.pid for stat in marked["a=b"]] == [child.pid]
    assert processes.environment_value(child.pid, "MAR") is None


def test_waiting_ends_with_the_process_or_the_time(child):
    start = processes.process_stat(child.pid).start_ticks

    async def scenario():
        in_time = await processes.wait_for_end(child.pid, start, 0.01)
        stranger = await processes.wait_for_end(child.pid, start + 1, 10)
        child.kill()
        return in_time, stranger, await processes.wait_for_end(child.pid, start, 10)

    assert asyncio.run(scenario()) == (False, True, True)


def test_waiting_for_nobody_ends_at_once():
    assert asyncio.run(processes.wait_for_end(2**22 + 1, 0, 10))


def test_a_group_that_is_gone_takes_a_signal_without_complaint():
    processes.signal_group(2**22 + 1, signal.SIGTERM)


def test_ending_a_session_whose_id_belongs_to_a_stranger_ends_nobody(child):
    start = processes.process_stat(child.pid).start_ticks

    assert asyncio.run(processes.end_session(child.pid, start - 1, 0))

    assert child.poll() is None


def test_what_cannot_be_killed_is_reported(child, monkeypatch):
    monkeypatch.setattr(processes, "signal_group", lambda *_: None)
    monkeypatch.setattr(processes, "_KILL_S_MAX", 0.01)
    start = processes.process_stat(child.pid).start_ticks

    assert not asyncio.run(processes.end_session(child.pid, start, 0.01))
