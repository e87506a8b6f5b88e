"""The supervisor with stand-in children, each a few lines of Python that write down what happens to them."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.running import alive, wait_until

pytestmark = pytest.mark.process

SUPERVISOR = """
import json, os, signal, sys
from warmroute.app.processes import ChildSpec
from warmroute.app.supervisor import Supervisor
from warmroute.core.errors import ConfigurationError

plan = json.loads(sys.argv[1])
def spec(name):
    return ChildSpec(
        name=name,
        command=(sys.executable, "-c", plan[name], plan["directory"], name),
        options=b"options of " + name.encode(),
        descriptors=(),
        death_signal=signal.SIGKILL if name == "control" else signal.SIGTERM,
    )
try:
    Supervisor(
        control=spec("control"),
        routers=(spec("router-0"),),
        total_s=plan["total_s"],
        keep_instances=plan["keep_instances"],
        environment=dict(os.environ),
        write_log=lambda lines: os.write(2, lines),
    ).run()
except ConfigurationError as error:
    sys.exit(f"refused: {error}")
"""

CHILD = """
import os, signal, sys, time
directory, name = sys.argv[1:]
def note(text):
    with open(f"{directory}/{name}", "a") as file:
        file.write(f"{text}\\n")
def end(number, frame):
    note(f"term {time.monotonic()}")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
note(f"pid {os.getpid()}")
note(f"got {sys.stdin.read()}")
"""
GOOD = CHILD + "while True: time.sleep(60)"
DEAF = CHILD + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"
CRASHING = CHILD + "print('about to fail', file=sys.stderr)\nsys.exit(1)"
MISCONFIGURED = CHILD + "print('a bad option', file=sys.stderr)\nsys.exit(2)"
# Leaves a grandchild in a session of its own behind and dies, as control does with model servers.
PARENT = (
    CHILD
    + """
import subprocess
server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
note(f"server {server.pid}")
while True: time.sleep(60)
"""
)


class Running:
    """A supervisor in a process of its own."""

    def __init__(
        self, directory, *, control=GOOD, router=GOOD, total_s=10.0, keep_instances=False, before=()
    ):
        self.directory = directory
        plan = {
            "control": control,
            "router-0": router,
            "total_s": total_s,
            "keep_instances": keep_instances,
            "directory": str(directory),
        }
        self.log = directory / "log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-c", SUPERVISOR, json.dumps(plan)], stdout=output, stderr=output
            )

    def notes(self, name, kind):
        """Return what a child wrote down of one kind, oldest first."""
        path = self.directory / name
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{kind} ")]

    def pids(self, name):
        return [int(pid) for pid in self.notes(name, "pid")]

    def wait_for_starts(self, name, count=1):
        wait_until(lambda: len(self.notes(name, "got")) >= count, seconds=20.0, explain=self.log.read_text)
        return self.pids(name)[-1]

    def stop(self, number=signal.SIGTERM):
        begin = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(timeout=20), time.monotonic() - begin


@pytest.fixture
def run(tmp_path):
    started = []

    def start(**options):
        running = Running(tmp_path, **options)
        started.append(running)
        return running

    yield start
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()


def test_gives_each_child_its_options_on_standard_input(run):
    supervisor = run()
    supervisor.wait_for_starts("control")
    supervisor.wait_for_starts("router-0")
    assert supervisor.notes("control", "got") == ["options of control"]
    assert supervisor.notes("router-0", "got") == ["options of router-0"]
    assert supervisor.stop()[0] == 0


def test_stops_the_router_before_control(run):
    supervisor = run()
    pids = [supervisor.wait_for_starts("control"), supervisor.wait_for_starts("router-0")]
    status, took_s = supervisor.stop()
    assert (status, [pid for pid in pids if alive(pid)]) == (0, [])
    assert supervisor.notes("router-0", "term") < supervisor.notes("control", "term")
    assert took_s < 3.0


@pytest.mark.parametrize("name", ["control", "router-0"])
def test_starts_a_killed_child_again_and_leaves_the_other_alone(run, name):
    supervisor = run()
    supervisor.wait_for_starts("control")
    supervisor.wait_for_starts("router-0")
    first = supervisor.pids(name)[0]
    subprocess.run(["kill", "-9", str(first)], check=True)
    assert supervisor.wait_for_starts(name, 2) != first
    other = "router-0" if name == "control" else "control"
    assert len(supervisor.pids(other)) == 1
    assert supervisor.stop()[0] == 0
    assert f"{name} (process {first}) ended after" in supervisor.log.read_text()
    assert "SIGKILL; starting it again in 0.1 s" in supervisor.log.read_text()


def test_waits_longer_each_time_a_child_fails(run):
    supervisor = run(control=CRASHING)
    supervisor.wait_for_starts("control", 3)
    assert supervisor.stop()[0] == 0
    log = supervisor.log.read_text()
    assert re.search(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z control \| about to fail$", log, re.MULTILINE)
    assert "exit status 1; starting it again in 0.1 s" in log
    assert "exit status 1; starting it again in 0.2 s" in log


def test_gives_up_when_a_child_refuses_its_options_at_the_first_start(run):
    supervisor = run(control=MISCONFIGURED)
    assert supervisor.process.wait(timeout=20) == 1
    log = supervisor.log.read_text()
    assert "control | a bad option\n" in log
    assert "refused: control cannot start; its log above says why" in log
    assert not any(map(alive, supervisor.pids("router-0")))


def test_kills_a_router_that_does_not_listen_and_still_stops_control_in_time(run):
    supervisor = run(router=DEAF, total_s=2.0)
    supervisor.wait_for_starts("control")
    deaf = supervisor.wait_for_starts("router-0")
    time.sleep(0.1)  # until it ignores the signal
    status, took_s = supervisor.stop()
    assert (status, alive(deaf), len(supervisor.notes("control", "term"))) == (0, False, 1)
    assert took_s < 2.0


def test_a_second_signal_hurries(run):
    supervisor = run(router=DEAF, control=DEAF, total_s=60.0)
    pids = [supervisor.wait_for_starts("control"), supervisor.wait_for_starts("router-0")]
    time.sleep(0.1)
    supervisor.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    status, took_s = supervisor.stop(signal.SIGINT)
    assert (status, [pid for pid in pids if alive(pid)]) == (0, [])
    assert took_s < 3.5


@pytest.mark.parametrize(("before", "stops"), [((), True), (("nohup",), False)])
def test_a_closed_terminal_stops_it_unless_nohup_says_otherwise(run, before, stops):
    supervisor = run(before=before)
    supervisor.wait_for_starts("control")
    supervisor.process.send_signal(signal.SIGHUP)
    if stops:
        assert supervisor.process.wait(timeout=20) == 0
    else:
        with pytest.raises(subprocess.TimeoutExpired):
            supervisor.process.wait(timeout=0.5)
        assert supervisor.stop()[0] == 0


def test_stops_model_servers_that_control_left_behind(run):
    supervisor = run(control=PARENT)
    wait_until(lambda: supervisor.notes("control", "server"))
    server = int(supervisor.notes("control", "server")[0])
    assert supervisor.stop()[0] == 0
    assert not alive(server)


def test_keeps_model_servers_when_asked_to(run):
    supervisor = run(control=PARENT, keep_instances=True)
    wait_until(lambda: supervisor.notes("control", "server"))
    server = int(supervisor.notes("control", "server")[0])
    assert supervisor.stop()[0] == 0
    assert alive(server)
    subprocess.run(["kill", "-9", str(server)], check=True)


def test_a_model_server_outlives_control_and_is_reaped_when_it_ends(run):
    supervisor = run(control=PARENT)
    control = supervisor.wait_for_starts("control")
    wait_until(lambda: supervisor.notes("control", "server"))
    server = int(supervisor.notes("control", "server")[0])
    subprocess.run(["kill", "-9", str(control)], check=True)
    supervisor.wait_for_starts("control", 2)
    assert alive(server)
    subprocess.run(["kill", "-9", str(server)], check=True)
    wait_until(lambda: not alive(server))
    wait_until(lambda: not Path(f"/proc/{server}").exists(), seconds=5.0)  # no zombie stays either
    assert supervisor.stop()[0] == 0


def test_children_die_with_the_supervisor(run):
    supervisor = run()
    pids = [supervisor.wait_for_starts("control"), supervisor.wait_for_starts("router-0")]
    supervisor.process.kill()
    supervisor.process.wait()
    wait_until(lambda: not any(map(alive, pids)), seconds=5.0)
    assert len(supervisor.notes("router-0", "term")) == 1  # asked, so that it can finish its streams
    assert supervisor.notes("control", "term") == []  # killed, so that it does not stop model servers
