"""The run in words: tables, the bars of the project with met or missed, and a plot."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import ROWS, Family
from results import KIB, Results

BAR_SIZE = 32 * KIB
BAR_CLIENTS = 16


@dataclass(frozen=True, slots=True)
class Bar:
    """One thing warmroute has to reach.

    Attributes:
        what: In words.
        wanted: The limit, in words.
        found: What was measured, in words.
        met: None when it was not measured.
        shown_only: It is no bar.
    """

    what: str
    wanted: str
    found: str
    met: bool | None
    shown_only: bool = False


def _table(header: list[str], lines: list[list[str]]) -> str:
    widths = [max(len(line[column]) for line in [header, *lines]) for column in range(len(header))]

    def render(line: list[str]) -> str:
        first, *rest = zip(line, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]).rstrip()

    return "\n".join([render(header), "  ".join("-" * width for width in widths), *map(render, lines)])


def _number(value: float | None, pattern: str = "{:,.0f}") -> str:
    return "-" if value is None else pattern.format(value)


def _size(size: int) -> str:
    return f"{size // KIB} KB"


def _request_table(results: Results, size: int, clients: int) -> str:
    fastest = results.fastest_rust(clients=clients, size=size)
    lines = []
    for row in ROWS:
        runs = results.loads.get((row.name, clients, size))
        if not runs:
            continue
        key = (row.name, clients, size)
        if row.family is Family.DIRECT:
            wall, p50, p99 = (
                results.median(key, value)
                for value in (lambda run: run.per_second, lambda run: run.p50_us, lambda run: run.p99_us)
            )
            lines.append(["direct (no proxy)", "", "", _number(wall), "", _number(p50), _number(p99), ""])
            continue
        marks = []
        if faults := sum(run.errors + run.not_2xx for run in runs):
            marks.append(f"{faults} failed")
        if (noise := sum(run.others_s for run in runs) / sum(run.seconds for run in runs)) > 0.08:
            marks.append(f"others {noise:.0%}")
        ratio = results.ratio(row.name, fastest, clients=clients, size=size) if fastest else None
        lines.append(
            [
                row.name,
                _number(results.median(key, lambda run: run.per_core)),
                _number(ratio, "{:.2f}"),
                _number(results.median(key, lambda run: run.per_second)),
                _number(results.median(key, lambda run: 100 * run.cpu_s / run.seconds)),
                *(
                    _number(results.added_us(row.name, clients=clients, size=size, value=value), "{:+,.0f}")
                    for value in (lambda run: run.p50_us, lambda run: run.p99_us)
                ),
                ", ".join(marks),
            ]
        )
    header = ["", "req/s per core", "x Rust", "req/s", "CPU %", "P50 us", "P99 us", ""]
    title = f"{_size(size)} bodies, {clients} client{'s' if clients > 1 else ''}" + (
        f" (x Rust: against {fastest})" if fastest else ""
    )
    return f"{title}\n{_table(header, lines)}"


def _stream_table(results: Results) -> str:
    reference = results.us_per_chunk("vllm consistent_hash")
    lines = []
    for row in ROWS:
        runs = results.streams.get(row.name)
        if not runs:
            continue
        cost = results.us_per_chunk(row.name)
        delivered = min(run.delivered / run.due for run in runs)
        rate = sum(run.delivered for run in runs) / sum(run.seconds for run in runs)
        busy = 100 * sum(run.cpu_s for run in runs) / sum(run.seconds for run in runs)
        broken = sum(run.broken for run in runs)
        lines.append(
            [
                row.name,
                _number(cost, "{:.1f}"),
                _number(cost / reference if cost and reference else None, "{:.2f}"),
                _number(rate),
                _number(busy),
                f"{delivered:.1%}",
                f"{broken} broken" if broken else "",
            ]
        )
    count = next(iter(results.streams.values()))[0].streams
    header = ["", "us per chunk", "x vllm", "chunks/s", "CPU %", "delivered", ""]
    return f"{count} streams at once: CPU time of the proxy per chunk\n{_table(header, lines)}"


def _memory_table(results: Results) -> str:
    streams = sorted({count for found in results.memory.values() for count in found.by_streams if count})
    prompts = sorted({count for found in results.memory.values() for count in found.by_prompts if count})
    header = ["", "idle MB", "all processes", *(f"{count} streams" for count in streams), "KB per stream"]
    header += [f"{count:,} prompts" for count in prompts]
    lines = [
        [
            row.name,
            f"{found.by_streams[0] / KIB:.1f}",
            f"{found.whole_kib / KIB:.1f}",
            *(
                _number(found.by_streams[count] / KIB if count in found.by_streams else None, "{:.1f}")
                for count in streams
            ),
            _number(found.per_stream_kib, "{:.1f}"),
            *(
                _number(found.by_prompts[count] / KIB if count in found.by_prompts else None, "{:.1f}")
                for count in prompts
            ),
        ]
        for row in ROWS
        if (found := results.memory.get(row.name))
    ]
    return (
        "Resident memory, MB (streams and prompts each on a fresh process; 32 KB bodies for streams)\n"
        + _table(header, lines)
    )


def bars(results: Results) -> list[Bar]:
    """Return the project's bars for the gateway with what this run found."""
    fastest = results.fastest_rust(clients=BAR_CLIENTS, size=BAR_SIZE) or "no Rust router"
    alone = results.fastest_rust(clients=1, size=BAR_SIZE) or fastest
    found = [
        _ratio_bar(results, "warmroute native", fastest, 1.5),
        _ratio_bar(results, "warmroute openai", fastest, 1.25),
        _limit(results, "warmroute native", "haproxy"),
    ]
    for row in ("warmroute native", "warmroute openai"):
        ours, theirs = (
            results.added_us(name, clients=1, size=BAR_SIZE, value=lambda run: run.p50_us)
            for name in (row, alone)
        )
        what, wanted = f"{row}: P50 added at 1 client, 32 KB", f"<= {alone}'s"
        if ours is None or theirs is None:
            found.append(Bar(what, wanted, "-", None))
        else:
            found.append(Bar(what, wanted, f"{ours:.0f} us against {theirs:.0f} us", ours <= theirs))
    for row in ("warmroute openai", "warmroute native"):
        ours, theirs = results.us_per_chunk(row), results.us_per_chunk("vllm consistent_hash")
        ratio = ours / theirs if ours and theirs else None
        found.append(
            Bar(
                f"{row}: CPU per streamed chunk",
                "<= 1.0x vllm-router",
                _number(ratio, "{:.2f}x"),
                None if ratio is None else ratio <= 1.0,
            )
        )
    return [*found, _signature_bar(results), *_memory_bars(results)]


def _ratio_bar(results: Results, row: str, other: str, wanted: float) -> Bar:
    ratio = results.ratio(row, other, clients=BAR_CLIENTS, size=BAR_SIZE)
    return Bar(
        f"{row}: requests/s per core, 32 KB, {BAR_CLIENTS} clients",
        f">= {wanted}x {other}",
        _number(ratio, "{:.2f}x"),
        None if ratio is None else ratio >= wanted,
    )


def _limit(results: Results, row: str, other: str) -> Bar:
    """Show how far from the limit we are; no bar (docs/adr/0008-haproxy-is-shown-not-met.md)."""
    ratio = results.ratio(row, other, clients=BAR_CLIENTS, size=BAR_SIZE)
    return Bar(
        f"{row}: requests/s per core, 32 KB, {BAR_CLIENTS} clients",
        f"{other} is the limit",
        _number(ratio, "{:.2f}x"),
        None,
        shown_only=True,
    )


def _signature_bar(results: Results) -> Bar:
    extra = results.paired(
        ("warmroute native+sigv4", BAR_CLIENTS, BAR_SIZE),
        ("warmroute native", BAR_CLIENTS, BAR_SIZE),
        lambda a, b: 1e6 / a.per_core - 1e6 / b.per_core if a.per_core and b.per_core else 0.0,
    )
    return Bar(
        "SigV4 verification, CPU time at 32 KB",
        "<= 60 us",
        _number(extra, "{:.0f} us"),
        None if extra is None else extra <= 60,
    )


def _memory_bars(results: Results) -> list[Bar]:
    memory = results.memory.get("warmroute native")
    idle = memory.by_streams[0] / KIB if memory else None
    per_stream = memory.per_stream_kib if memory else None
    growth = None
    prompts = 0
    if memory and len(memory.by_prompts) > 2:
        # From the second mark on: by then buffers, connections and caches of fixed size are there.
        marks = sorted(memory.by_prompts)
        prompts = marks[-1] - marks[1]
        growth = memory.by_prompts[marks[-1]] / memory.by_prompts[marks[1]] - 1
    return [
        Bar(
            "router process idle",
            "<= 60 MB",
            _number(idle, "{:.1f} MB"),
            None if idle is None else idle <= 60,
        ),
        Bar(
            f"growth over {prompts:,} more unique prompts" if prompts else "growth over unique prompts",
            "flat (<= 5 %)",
            _number(growth, "{:+.1%}"),
            None if growth is None else growth <= 0.05,
        ),
        Bar(
            "memory per open stream",
            "<= 20 KB",
            _number(per_stream, "{:.1f} KB"),
            None if per_stream is None else per_stream <= 20,
        ),
    ]


def text(results: Results) -> str:
    """Return the whole report as plain text."""
    parts = ["\n".join(f"{name + ':':<22}{value}" for name, value in results.facts.items())]
    missing = {row.name: reason for row in ROWS if (reason := results.reasons.get(row.server))}
    if results.cases():
        parts.append(
            "req/s per core: requests per second of the proxy's own CPU time. req/s: by the wall clock;\n"
            "where CPU % is far below 100 the load generator was the limit. P50, P99: microseconds added by\n"
            "the proxy (for direct: the whole latency). Medians over rounds; ratios are round by round.\n"
            "others: share of the proxy's CPU taken by anything else; such a line is less sure."
        )
        parts += [_request_table(results, size, clients) for size, clients in results.cases()]
    if results.streams:
        parts.append(_stream_table(results))
    if results.memory:
        parts.append(_memory_table(results))
    if missing:
        parts.append("Not measured\n" + "\n".join(f"  {name}: {reason}" for name, reason in missing.items()))
    if results.failures:
        parts.append("Broken\n" + "\n".join(f"  {failure}" for failure in results.failures))
    marks = {True: "met", False: "MISSED", None: "not measured"}
    lines = [
        [bar.what, bar.wanted, bar.found, "shown" if bar.shown_only else marks[bar.met]]
        for bar in bars(results)
    ]
    brief = "Bars"
    if results.settings.get("rounds") == 1:
        brief = "Bars (from one short round: this shows that the benchmark runs, not how fast anything is)"
    parts.append(f"{brief}\n" + _table(["", "wanted", "found", ""], lines))
    return "\n\n".join(parts)


def plot(results: Results, file: Path) -> None:
    """Draw requests/s per core, added latency and cost per chunk into a picture.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    import matplotlib as mpl  # noqa: PLC0415  (optional, and slow to import)

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    colours = {
        Family.GENERAL: "#9aa0a6",
        Family.RUST: "#c26d3a",
        Family.WARMROUTE: "#2a6fbb",
        Family.DIRECT: "#dddddd",
    }
    panels: list[tuple[str, dict[str, float]]] = []
    for size, clients in results.cases():
        if clients == BAR_CLIENTS:
            rates = {
                row.name: results.median((row.name, clients, size), lambda run: run.per_core)
                for row in ROWS[1:]
            }
            panels.append((f"requests/s per core\n{_size(size)}, {clients} clients", _present(rates)))
    alone = {
        row.name: results.added_us(row.name, clients=1, size=BAR_SIZE, value=lambda run: run.p50_us)
        for row in ROWS[1:]
    }
    panels.append(("P50 added, microseconds\n32 KB, 1 client", _present(alone)))
    chunks = _present({row.name: results.us_per_chunk(row.name) for row in ROWS[1:]})
    panels.append(("CPU microseconds\nper streamed chunk", chunks))
    panels = [panel for panel in panels if panel[1]]
    if not panels:
        return
    figure, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 4.2), squeeze=False)
    families = {row.name: row.family for row in ROWS}
    for axis, (title, values) in zip(axes[0], panels, strict=True):
        names = list(values)[::-1]
        drawn = axis.barh(names, [values[name] for name in names])
        for bar, name in zip(drawn, names, strict=True):
            bar.set_color(colours[families[name]])
        axis.bar_label(drawn, fmt="{:,.0f}", padding=2, fontsize=7)
        axis.set_title(title, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.margins(x=0.18)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    figure.suptitle(results.facts.get("cpu", ""), fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _present(values: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def bars_json(results: Results) -> list[dict[str, Any]]:
    """Return the bars as plain values."""
    return [
        {"what": bar.what, "wanted": bar.wanted, "found": bar.found, "met": bar.met} for bar in bars(results)
    ]
