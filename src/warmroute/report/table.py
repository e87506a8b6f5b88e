"""The comparison as a table for a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warmroute.report.measurements import Summary, milliseconds

if TYPE_CHECKING:
    from rich.table import Table


def comparison_table(summaries: Sequence[Summary], *, highlight: str) -> "Table":
    """Return one row per strategy.

    Args:
        summaries: In the order of the rows.
        highlight: The strategy whose row stands out.
    """
    from rich import box  # noqa: PLC0415  (an extra)
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("Strategy", no_wrap=True)
    for heading in ("P50 TTFT", "P90 TTFT", "Cached", "Per instance", "Failed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for summary in summaries:
        table.add_row(
            summary.strategy,
            milliseconds(summary.ttft_p50_s),
            milliseconds(summary.ttft_p90_s),
            f"{summary.cached_share:.1%}",
            " ".join(str(count) for _, count in summary.requests_per_instance),
            f"{summary.failures}/{summary.requests}",
            style="bold green" if summary.strategy == highlight else "",
        )
    return table
