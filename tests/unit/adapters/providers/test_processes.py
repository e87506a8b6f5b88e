import asyncio
import contextlib
import os
import signal
import subprocess
import sys

import pytest

from warmroute.adapters.providers import processes

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]

HELPER_AND_END = (
    "import subprocess, sys; sleeper = [sys.executable, '-c', 'import time; time.sleep(600)']; "
    "print(subprocess.Popen(sleeper, stdout=subprocess.DEVNULL).pid)"
)
MARK = ("MARK", "a=b")


def ticks(pid):
    stat = processes.process_stat(pid)
    return stat.start_ticks if stat is not None else 0


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

    assert asyncio.run(processes.end_session(child.pid, start - 1, grace_s=0, mark=MARK))

    assert child.poll() is None


def test_what_cannot_be_killed_is_reported(child, monkeypatch):
    monkeypatch.setattr(processes, "signal_group", lambda *_: None)
    monkeypatch.setattr(processes, "_KILL_S_MAX", 0.01)
    start = processes.process_stat(child.pid).start_ticks

    assert not asyncio.run(processes.end_session(child.pid, start, grace_s=0.01, mark=MARK))


@pytest.mark.parametrize(
    ("mark", "killed"), [(("MARK", "a=b"), True), (("MARK", "a"), False), (("M", "b"), False)]
)
def test_what_is_left_of_a_session_is_ended_only_where_it_carries_the_mark(mark, killed):
    leader = subprocess.Popen(
        [sys.executable, "-c", HELPER_AND_END],
        start_new_session=True,
        env={**os.environ, "MARK": "a=b"},
        stdout=subprocess.PIPE,
    )
    start = processes.process_stat(leader.pid).start_ticks
    helper = int(leader.communicate()[0])
    try:
        assert asyncio.run(processes.end_session(leader.pid, start, grace_s=0, mark=mark))
        assert asyncio.run(processes.wait_for_end(helper, ticks(helper), 5 if killed else 0)) is killed
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(helper, signal.SIGKILL)
