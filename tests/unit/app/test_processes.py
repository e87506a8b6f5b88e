import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import alive, wait_until
from warmroute.app.processes import ChildSpec, children, describe_exit, send, signals_as_bytes, start


def spec(code, **changes):
    given = {
        "name": "child",
        "command": (sys.executable, "-c", code),
        "options": b"",
        "descriptors": (),
        "death_signal": signal.SIGKILL,
        **changes,
    }
    return ChildSpec(**given)


def run(child_spec, environment=None):
    """Start a child, wait for its end, and return what it logged and its exit code."""
    child = start(child_spec, environment if environment is not None else dict(os.environ))
    _, status = os.waitpid(child.pid, 0)
    os.set_blocking(child.log, True)
    with os.fdopen(child.log, "rb") as log:
        return log.read().decode(), os.waitstatus_to_exitcode(status)


def test_a_child_reads_its_options_to_the_end():
    options = b"x" * 1_000_000
    shown, code = run(spec("import sys; sys.exit(len(sys.stdin.read()) == 1_000_000)", options=options))
    assert (shown, code) == ("", 1)


def test_a_child_logs_on_standard_error_and_has_the_given_environment():
    shown, _ = run(spec("import os, sys; sys.stderr.write(os.environ['A'])"), {"A": "b"})
    assert shown == "b"


def test_a_child_inherits_the_named_descriptors_and_no_other():
    reader, writer = os.pipe()
    code = (
        "import os, sys\n"
        f"os.write({writer}, b'hello')\n"
        "try:\n"
        f"    os.fstat({reader})\n"
        "except OSError:\n"
        "    sys.stderr.write('the other one is closed')\n"
    )
    try:
        shown, _ = run(spec(code, descriptors=(writer,)))
        assert (os.read(reader, 5), shown) == (b"hello", "the other one is closed")
    finally:
        os.close(reader)
        os.close(writer)


def test_a_child_leads_a_session_of_its_own():
    shown, _ = run(spec("import os, sys; sys.stderr.write(str(os.getsid(0) == os.getpid()))"))
    assert shown == "True"


def test_a_program_that_is_not_there_is_an_error_and_leaves_no_descriptor():
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        start(spec("", command=("/no/such/program",)), {})
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_child_dies_with_its_parent():
    code = (
        "import os, signal, sys, time\n"
        "from warmroute.app.processes import ChildSpec, start\n"
        "command = (sys.executable, '-c', 'import time; time.sleep(600)')\n"
        "child = start(ChildSpec('c', command, b'', (), signal.SIGTERM), os.environ)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not alive(child), seconds=10.0)


def test_signals_become_bytes_and_their_handlers_come_back():
    before = signal.getsignal(signal.SIGHUP)
    with signals_as_bytes((signal.SIGHUP,)) as signals:
        os.kill(os.getpid(), signal.SIGHUP)
        assert list(signals.recv(10)) == [signal.SIGHUP]
    assert signal.getsignal(signal.SIGHUP) == before


def test_children_are_found():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        assert process.pid in children()
    finally:
        process.kill()
        process.wait()
    assert process.pid not in children()


def test_a_process_that_is_gone_can_be_signalled():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    send(process.pid, signal.SIGTERM)


@pytest.mark.parametrize(
    ("code", "text"), [(0, "exit status 0"), (2, "exit status 2"), (-9, "SIGKILL"), (-200, "signal 200")]
)
def test_an_end_is_described(code, text):
    assert describe_exit(code) == text
