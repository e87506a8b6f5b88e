from rich.console import Console

from warmroute.report.measurements import Summary
from warmroute.report.table import comparison_table

SUMMARIES = (
    Summary("RANDOM", 180, 0, 0.411, 0.968, 1000, 418, (("i-1", 55), ("i-2", 38), ("i-3", 40), ("i-4", 47))),
    Summary("LEAST_OUTSTANDING_REQUESTS", 180, 2, None, None, 0, 0, (("i-1", 100),)),
)


def test_the_table_fits_a_terminal_of_80_columns():
    console = Console(width=80)
    with console.capture() as captured:
        console.print(comparison_table(SUMMARIES, highlight="RANDOM"))
    lines = [" ".join(line.split()) for line in captured.get().splitlines() if line.strip()]

    assert lines[0] == "Strategy P50 TTFT P90 TTFT Cached Per instance Failed"
    assert lines[2] == "RANDOM 411 ms 968 ms 41.8% 55 38 40 47 0/180"
    assert lines[3] == "LEAST_OUTSTANDING_REQUESTS - - 0.0% 100 2/180"
