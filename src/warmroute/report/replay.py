"""A replayed decision log as text. Pure: numbers in, lines out."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from warmroute.routing.log import Decided, Ended, Line
from warmroute.sim.replay import Difference, Replay
from warmroute.sim.what_if import WhatIf

_ENDS = {"stopped": "to the end of the router", "full": "to its size limit"}
_INPUTS = ("now_ns", "book", "key", "characters", "chain", "component", "adapter", "session", "tried")
_CHAIN_SHOWN = 48
"""Characters of a chain in a difference: three blocks of perhaps hundreds."""


def replay_lines(replay: Replay, *, version: str) -> Iterator[str]:
    """Yield what a replay found: the log, its decisions in two tables, and whether they are the same.

    Args:
        replay: What was found.
        version: Of the program that replays.
    """
    began = replay.began
    when = datetime.fromtimestamp(began.began_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    span_s = (replay.last_ns - replay.first_ns) / 1e9
    end = _ENDS.get(replay.ended, "cut off, or still being written")
    yield f"{began.router} of warmroute {began.warmroute}, {when}"
    yield f"{span_s:,.1f} s in {replay.lines:,} lines, {end}"
    if began.warmroute != version:
        yield f"replayed by warmroute {version}, which may decide otherwise on purpose"
    yield from _table(
        ("strategy", "reason"),
        {(strategy or "refused", reason): count for (strategy, reason), count in replay.reasons.items()},
        replay.decisions,
    )
    yield from _table(
        ("target",), {(name,): count for name, count in replay.targets.items()}, replay.decisions
    )
    yield ""
    if replay.difference is None:
        yield f"{replay.decisions:,} decisions, all identical"
    else:
        yield f"{replay.decisions:,} decisions identical, then a difference"
        yield from _difference(replay.difference, replay.first_ns)


def what_if_lines(found: WhatIf, *, strategy: str) -> Iterator[str]:
    """Yield how the requests of a log would have gone by another strategy."""
    share = found.elsewhere / found.requests if found.requests else 0.0
    yield ""
    of_all = f"{found.elsewhere:,} of {found.requests:,} requests ({share:.1%})"
    yield f"{strategy}: {of_all} would have gone elsewhere"
    if found.without_key:
        yield (
            f"{found.without_key:,} of them have no routing key in the log: their variant made none, or they "
            "had no text"
        )
    names = sorted({*found.recorded, *found.imagined})
    width = max(map(len, (*names, "target")))
    yield f"  {'target':<{width}}  {'went':>9}  {'would go':>9}"
    for name in names:
        yield f"  {name:<{width}}  {found.recorded[name]:>9,}  {found.imagined[name]:>9,}"


def _table(heads: tuple[str, ...], counts: Mapping[tuple[str, ...], int], total: int) -> Iterator[str]:
    if not counts:
        return
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    widths = [max(map(len, column)) for column in zip(heads, *counts, strict=True)]
    yield ""
    yield (
        "  "
        + "  ".join(f"{head:<{width}}" for head, width in zip(heads, widths, strict=True))
        + "  decisions"
    )
    for names, count in rows:
        cells = "  ".join(f"{name:<{width}}" for name, width in zip(names, widths, strict=True))
        yield f"  {cells}  {count:>9,}  {count / total:>6.1%}"


def _difference(difference: Difference, first_ns: int) -> Iterator[str]:
    recorded, replayed = difference.recorded, difference.replayed
    after = (getattr(recorded, "now_ns", first_ns) - first_ns) / 1e9
    yield f"line {difference.number:,}, {after:,.3f} s after the first:"
    if isinstance(recorded, Decided):
        yield f"  asked:    {_shown(recorded, inputs=True)}"
    yield f"  recorded: {_shown(recorded, inputs=False)}"
    yield f"  replayed: {'nothing' if replayed is None else _shown(replayed, inputs=False)}"


def _shown(line: Line, *, inputs: bool) -> str:
    """Return a line as JSON: of a decision what was asked, or what was answered."""
    if isinstance(line, Ended):
        return line.why
    fields = msgspec.to_builtins(line)
    if isinstance(line, Decided):
        fields = {name: value for name, value in fields.items() if (name in _INPUTS) is inputs}
        chain = fields.get("chain", "")
        if len(chain) > _CHAIN_SHOWN:
            fields["chain"] = f"{chain[:_CHAIN_SHOWN]}… ({len(chain) // 16} blocks)"
    return msgspec.json.encode(fields).decode()
