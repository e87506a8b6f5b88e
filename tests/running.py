"""A running ``warmroute serve`` as tests see it, and what they ask the system about its processes."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

START_S_MAX = 30.0
STOP_S_MAX = 10.0


@dataclass
class Warmroute:
    """A running ``warmroute serve``."""

    process: subprocess.Popen
    data_dir: Path
    log: Path
    url: str = ""
    admin_url: str = ""
    stopped: bool = False

    @property
    def pid(self):
        """Of the supervisor."""
        return self.process.pid

    def child(self, name):
        """Return the process id of ``control`` or ``router-0``: the child that runs its module."""
        module = "warmroute.app.control_process" if name == "control" else "warmroute.app.router_process"
        for pid in children_of(self.pid):
            if module in command_line(pid):
                return pid
        raise LookupError(f"no {name} below {self.pid}\n{self.log_text()}")

    def log_text(self):
        return self.log.read_text(errors="replace")

    def get(self, path, *, admin=False, timeout=5.0):
        """Return (status, body) of a GET; status 0 when nobody answers."""
        return get(f"{self.admin_url if admin else self.url}{path}", timeout=timeout)

    def wait_until(self, condition, what, seconds=START_S_MAX):
        wait_until(condition, seconds=seconds, explain=lambda: f"{what}\n{self.log_text()}")

    def wait_for(self, path, status=200, seconds=START_S_MAX):
        self.wait_until(lambda: self.get(path)[0] == status, f"{path} never answered {status}", seconds)

    def wait_until_started(self, path):
        """Wait until it said its URLs and answers 200 on ``path``."""
        self.wait_until(lambda: self.find_urls() or self.process.poll() is not None, "it never said its URLs")
        self.wait_for(path)

    def wait_for_control(self):
        """Wait until the control plane answers; routers may serve before."""
        self.wait_until(lambda: self.get("/healthz", admin=True)[0] == 200, "control never answered")

    def stop(self, number=signal.SIGTERM):
        """Ask it to stop; return its exit status and how long it took, in seconds."""
        begin = time.monotonic()
        self.process.send_signal(number)
        try:
            status = self.process.wait(timeout=STOP_S_MAX + 5.0)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"still running {STOP_S_MAX + 5.0} s after the signal\n{self.log_text()}"
            ) from None
        self.stopped = True
        return status, time.monotonic() - begin

    def find_urls(self):
        """Read the URLs out of the log; return whether both are there."""
        found = dict(re.findall(r"^  (public|admin) +(http://\S+)$", self.log_text(), re.MULTILINE))
        self.url, self.admin_url = found.get("public", ""), found.get("admin", "")
        return len(found) == 2

    def finish(self):
        """End a server; return what was wrong with its end."""
        if self.process.poll() is not None:
            return "" if self.stopped else f"warmroute ended by itself\n{self.log_text()}"
        below = descendants_of(self.pid)
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=STOP_S_MAX + 5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = "none, it had to be killed"
        left = [f"{pid}: {command_line(pid)}" for pid in below if alive(pid)]
        if status == 0 and not left:
            return ""
        return f"exit status {status}, left behind: {left}\n{self.log_text()}"


def get(url, *, timeout=5.0):
    """Return (status, body) of a GET; status 0 when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except (OSError, ValueError):
        return 0, b""


def wait_until(condition, *, seconds=START_S_MAX, explain=lambda: "it never came true"):
    """Return when the condition holds; fail with an explanation when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(explain())
        time.sleep(0.02)


def children_of(pid):
    """Return the ids of a process's children, zombies left out."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(stat.parent.name))
    return found


def descendants_of(pid):
    """Return the ids of everything below a process."""
    children = children_of(pid)
    return children + [grandchild for child in children for grandchild in descendants_of(child)]


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def alive(pid):
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def clean_environment(**extra):
    """Return this process's environment without settings of warmroute or AWS."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WARMROUTE_", "AWS_"))}
    return {**kept, **extra}


def start_warmroute(*flags, data_dir, log, environment=None, cwd=None):
    """Start ``warmroute serve`` on free ports with these flags, its output in ``log``."""
    command = [sys.executable, "-m", "warmroute", "serve", "--port", "0", "--admin-port", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--data-dir", str(data_dir), *map(str, flags)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env=environment or clean_environment(),
        )
    return Warmroute(process, Path(data_dir), log)
