"""What the benchmark reads from the machine: CPU time and memory of processes, its CPUs, and facts.

Everything comes from ``/proc`` (proc(5)), so it costs the measured process nothing.
"""

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Placement:
    """Which CPU does what. The proxy has one to itself wherever there are two.

    Attributes:
        generator: CPU of the load generator and of this program.
        upstream: CPU of the upstreams.
        proxy: CPU of the proxy being measured.
    """

    generator: int
    upstream: int
    proxy: int

    def __str__(self) -> str:
        """Return it in words."""
        if self.generator == self.proxy:
            return f"everything on CPU {self.proxy}: only CPU time per request means anything here"
        shared = " and upstreams" if self.generator == self.upstream else ""
        other = "" if shared else f", upstreams on {self.upstream}"
        return f"load generator{shared} on CPU {self.generator}{other}, proxy alone on CPU {self.proxy}"


def choose_cpus() -> Placement:
    """Return the placement for the CPUs this process may use: proxy on the last, the rest in front."""
    cpus = sorted(os.sched_getaffinity(0))
    return Placement(generator=cpus[0], upstream=cpus[1] if len(cpus) > 2 else cpus[0], proxy=cpus[-1])


@contextlib.contextmanager
def on_cpu(cpu: int) -> Iterator[None]:
    """Run the block on one CPU; a process started inside stays there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin(pid: int, cpu: int) -> None:
    """Move every thread of a process to one CPU."""
    for task in (PROC / str(pid) / "task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), {cpu})


def _stat_fields(pid: int) -> list[str]:
    # The name in field 2 may hold blanks and brackets, so the fields are counted behind it: 0 is the state.
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def start_time(pid: int) -> str | None:
    """Return when a process began, which tells it from a later one with its pid; None when it is gone."""
    try:
        fields = _stat_fields(pid)
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def descendants(pid: int) -> list[int]:
    """Return a process and everything below it, parents first; empty when it is gone."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(_stat_fields(int(entry.name))[1]), []).append(int(entry.name))
    found = [pid] if start_time(pid) else []
    for current in found:
        found.extend(children.get(current, ()))
    return found


def command_line(pid: int) -> str:
    """Return a process's command line, empty when it is gone."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _thread_ns(pid: int) -> dict[int, int]:
    times: dict[int, int] = {}
    with contextlib.suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                times[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return times


@dataclass(frozen=True, slots=True)
class CpuMark:
    """CPU time of some processes at one moment, by thread: nanoseconds on a CPU since the thread began."""

    pids: tuple[int, ...]
    threads: dict[int, int]

    @classmethod
    def of(cls, pids: tuple[int, ...]) -> "CpuMark":
        """Read it now."""
        threads: dict[int, int] = {}
        for pid in pids:
            threads |= _thread_ns(pid)
        return cls(pids, threads)

    def seconds_since(self) -> float:
        """Return the CPU seconds, user and system, spent since this mark by threads that are still there."""
        now = CpuMark.of(self.pids).threads
        return sum(spent - self.threads.get(thread, 0) for thread, spent in now.items()) / 1e9


@dataclass(frozen=True, slots=True)
class CoreMark:
    """Busy and stolen time of one CPU at one moment, in seconds since boot (10 ms steps)."""

    cpu: int
    busy_s: float
    steal_s: float

    @classmethod
    def of(cls, cpu: int) -> "CoreMark":
        """Read it now."""
        for line in (PROC / "stat").read_text().splitlines():
            name, *ticks = line.split()
            if name == f"cpu{cpu}":
                user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks[:8])
                tick = os.sysconf("SC_CLK_TCK")
                return cls(cpu, (user + nice + system + irq + softirq) / tick, steal / tick)
        raise LookupError(f"/proc/stat has no cpu{cpu}")

    def since(self) -> tuple[float, float]:
        """Return (busy, stolen) seconds of the CPU since this mark."""
        now = CoreMark.of(self.cpu)
        return now.busy_s - self.busy_s, now.steal_s - self.steal_s


def rss_kib(pids: tuple[int, ...]) -> int:
    """Return the resident memory of some processes together, KiB; shared pages count in each."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            status = (PROC / str(pid) / "status").read_text()
            if found := re.search(r"^VmRSS:\s+(\d+)", status, re.MULTILINE):
                total += int(found[1])
    return total


def tool_path(name: str) -> str | None:
    """Return where a program is, looking where Debian keeps daemons too."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def tool_version(name: str, argument: str) -> str:
    """Return the version a program prints, or "not installed"."""
    path = tool_path(name)
    if path is None:
        return "not installed"
    done = subprocess.run([path, argument], capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else "unknown version"


def machine_facts() -> dict[str, str]:
    """Return what a reader must know of the machine to judge the numbers."""
    cpuinfo = (PROC / "cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    virtual = "hypervisor" in cpuinfo
    return {
        "cpu": (model[1] if model else platform.machine()) + (" (virtual machine)" if virtual else ""),
        "cpus usable": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {sys.version.split()[0]}",
        "load average before": " ".join(f"{x:.2f}" for x in os.getloadavg()),
        "wrk": tool_version("wrk", "-v"),
        "haproxy": tool_version("haproxy", "-v"),
        "nginx": tool_version("nginx", "-v"),
    }
