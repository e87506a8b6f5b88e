"""The suite's tables, as a terminal shows them."""

from rich.console import Console

from warmroute.report.bar import judge
from warmroute.report.suite import bar_table, case_table, missed_lines, summary_table, wins_lines
from warmroute.sim.suite import SHORT

LONG = SHORT["aws-long@14"]


def rows(policy, **numbers):
    return [
        {
            "case": LONG.name, "policy": policy, "seed": seed, "ttft_mean_ms": 100.0, "ttft_p50_ms": 50.0,
            "ttft_p90_ms": 200.0, "ttft_p99_ms": 400.0, "throughput_rps": 10.0, "hit_rate": 0.8, **numbers,
        }
        for seed in (1, 2)
    ]  # fmt: skip


ALL = [
    *rows("RANDOM"),
    *rows("PREFIX_AWARE[4096,16]", throughput_rps=12.0),
    *rows("KV_AWARE", ttft_mean_ms=110.0, ttft_p50_ms=80.0),
]


def shown(table):
    console = Console(width=100)
    with console.capture() as captured:
        console.print(table)
    return [" ".join(line.split()) for line in captured.get().splitlines() if line.strip(" ─")]


def test_a_case_has_a_row_per_policy_and_marks_on_the_candidates():
    assert shown(case_table(LONG.name, ALL, judge(ALL, [LONG]))) == [
        "aws-long@14",
        "Policy mean P50 P90 P99 ms req/s hit %",
        "RANDOM 100±0 50.0±0.0 200±0 400±0 10.0±0.0 80.0",
        "PREFIX_AWARE[4096,16] 100±0 50.0±0.0 200±0 400±0 12.0±0.0 80.0",
        "KV_AWARE 110±0 ✗ 80.0±0.0 ✗ 200±0 400±0 10.0±0.0 ✗ 80.0",
    ]
    assert "✗" not in "".join(shown(case_table(LONG.name, ALL, None)))


def test_the_bar_shows_changes_against_the_best_of_the_others():
    assert shown(bar_table("KV_AWARE", judge(ALL, [LONG]))) == [
        "KV_AWARE: change in % against the best other policy of each metric",
        "Case mean P50 P90 throughput best by mean",
        "aws-long@14 +10.0±0.0 ✗ +60.0±0.0 ✗ +0.0±0.0 -16.7±0.0 ✗ RANDOM",
    ]
    assert shown(bar_table("KV_AWARE", judge([], [LONG])))[-1] == "aws-long@14 - ? - ? - ? - ? -"


def test_the_summary_counts_cells_by_rule():
    lines = shown(summary_table(judge(ALL, [LONG])))
    assert lines[:2] == ["The bar", "Rule met ~ ✗ ?"]
    assert "KV_AWARE: mean TTFT at most +3 % - - 1 -" in lines
    assert "KV_AWARE: P50 TTFT at most +10 % (aim) - - 1 -" in lines
    assert "KV_AWARE: P90 TTFT at most +10 % 1 - - -" in lines
    assert "KV_AWARE:estimated: mean TTFT at most +3 % - - - 1" in lines
    assert "KV_AWARE: never dominated 1 - - -" in lines
    assert "four routers that share nothing, against one" in lines


def test_a_line_says_in_how_many_cases_a_candidate_is_best():
    assert list(wins_lines(judge(ALL, [LONG]))) == [
        "KV_AWARE has the best mean TTFT in 0 of 1 cases, and is not shown to be behind in 0 more ✗"
    ]


def test_every_miss_is_a_line_and_those_that_do_not_count_come_last():
    lines = list(missed_lines(judge(ALL, [LONG])))
    assert lines == [
        "aws-long@14: KV_AWARE mean TTFT +10.0±0.0 % against RANDOM",
        "aws-long@14: KV_AWARE throughput -16.7±0.0 % against PREFIX_AWARE[4096,16]",
        "aws-long@14: KV_AWARE P50 TTFT +60.0±0.0 % against RANDOM (an aim, does not count)",
    ]


def test_being_dominated_is_a_line_without_a_number():
    made = [*rows("RANDOM"), *rows("KV_AWARE", ttft_p50_ms=51.0, ttft_p90_ms=201.0, throughput_rps=9.9)]
    assert "aws-long@14: KV_AWARE never dominated against RANDOM" in missed_lines(judge(made, [LONG]))
