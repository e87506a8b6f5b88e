"""Closed-loop load: N clients, each sending its next request when its last one is answered.

wrk does it where it is installed; else the Python generator below, which is slower, so that requests/s over
the wall clock may show the generator and not the proxy. Requests per second of proxy CPU time mean the same
either way.

Run as a program: ``load.py HOST PORT CLIENTS SECONDS REQUESTS_FILE`` prints one line of JSON.
"""

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import measure
import uvloop

LUA = """
local requests, turn = {}, tonumber(os.getenv("BENCH_FIRST")) or 0
local unique = os.getenv("BENCH_UNIQUE") == "1"
function init(arguments)
  local file = io.open(os.getenv("BENCH_REQUESTS"), "rb")
  while true do
    local size = file:read(4)
    if size == nil then break end
    local a, b, c, d = size:byte(1, 4)
    requests[#requests + 1] = file:read(((a * 256 + b) * 256 + c) * 256 + d)
  end
  file:close()
  if unique then
    local head, tail = requests[1]:match("^(.-)@@@@@@@@(.*)$")
    request = function()
      turn = turn + 1
      return head .. string.format("%08d", turn) .. tail
    end
  end
end
function request()
  turn = turn % #requests + 1
  return requests[turn]
end
function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    '\\n{"requests":%d,"seconds":%.6f,"p50_us":%d,"p90_us":%d,"p99_us":%d,"errors":%d,"not_2xx":%d}\\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50), latency:percentile(90), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
"""
UNIQUE_MARK = b"@@@@@@@@"
"""In the first request of the file, the place of the running number when every request has to be unique."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one short run found.

    Attributes:
        requests: Answered.
        seconds: Wall time.
        p50_us: Median latency, microseconds; likewise 90 % and 99 %.
        p90_us: See above.
        p99_us: See above.
        errors: Connections refused, broken or silent.
        not_2xx: Answers with another status.
        cpu_s: CPU time of the proxy, seconds; 0 without a proxy.
        others_s: Time the proxy's CPU was busy with anything else, stolen time included, seconds.
    """

    requests: int
    seconds: float
    p50_us: float
    p90_us: float
    p99_us: float
    errors: int
    not_2xx: int
    cpu_s: float = 0.0
    others_s: float = 0.0

    @property
    def per_core(self) -> float:
        """Requests per second of proxy CPU time."""
        return self.requests / self.cpu_s if self.cpu_s else 0.0

    @property
    def per_second(self) -> float:
        """Requests per second of wall time."""
        return self.requests / self.seconds


class LoadFailed(Exception):  # noqa: N818  (an outcome for the table)
    """The generator could not do its work; the text says what it printed."""


def generator_name() -> str:
    """Return which generator is used, in words."""
    return "wrk" if measure.tool_path("wrk") else "Python (uvloop): install wrk for a faster one"


def run_load(
    port: int,
    *,
    clients: int,
    seconds: int,
    requests: Path,
    placement: measure.Placement,
    pids: tuple[int, ...] = (),
    unique_from: int | None = None,
) -> Load:
    """Send requests for a while and measure.

    Args:
        port: Of the proxy, on loopback.
        clients: Connections, each with one request at a time.
        seconds: How long; whole, because wrk counts so.
        requests: File as `requests_made.requests_file` makes it.
        placement: Which CPU does what.
        pids: Processes of the proxy, for its CPU time.
        unique_from: Send the file's first request only, with `UNIQUE_MARK` replaced by a number counted from
            here.

    Raises:
        LoadFailed: The generator broke.
    """
    script = requests.with_suffix(".lua")
    wrk = measure.tool_path("wrk")
    environment = {"BENCH_REQUESTS": str(requests)}
    if unique_from is not None:
        environment |= {"BENCH_UNIQUE": "1", "BENCH_FIRST": str(unique_from)}
    if wrk is None:
        command = [sys.executable, str(Path(__file__).resolve()), str(port), str(clients), str(seconds)]
        command += [str(requests), str(-1 if unique_from is None else unique_from)]
    else:
        script.write_text(LUA)
        command = [wrk, "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "20s"]
        command += ["-s", str(script), f"http://127.0.0.1:{port}/"]
    cpu, core = measure.CpuMark.of(pids), measure.CoreMark.of(placement.proxy)
    with measure.on_cpu(placement.generator):
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=seconds + 60, check=False
        )
    spent = cpu.seconds_since()
    busy, stolen = core.since()
    try:
        found = json.loads(done.stdout.strip().splitlines()[-1])
        return Load(**found, cpu_s=spent, others_s=max(0.0, busy - spent) + stolen)
    except (IndexError, ValueError, TypeError) as error:
        raise LoadFailed((done.stderr or done.stdout).strip()[-300:] or f"no output: {error}") from None


def _read_requests(file: Path, unique_from: int) -> Iterator[bytes]:
    data = file.read_bytes()
    requests: list[bytes] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        requests.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    if unique_from < 0:
        return itertools.cycle(requests)
    head, tail = requests[0].split(UNIQUE_MARK)
    return (b"%b%08d%b" % (head, number, tail) for number in itertools.count(unique_from + 1))


class _Client(asyncio.Protocol):
    """One closed-loop client. Reads answers with a Content-Length, which is what the upstreams send."""

    transport: asyncio.Transport

    def __init__(self, requests: Iterator[bytes], latencies_ns: list[int], faults: list[int]) -> None:
        self.requests = requests
        self.latencies_ns = latencies_ns
        self.faults = faults
        self.began_ns = 0
        self.buffer = b""
        self.missing = 0
        self.stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's is no subclass of asyncio's
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (the protocol's signature)
        if not self.stopped:
            self.faults[0] += 1

    def _send(self) -> None:
        self.began_ns = time.perf_counter_ns()
        self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        if not self.missing:
            self.buffer += data
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.buffer[:end].lower()
            if not head.startswith(b"http/1.1 2"):
                self.faults[1] += 1
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            self.missing = end + 4 + length - len(self.buffer)
            self.buffer = b""
        else:
            self.missing -= len(data)
        if self.missing <= 0:
            self.missing = 0
            self.latencies_ns.append(time.perf_counter_ns() - self.began_ns)
            self._send()


async def _generate(port: int, clients: int, seconds: float, requests: Iterator[bytes]) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    latencies_ns: list[int] = []
    faults = [0, 0]
    made: list[_Client] = []
    began = time.perf_counter()
    for _ in range(clients):
        _, client = await loop.create_connection(
            lambda: _Client(requests, latencies_ns, faults), "127.0.0.1", port
        )
        made.append(client)
    await asyncio.sleep(seconds)
    elapsed = time.perf_counter() - began
    for client in made:
        client.stopped = True
        client.transport.abort()
    ordered = sorted(latencies_ns) or [0]

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1000

    return {
        "requests": len(latencies_ns),
        "seconds": elapsed,
        "p50_us": at(0.5),
        "p90_us": at(0.9),
        "p99_us": at(0.99),
        "errors": faults[0],
        "not_2xx": faults[1],
    }


if __name__ == "__main__":
    _port, _clients, _seconds, _file, _unique = sys.argv[1:]
    _source = _read_requests(Path(_file), int(_unique))
    print(json.dumps(uvloop.run(_generate(int(_port), int(_clients), float(_seconds), _source))))
