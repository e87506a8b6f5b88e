"""The demo's server, with small programs in warmroute's place."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from warmroute.adapters.providers.processes import marked_processes
from warmroute.cli.demo import server as demo_server
from warmroute.cli.demo.server import DemoError, running_warmroute

ANSWER = """
import http.server, os, sys
assert not [name for name in os.environ if name.startswith("WARMROUTE_")]
port = int(sys.argv[sys.argv.index("--port") + 1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
IGNORE_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + ANSWER
LEAVE_A_SERVER_BEHIND = (
    """
import os, subprocess, sys
data = sys.argv[sys.argv.index("--data-dir") + 1]
subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)"],
    env={**os.environ, "WARMROUTE_INSTANCE_DIRECTORY": os.path.realpath(data) + "/instances/i-1"},
    start_new_session=True,
)
"""
    + ANSWER
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def warmroute_is(monkeypatch, program: str) -> list[int]:
    real, started = subprocess.Popen, []

    def popen(command, **options):
        process = real([sys.executable, "-c", program, *command], **options)
        started.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", popen)
    return started


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_server_runs_for_the_time_of_the_block_and_its_folder_with_it(folder, monkeypatch):
    monkeypatch.setenv("WARMROUTE_SERVER__PORT", "1")
    started = warmroute_is(monkeypatch, ANSWER)

    with running_warmroute() as server:
        server.check()
        assert len(list(folder.iterdir())) == 1
        assert server.url.startswith("http://127.0.0.1:")

    assert is_gone(started[0])
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_nothing_is_left_however_the_block_ends(folder, monkeypatch, raised):
    started = warmroute_is(monkeypatch, ANSWER)

    with pytest.raises(raised), running_warmroute():
        raise raised

    assert is_gone(started[0])
    assert list(folder.iterdir()) == []


def test_a_server_that_cannot_start_is_quoted(folder, monkeypatch):
    warmroute_is(monkeypatch, "raise SystemExit('warmroute: port 80 is in use')")

    with (
        pytest.raises(
            DemoError, match=r"ended with status 1\. Its last lines:\nwarmroute: port 80 is in use"
        ),
        running_warmroute(),
    ):
        pass

    assert list(folder.iterdir()) == []


def test_a_server_that_does_not_answer_is_given_up(folder, monkeypatch):
    started = warmroute_is(monkeypatch, "import time; time.sleep(600)")
    monkeypatch.setattr(demo_server, "READY_S_MAX", 0.2)

    with pytest.raises(DemoError, match="did not answer within"), running_warmroute():
        pass

    assert is_gone(started[0])


def test_a_server_that_dies_later_is_noticed(folder, monkeypatch):
    started = warmroute_is(monkeypatch, ANSWER)

    with running_warmroute() as server:
        os.kill(started[0], signal.SIGKILL)
        os.waitid(os.P_PID, started[0], os.WEXITED | os.WNOWAIT)
        with pytest.raises(DemoError, match="ended with status -9"):
            server.check()


def test_a_server_that_ignores_sigterm_is_killed(folder, monkeypatch):
    started = warmroute_is(monkeypatch, IGNORE_SIGTERM)
    monkeypatch.setattr(demo_server, "STOP_S_MAX", 0.2)

    with running_warmroute():
        pass

    assert is_gone(started[0])


def test_a_second_interrupt_hurries_the_stopping_and_does_not_break_it_off(folder, monkeypatch):
    started = warmroute_is(monkeypatch, IGNORE_SIGTERM)
    begin = time.monotonic()

    def interrupt_twice():
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), running_warmroute():
        interrupt_twice()

    assert time.monotonic() - begin < 10
    assert is_gone(started[0])
    assert list(folder.iterdir()) == []


def test_a_model_server_left_behind_is_ended(folder, monkeypatch):
    warmroute_is(monkeypatch, LEAVE_A_SERVER_BEHIND)

    with running_warmroute():
        ours = [name for name in marked_processes("WARMROUTE_INSTANCE_DIRECTORY") if str(folder) in name]
        assert len(ours) == 1

    left = [name for name in marked_processes("WARMROUTE_INSTANCE_DIRECTORY") if str(folder) in name]
    assert left == []
