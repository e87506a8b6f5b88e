"""Measure warmroute beside other proxies, in one run, on pinned CPUs. ``README.md`` says how to read it.

The story: start the upstreams, start every proxy, and for each case go round the proxies several times, a few
seconds each, so that whatever else the machine does hits all of them alike. Then streams, then memory.
"""

import argparse
import contextlib
import dataclasses
import json
import math
import os
import resource
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import load
import measure
import peers
import report
import streams
import upstream
import uvloop
from peers import ROWS, Bench, Family, Row, Server
from processes import Processes, free_ports
from requests_made import Credential, chat_body, request_head, requests_file
from results import KIB, Memory, Results

INSTANCES = 7
REQUEST_CASES = {"1k": 1 * KIB, "32k": 32 * KIB, "256k": 256 * KIB}
CASES = (*REQUEST_CASES, "streams", "memory")


@dataclass(frozen=True, slots=True)
class Settings:
    """How much to measure.

    Attributes:
        cases: Which, out of `CASES`.
        rows: Which lines of the tables.
        clients: Of the request cases.
        rounds: Times each proxy is measured per case.
        seconds: Each time.
        streams: Open at once in the streaming case.
        stream_seconds: Each time.
        memory_streams: Open at once in the memory case.
        unique_prompts: Sent in the memory case; memory is read at each of these counts.
        settle_seconds: Between opening streams and reading the memory.
    """

    cases: tuple[str, ...]
    rows: tuple[Row, ...]
    clients: tuple[int, ...] = (1, 16, 128)
    rounds: int = 3
    seconds: int = 2
    streams: int = 500
    stream_seconds: float = 4.0
    memory_streams: tuple[int, ...] = (500, 2000)
    unique_prompts: tuple[int, ...] = (50_000, 100_000)
    settle_seconds: float = 2.0


CHUNKS_PER_SECOND = 50.0


class Progress:
    """Says on standard error what is going on, on one line where that is a terminal."""

    def __init__(self) -> None:
        """Begin the clock."""
        self._began = time.monotonic()
        self._live = sys.stderr.isatty()
        self._last = ""

    def say(self, what: str) -> None:
        """Show a step, with the minutes and seconds since the beginning."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        line = f"[{minutes:02d}:{seconds:02d}] {what}"
        if self._live:
            print(f"\r\x1b[K{line[:118]}", end="", file=sys.stderr, flush=True)
        elif what != self._last:
            print(line, file=sys.stderr, flush=True)
        self._last = what

    def end(self) -> None:
        """Leave the line."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@dataclass(slots=True)
class Run:
    """One run of the benchmark, with what all its parts need."""

    settings: Settings
    processes: Processes
    folder: Path
    placement: measure.Placement
    results: Results
    progress: Progress

    def start(
        self, ports: list[int], rows: list[Row], *, streamed: bool = False
    ) -> tuple[dict[str, Server], list[Row]]:
        """Start the proxies of some rows; returns them and the rows that can be measured."""
        bench = Bench(self.processes, self.folder, self.placement, tuple(ports))
        self.progress.say("starting " + ", ".join(dict.fromkeys(row.server for row in rows if row.server)))
        servers, reasons = peers.start_servers(bench, rows, streamed=streamed)
        self.results.reasons |= reasons
        self.results.versions |= {name: server.version for name, server in servers.items()}
        return servers, [row for row in rows if not row.server or row.server in servers]

    def stop(self, servers: dict[str, Server]) -> None:
        """End some proxies."""
        self.progress.say("stopping the proxies")
        for server in servers.values():
            self.processes.stop(server.process)


def measure_requests(run: Run) -> None:
    """Requests per second and latency, for every body size and number of clients."""
    ports = free_ports(INSTANCES)
    with upstream.running(run.processes, run.folder, ports, cpu=run.placement.upstream) as kind:
        run.results.facts["upstreams"] = kind
        run.results.facts["load generator"] = load.generator_name()
        servers, rows = run.start(ports, list(run.settings.rows))
        for case in run.settings.cases:
            if case in REQUEST_CASES:
                size = REQUEST_CASES[case]
                chosen = [row for row in rows if row.main or case == "32k"]
                for clients in run.settings.clients:
                    _one_case(run, servers, chosen, ports[0], size=size, clients=clients)
        run.stop(servers)


def _one_case(
    run: Run, servers: dict[str, Server], rows: list[Row], direct_port: int, *, size: int, clients: int
) -> None:
    for round_number in range(run.settings.rounds):
        # Each round starts with another proxy, so that none is always first after a pause.
        shift = round_number % len(rows)
        for row in rows[shift:] + rows[:shift]:
            run.progress.say(
                f"{size // KIB} KB x {clients} clients, "
                f"round {round_number + 1}/{run.settings.rounds}: {row.name}"
            )
            server = servers.get(row.server)
            port = server.port if server else direct_port
            requests = run.folder / "requests.bin"
            requests.write_bytes(requests_file(row.path, row.credential, port, size, with_user=row.with_user))
            try:
                found = load.run_load(
                    port,
                    clients=clients,
                    seconds=run.settings.seconds,
                    requests=requests,
                    placement=run.placement,
                    pids=server.pids if server else (),
                )
            except load.LoadFailed as error:
                run.results.failures.append(f"{row.name}, {size // KIB} KB, {clients} clients: {error}")
            else:
                run.results.loads.setdefault((row.name, clients, size), []).append(found)


def measure_streams(run: Run) -> None:
    """CPU time per streamed chunk."""
    ports = free_ports(INSTANCES)
    chosen = [row for row in run.settings.rows if row.streams]
    with upstream.running(
        run.processes, run.folder, ports, cpu=run.placement.upstream, chunks_per_second=CHUNKS_PER_SECOND
    ):
        servers, rows = run.start(ports, chosen, streamed=True)
        for round_number in range(run.settings.rounds):
            for row in rows:
                run.progress.say(
                    f"{run.settings.streams} streams, "
                    f"round {round_number + 1}/{run.settings.rounds}: {row.name}"
                )
                measuring = streams.measure_chunks(
                    row,
                    servers[row.server],
                    count=run.settings.streams,
                    chunks_per_second=CHUNKS_PER_SECOND,
                    seconds=run.settings.stream_seconds,
                    placement=run.placement,
                )
                try:
                    found = uvloop.run(measuring)
                except (streams.StreamsFailed, OSError) as error:
                    run.results.failures.append(f"{row.name}, {run.settings.streams} streams: {error}")
                else:
                    run.results.streams.setdefault(row.name, []).append(found)
        run.stop(servers)


def measure_memory(run: Run) -> None:
    """Resident memory: idle, with streams open, and after unique prompts."""
    chosen = [row for row in run.settings.rows if row.memory]
    by_streams: dict[str, dict[int, int]] = {}
    whole: dict[str, int] = {}
    ports = free_ports(INSTANCES)
    with upstream.running(run.processes, run.folder, ports, cpu=run.placement.upstream, chunks_per_second=1):
        servers, rows = run.start(ports, chosen, streamed=True)
        time.sleep(1)
        for row in rows:
            run.progress.say(f"memory with {max(run.settings.memory_streams)} open streams: {row.name}")
            server = servers[row.server]
            whole[row.name] = measure.rss_kib(tuple(measure.descendants(server.process.pid)))
            by_streams[row.name] = {0: measure.rss_kib(server.pids)}
            opening = streams.measure_open(
                row,
                server,
                counts_of_streams=sorted(run.settings.memory_streams),
                settle_seconds=run.settings.settle_seconds,
            )
            try:
                by_streams[row.name] |= uvloop.run(opening)
            except (streams.StreamsFailed, OSError) as error:
                run.results.failures.append(f"{row.name}, memory of open streams: {error}")
        run.stop(servers)
    by_prompts = _unique_prompts(run, chosen)
    for name, found in by_streams.items():
        run.results.memory[name] = Memory(found, by_prompts.get(name, {}), whole[name])


def _unique_prompts(run: Run, chosen: list[Row]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    ports = free_ports(INSTANCES)
    with upstream.running(run.processes, run.folder, ports, cpu=run.placement.upstream):
        servers, rows = run.start(ports, chosen)
        for row in rows:
            with contextlib.suppress(load.LoadFailed):
                found[row.name] = _one_unique(run, row, servers[row.server])
        run.stop(servers)
    return found


def _one_unique(run: Run, row: Row, server: Server) -> dict[int, int]:
    body = chat_body(4 * KIB, number=0).replace(b"Document 0", b"Document " + load.UNIQUE_MARK)
    request = request_head(row.path, Credential.NONE, server.port, body) + body
    file = run.folder / "unique.bin"
    file.write_bytes(len(request).to_bytes(4, "big") + request)
    found = {0: measure.rss_kib(server.pids)}
    sent, seconds = 0, 1
    for goal in sorted(run.settings.unique_prompts):
        while sent < goal:
            run.progress.say(f"memory over unique prompts, {sent:,} of {goal:,}: {row.name}")
            made = load.run_load(
                server.port,
                clients=16,
                seconds=seconds,
                requests=file,
                placement=run.placement,
                pids=server.pids,
                unique_from=sent,
            )
            if not made.requests:
                raise load.LoadFailed("no request was answered")
            sent += made.requests
            # As few runs as can be: each opens new connections, and it is prompts that are to be counted.
            seconds = min(20, max(1, math.ceil((goal - sent) / made.per_second)))
        found[goal] = measure.rss_kib(server.pids)
    return found


def measure_all(run: Run) -> None:
    """Run every chosen case."""
    with measure.on_cpu(run.placement.generator):
        if any(case in REQUEST_CASES for case in run.settings.cases):
            measure_requests(run)
        if "streams" in run.settings.cases:
            measure_streams(run)
        if "memory" in run.settings.cases:
            measure_memory(run)


def parse(arguments: list[str]) -> tuple[argparse.Namespace, Settings]:
    """Return the command line, and the settings it means."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="CASE", help=f"cases, comma-separated, out of: {', '.join(CASES)}")
    parser.add_argument(
        "--proxies", metavar="NAMES", help="rows whose name begins with one of these, comma-separated"
    )
    parser.add_argument("--rounds", type=int, help="times each proxy is measured per case (3)")
    parser.add_argument("--seconds", type=int, help="seconds of each measurement (2)")
    parser.add_argument("--clients", metavar="N,N", help="numbers of clients (1,16,128)")
    parser.add_argument(
        "--smoke", action="store_true", help="everything once and briefly: does it run at all"
    )
    parser.add_argument("--long", action="store_true", help="a million unique prompts in the memory case")
    parser.add_argument(
        "--no-install", action="store_true", help="do not install the routers that are wheels"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a picture (PNG or SVG)")
    options = parser.parse_args(arguments)
    cases = tuple(options.only.split(",")) if options.only else CASES
    if unknown := [case for case in cases if case not in CASES]:
        parser.error(f"--only: unknown case {unknown[0]!r}; allowed are {', '.join(CASES)}")
    names = tuple(options.proxies.split(",")) if options.proxies else ("",)
    rows = tuple(row for row in ROWS if row.family is Family.DIRECT or row.name.startswith(names))
    if len(rows) < 2:
        parser.error(
            f"--proxies: no row begins with that; rows are {', '.join(row.name for row in ROWS[1:])}"
        )
    settings = Settings(cases, rows)
    if options.smoke:
        settings = dataclasses.replace(
            settings,
            cases=tuple(case for case in cases if options.only or case not in ("1k", "256k")),
            clients=(16,),
            rounds=1,
            seconds=1,
            streams=50,
            stream_seconds=1.0,
            memory_streams=(50,),
            unique_prompts=(500, 1000),
            settle_seconds=0.5,
        )
    if options.clients:
        settings = dataclasses.replace(settings, clients=tuple(map(int, options.clients.split(","))))
    if options.rounds:
        settings = dataclasses.replace(settings, rounds=options.rounds)
    if options.seconds:
        settings = dataclasses.replace(settings, seconds=options.seconds)
    if options.long:
        settings = dataclasses.replace(settings, unique_prompts=(50_000, 100_000, 1_000_000))
    return options, settings


def _raise_interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run, print, write; returns the exit status: 0, or 130 when interrupted."""
    options, settings = parse(arguments)
    signal.signal(signal.SIGTERM, _raise_interrupt)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    placement = measure.choose_cpus()
    progress = Progress()
    facts = measure.machine_facts() | {"placement": str(placement)}
    described = dataclasses.asdict(settings) | {"rows": [row.name for row in settings.rows]}
    results = Results(facts, described | {"instances": INSTANCES, "chunks_per_second": CHUNKS_PER_SECOND})
    status = 0
    with tempfile.TemporaryDirectory(prefix="warmroute-bench-") as folder, Processes() as processes:
        try:
            if not (options.no_install or options.smoke):
                peers.install_wheels(progress.say)
            measure_all(Run(settings, processes, Path(folder), placement, results, progress))
        except KeyboardInterrupt:
            status = 130
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # let the cleaning up come to its end
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            progress.end()
            print("interrupted; this is what was measured until then", file=sys.stderr)
    progress.end()
    facts["load average after"] = " ".join(f"{value:.2f}" for value in os.getloadavg())
    for name, version in results.versions.items():
        facts[name] = version
    print(report.text(results))
    if options.json:
        options.json.write_text(json.dumps(results.as_json(report.bars_json(results)), indent=1) + "\n")
    if options.plot:
        report.plot(results, options.plot)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
