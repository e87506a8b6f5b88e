"""The proxies under test, each set up as its own documentation suggests for speed.

A *server* is a process; a *row* is a way to use it (a route, with or without credentials). Peers are given
every advantage we know of: no access log, logging at errors only, large buffers, keep-alive to the
upstreams. warmroute runs as a user gets it: authentication parsing, ledger, metrics and access log on.
"""

import contextlib
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import measure
from processes import DidNotStart, Process, Processes, free_ports, wait_for_port
from requests_made import ACCESS_KEY, SECRET_KEY, Credential, chat_body, request_head, split_head, stream_body

PEERS = Path(__file__).resolve().parent.parent / ".peers"
WHEELS = {"vllm-router": "0.1.17", "sglang-router": "0.3.2"}
READY_S = 40.0


class Family(Enum):
    """What a row is compared with."""

    DIRECT = "no proxy"
    GENERAL = "general proxy"
    RUST = "LLM router in Rust"
    WARMROUTE = "warmroute"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the tables.

    Attributes:
        name: As shown and as given to ``--proxies``.
        server: The server it uses; empty for none.
        family: What it is compared with.
        path: Of a chat request answered in one piece.
        stream_path: Of one answered as a stream.
        credential: What the requests carry.
        main: Measured in every case; the others at 32 KB only.
        streams: Takes part in the streaming case.
        memory: Takes part in the memory cases.
        with_user: Requests carry an ``X-User-Id``.
    """

    name: str
    server: str
    family: Family
    path: str = "/v1/chat/completions"
    stream_path: str = "/v1/chat/completions"
    credential: Credential = Credential.NONE
    main: bool = True
    streams: bool = True
    memory: bool = True
    with_user: bool = False


NATIVE, NATIVE_STREAM = "/endpoints/llm/invocations", "/endpoints/llm/invocations-response-stream"
OPENAI = "/endpoints/llm/openai/v1/chat/completions"
ROWS = (
    Row("direct", "", Family.DIRECT, streams=False, memory=False),
    Row("haproxy", "haproxy", Family.GENERAL),
    Row("nginx", "nginx", Family.GENERAL),
    # It hashes a session or user id and sends everything to one instance without it.
    Row("vllm consistent_hash", "vllm consistent_hash", Family.RUST, with_user=True),
    Row("vllm cache_aware", "vllm cache_aware", Family.RUST, main=False, streams=False),
    Row("sglang cache_aware", "sglang cache_aware", Family.RUST, streams=False),
    Row("sglang random", "sglang random", Family.RUST, main=False, memory=False),
    Row("warmroute native", "warmroute", Family.WARMROUTE, NATIVE, NATIVE_STREAM),
    Row("warmroute openai", "warmroute", Family.WARMROUTE, OPENAI, OPENAI, memory=False),
    Row("warmroute /v1", "warmroute", Family.WARMROUTE, main=False, streams=False, memory=False),
    Row(
        "warmroute native+sigv4",
        "warmroute auth",
        Family.WARMROUTE,
        NATIVE,
        NATIVE_STREAM,
        Credential.SIGV4,
        main=False,
        streams=False,
        memory=False,
    ),
    Row(
        "warmroute openai+token",
        "warmroute auth",
        Family.WARMROUTE,
        OPENAI,
        OPENAI,
        Credential.TOKEN,
        main=False,
        streams=False,
        memory=False,
    ),
)


@dataclass(eq=False, slots=True)
class Server:
    """A proxy that runs.

    Attributes:
        name: As in `SERVERS`.
        version: What it says it is.
        port: Where it listens on loopback.
        process: The process we started.
        pids: The processes whose CPU time and memory count: all of them, or the router alone.
    """

    name: str
    version: str
    port: int
    process: Process
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Bench:
    """What starting a server needs."""

    processes: Processes
    folder: Path
    placement: measure.Placement
    upstream_ports: tuple[int, ...]
    instances: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Derive the URLs."""
        object.__setattr__(
            self, "instances", tuple(f"http://127.0.0.1:{port}" for port in self.upstream_ports)
        )

    def start(
        self, name: str, command: list[str], *, cpu: int, environment: dict[str, str] | None = None
    ) -> Process:
        """Start a program with a log file of its own."""
        log = self.folder / f"{name.replace(' ', '-')}-{free_ports(1)[0]}.log"
        return self.processes.start(name, command, cpu=cpu, log=log, environment=environment)


HAPROXY = """global
  nbthread 1
  maxconn 6000
defaults
  mode http
  option http-no-delay
  http-reuse always
  timeout client 1h
  timeout server 1h
  timeout connect 5s
frontend public
  bind 127.0.0.1:{port}
  default_backend instances
backend instances
  balance roundrobin
{servers}
"""

NGINX = """daemon off;
worker_processes 1;
pid {folder}/nginx-{port}.pid;
error_log stderr error;
events {{ worker_connections 16000; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
  client_max_body_size 30m;
  client_body_buffer_size 512k;
  client_body_temp_path {folder}/nginx-{port}-body;
  proxy_temp_path {folder}/nginx-{port}-proxy;
  fastcgi_temp_path {folder}/nginx-{port}-fastcgi;
  uwsgi_temp_path {folder}/nginx-{port}-uwsgi;
  scgi_temp_path {folder}/nginx-{port}-scgi;
  upstream instances {{
{servers}
    keepalive 2048;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://instances;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 1h;
    }}
  }}
}}
"""


def _haproxy(bench: Bench) -> Server:
    program = _need("haproxy")
    (port,) = free_ports(1)
    servers = "\n".join(f"  server i{port} 127.0.0.1:{port}" for port in bench.upstream_ports)
    config = bench.folder / f"haproxy-{port}.cfg"
    config.write_text(HAPROXY.format(port=port, servers=servers))
    process = bench.start("haproxy", [program, "-db", "-f", str(config)], cpu=bench.placement.proxy)
    return Server("haproxy", measure.tool_version("haproxy", "-v"), port, process)


def _nginx(bench: Bench) -> Server:
    program = _need("nginx")
    (port,) = free_ports(1)
    servers = "\n".join(f"    server 127.0.0.1:{port};" for port in bench.upstream_ports)
    config = bench.folder / f"nginx-{port}.conf"
    config.write_text(NGINX.format(port=port, servers=servers, folder=bench.folder))
    command = [program, "-p", str(bench.folder), "-e", "stderr", "-c", str(config)]
    process = bench.start("nginx", command, cpu=bench.placement.proxy)
    return Server("nginx", measure.tool_version("nginx", "-v"), port, process)


def _rust(bench: Bench, *, wheel: str, subcommand: list[str], policy: str) -> Server:
    program = PEERS / "bin" / wheel
    if not program.exists():
        raise DidNotStart(f"{wheel} {WHEELS[wheel]} is not installed ({_why_not_installed()})")
    port, metrics = free_ports(2)
    command = [str(program), *subcommand, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--prometheus-port", str(metrics), "--policy", policy, "--log-level", "error"]
    command += ["--worker-urls", *bench.instances]
    name = f"{wheel.removesuffix('-router')} {policy}"
    process = bench.start(name, command, cpu=bench.placement.proxy)
    return Server(name, WHEELS[wheel], port, process)


def _warmroute(bench: Bench, *, name: str, environment: dict[str, str]) -> Server:
    port, admin_port = free_ports(2)
    command = [sys.executable, "-m", "warmroute", "serve", "--instances", ",".join(bench.instances)]
    command += ["--endpoint", "llm", "--strategy", "PREFIX_AWARE", "--prefix-length", "4096"]
    command += ["--concurrency-threshold", "32", "--port", str(port), "--admin-port", str(admin_port)]
    command += ["--data-dir", str(bench.folder / f"warmroute-{port}")]
    process = bench.start(name, command, cpu=bench.placement.generator, environment=environment)
    version = subprocess.run(
        [sys.executable, "-m", "warmroute", "--version"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return Server(name, version or "unknown version", port, process)


_CREDENTIALS = {
    "WARMROUTE_ACCESS_KEY_ID": ACCESS_KEY,
    "WARMROUTE_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_REGION": "us-east-1",
}
SERVERS: dict[str, Callable[[Bench], Server]] = {
    "haproxy": _haproxy,
    "nginx": _nginx,
    "vllm consistent_hash": lambda bench: _rust(
        bench, wheel="vllm-router", subcommand=[], policy="consistent_hash"
    ),
    "vllm cache_aware": lambda bench: _rust(bench, wheel="vllm-router", subcommand=[], policy="cache_aware"),
    "sglang cache_aware": lambda bench: _rust(
        bench, wheel="sglang-router", subcommand=["launch"], policy="cache_aware"
    ),
    "sglang random": lambda bench: _rust(
        bench, wheel="sglang-router", subcommand=["launch"], policy="random"
    ),
    "warmroute": lambda bench: _warmroute(bench, name="warmroute", environment={}),
    "warmroute auth": lambda bench: _warmroute(bench, name="warmroute auth", environment=_CREDENTIALS),
}


def start_servers(
    bench: Bench, rows: list[Row], *, streamed: bool
) -> tuple[dict[str, Server], dict[str, str]]:
    """Start the servers that some rows use, all at once.

    Args:
        bench: What they need.
        rows: The rows.
        streamed: Their upstreams answer with endless streams.

    Returns:
        Those that answered a chat request, by name, and for the others the reason.
    """
    started: dict[str, Server] = {}
    reasons: dict[str, str] = {}
    for name in dict.fromkeys(row.server for row in rows if row.server):
        try:
            started[name] = SERVERS[name](bench)
        except DidNotStart as error:
            reasons[name] = str(error)
    deadline = time.monotonic() + READY_S
    for name, server in list(started.items()):
        row = next(row for row in rows if row.server == name)
        try:
            _wait_until_ready(server, row, deadline, streamed=streamed)
            server.pids = _measured_pids(server, bench.placement)
        except DidNotStart as error:
            reasons[name] = str(error)
            bench.processes.stop(started.pop(name).process)
    return started, reasons


def _wait_until_ready(server: Server, row: Row, deadline: float, *, streamed: bool) -> None:
    wait_for_port(server.process, server.port, seconds=max(2.0, deadline - time.monotonic()))
    body = stream_body(1024, number=0) if streamed else chat_body(1024, number=0)
    route = row.stream_path if streamed else row.path
    said = "nothing"
    while True:
        path, headers = split_head(request_head(route, row.credential, server.port, body))
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                # A stream never ends: its first bytes are enough to see that the route works.
                if answer.status == 200 and answer.read(16):
                    return
        except urllib.error.HTTPError as error:
            said = f"{error.code} {error.read(300).decode(errors='replace')}"
        except OSError as error:
            said = repr(error)
        if server.process.popen.poll() is not None or time.monotonic() > deadline:
            said = " ".join(said.split())
            raise DidNotStart(f"did not serve {route}: {said}; its log: {server.process.last_words()}")
        time.sleep(0.2)


def _measured_pids(server: Server, placement: measure.Placement) -> tuple[int, ...]:
    """Return what counts as the proxy: warmroute's router process, and everything there is of the others."""
    family = measure.descendants(server.process.pid)
    if not server.name.startswith("warmroute"):
        return tuple(family)
    routers = tuple(pid for pid in family if "router_process" in measure.command_line(pid))
    if not routers:
        raise DidNotStart("warmroute runs no process with router_process in its command line")
    for pid in routers:
        measure.pin(pid, placement.proxy)
    return routers


def _need(program: str) -> str:
    path = measure.tool_path(program)
    if path is None:
        raise DidNotStart(f"{program} is not installed (Debian: apt-get install {program})")
    return path


def install_wheels(say: Callable[[str], None]) -> None:
    """Install the routers that come as wheels into ``benchmarks/.peers``, unless they are there.

    A failure leaves its message in ``benchmarks/.peers/failed.txt`` and is not an error: the rows show it.
    """
    wanted = [f"{name}=={version}" for name, version in WHEELS.items()]
    stamp = PEERS / f".installed-{'-'.join(wanted)}"
    if stamp.exists():
        return
    say(f"installing {' and '.join(wanted)} into {PEERS} (once; under a minute)")
    for command in (
        [sys.executable, "-m", "venv", str(PEERS)],
        [str(PEERS / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            PEERS.mkdir(exist_ok=True)
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            (PEERS / "failed.txt").write_text(lines[-1])
            return
    (PEERS / "failed.txt").unlink(missing_ok=True)
    stamp.touch()


def _why_not_installed() -> str:
    with contextlib.suppress(OSError):
        return f"pip said: {(PEERS / 'failed.txt').read_text()[:200]}"
    return "run without --no-install"
