"""The suite as tables for a terminal: every case under every policy, the bar, and what it comes to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from warmroute.report.bar import AGAINST_BEST, Cell, Group, Judgement, Verdict
from warmroute.report.simulation import Row, estimate, percent, plain_table
from warmroute.sim.suite import CANDIDATES

if TYPE_CHECKING:
    from rich.table import Table

MARKS: Mapping[Verdict, str] = {
    Verdict.MET: "", Verdict.UNCLEAR: " ~", Verdict.MISSED: " ✗", Verdict.UNKNOWN: " ?",
}  # fmt: skip
LEGEND = (
    "✗ misses the bar: the 95 % interval lies wholly beyond the limit. ~ the mean is beyond it, the interval "
    "is not.  ? runs are missing."
)
_STYLES: Mapping[Verdict, str] = {
    Verdict.MET: "", Verdict.UNCLEAR: "yellow", Verdict.MISSED: "bold red", Verdict.UNKNOWN: "dim",
}  # fmt: skip
_COLUMNS = (
    ("mean", "ttft_mean_ms"), ("P50", "ttft_p50_ms"), ("P90", "ttft_p90_ms"), ("P99 ms", "ttft_p99_ms"),
    ("req/s", "throughput_rps"),
)  # fmt: skip


def case_table(case: str, rows: Sequence[Row], judgement: Judgement | None) -> "Table":
    """Return one sub-case under every policy, with what misses the bar marked.

    Args:
        case: Its name.
        rows: All of its runs.
        judgement: Whose marks are shown; None for none.
    """
    policies: dict[str, list[Row]] = {}
    for row in rows:
        policies.setdefault(str(row["policy"]), []).append(row)
    table = plain_table([*(heading for heading, _ in _COLUMNS), "hit %"], case)
    for policy, runs in policies.items():
        cells = judgement.of(case, policy) if judgement else {}
        numbers = [_number(runs, field, cells.get(field)) for _, field in _COLUMNS]
        hit = estimate([float(row["hit_rate"]) * 100 for row in runs])
        table.add_row(policy, *numbers, f"{hit.mean:.1f}", style="bold" if policy in CANDIDATES else "")
    return table


def _number(runs: Sequence[Row], field: str, cell: Cell | None) -> str:
    text = estimate([float(row[field]) for row in runs]).text
    return text if cell is None else _marked(text, cell.verdict)


def _marked(text: str, verdict: Verdict) -> str:
    marked, style = f"{text}{MARKS[verdict]}", _STYLES[verdict]
    return f"[{style}]{marked}[/]" if style else marked


def bar_table(policy: str, judgement: Judgement) -> "Table":
    """Return a candidate's change against the best of the others, in every sub-case."""
    table = plain_table(
        [*(rule.name.removesuffix(" TTFT") for rule in AGAINST_BEST), "best by mean"],
        f"{policy}: change in % against the best other policy of each metric",
        first="Case",
    )
    for case in dict.fromkeys(cell.case for cell in judgement.cells):
        cells = judgement.of(case, policy)
        texts = [
            _marked(percent(cell.change, sign="+"), cell.verdict)
            for rule in AGAINST_BEST
            for cell in [cells[rule.field]]
        ]
        table.add_row(case, *texts, cells[AGAINST_BEST[0].field].against or "-")
    return table


def summary_table(judgement: Judgement) -> "Table":
    """Return how many cells of every rule were met and missed."""
    table = plain_table(["met", "~", "✗", "?"], "The bar", first="Rule")
    group = ""
    for (about, policy, text, binding), cells in grouped_cells(judgement.cells).items():
        if about != group:
            table.add_row(f"[dim]{about}[/]", end_section=False)
            group = about
        counts = [sum(cell.verdict is verdict for cell in cells) for verdict in Verdict]
        aim = "" if binding else " (aim)"
        met, unclear, missed, unknown = (f"{count}" if count else "-" for count in counts)
        style = "bold red" if counts[2] and binding else ""
        table.add_row(f"  {policy}: {text}{aim}", met, unclear, missed, unknown, style=style)
    return table


Grouped = Mapping[tuple[str, str, str, bool], Sequence[Cell]]


def grouped_cells(cells: Sequence[Cell]) -> Grouped:
    """Return the cells by what they are about, who is held to it, the rule, and whether a miss counts."""
    order = list(Group)
    grouped: dict[tuple[str, str, str, bool], list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: order.index(cell.group)):
        policy = cell.policy.partition("[")[0]
        grouped.setdefault((cell.group.value, policy, cell.rule.text, cell.binding), []).append(cell)
    return grouped


def wins_lines(judgement: Judgement) -> Iterator[str]:
    """Return a line for every candidate that was run: in how many cases it is the best."""
    for wins in judgement.wins:
        if wins.of:
            yield (
                f"{wins.policy} has the best mean TTFT in {wins.won} of {wins.of} cases, and is not "
                f"shown to be behind in {wins.tied} more{MARKS[wins.verdict]}"
            )


def missed_lines(judgement: Judgement) -> Iterator[str]:
    """Return a line for every cell that misses, those that count first."""
    missed = [cell for cell in judgement.cells if cell.verdict is Verdict.MISSED]
    for cell in sorted(missed, key=lambda cell: not cell.binding):
        change = "" if cell.change is None else f" {percent(cell.change, sign='+')} %"
        aim = "" if cell.binding else " (an aim, does not count)"
        yield f"{cell.case}: {cell.policy} {cell.rule.name}{change} against {cell.against}{aim}"
