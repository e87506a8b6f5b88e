import pytest
from rich.console import Console

from warmroute.report.simulation import case_tables, estimate, paired_change


def row(policy, seed, **numbers):
    return {
        "case": "aws-long", "policy": policy, "seed": seed, "requests": 100, "failed": 0,
        "ttft_mean_ms": 334.2, "ttft_p50_ms": 385.0, "ttft_p90_ms": 1592.0, "ttft_p99_ms": 2796.0,
        "throughput_rps": 3.9,
        "output_tokens_per_s": 1002.8, "hit_rate": 0.288, "ideal_hit_rate": 0.814, "share_min": 0.135,
        "share_max": 0.158, "overflow_rate": 0.0, **numbers,
    }  # fmt: skip


def shown(rows):
    console = Console(width=80)
    with console.capture() as captured:
        for table in case_tables(rows):
            console.print(table)
    return [" ".join(line.split()) for line in captured.get().splitlines() if line.strip()]


def test_an_interval_is_students_t_over_the_seeds():
    result = estimate([10, 12, 14])
    assert result.mean == 12
    assert result.half == pytest.approx(4.303 * 2 / 3**0.5)
    assert estimate([7]).half is None
    assert estimate([1.0, 2.0] * 50).half == pytest.approx(1.96 * 0.50252 / 10, rel=1e-3)


def test_changes_are_paired_by_seed():
    before = [row("A", 1, throughput_rps=2), row("A", 2, throughput_rps=4)]
    after = [row("B", 2, throughput_rps=6), row("B", 1, throughput_rps=3), row("B", 3, throughput_rps=99)]
    assert paired_change(after, before, "throughput_rps").mean == 0.5
    assert paired_change(after[2:], before, "throughput_rps") is None
    assert paired_change(after, [row("A", 1, throughput_rps=0)], "throughput_rps") is None


def test_the_tables_of_a_case_fit_a_terminal_of_80_columns():
    rows = [row("LEAST_OUTSTANDING_REQUESTS", 1), row("LEAST_OUTSTANDING_REQUESTS", 2, ttft_p50_ms=389)]
    rows += [row("PREFIX_AWARE", 1, ttft_p50_ms=1, failed=2), row("PREFIX_AWARE", 2, ttft_p50_ms=0.5)]
    lines = shown(rows)
    assert lines == [
        "aws-long, 2 seeds (± 95 %), ideal hit rate 81.4%",
        "Policy TTFT mean P50 P90 P99 ms",
        lines[2],
        "LEAST_OUTSTANDING_REQUESTS 334±0 387±25 1,592±0 2,796±0",
        "PREFIX_AWARE 334±0 0.75±3.18 1,592±0 2,796±0",
        "Policy req/s tok/s hit % share % overflow failed",
        lines[6],
        "LEAST_OUTSTANDING_REQUESTS 3.9±0.0 1,003 28.8±0.0 13.5-15.8 0.0% 0",
        "PREFIX_AWARE 3.9±0.0 1,003 28.8±0.0 13.5-15.8 0.0% 2",
        "change in % against LEAST_OUTSTANDING_REQUESTS, paired by seed",
        "Policy TTFT mean P50 P90 P99 req/s",
        lines[11],
        "PREFIX_AWARE +0.0±0.0 -99.8±0.8 +0.0±0.0 +0.0±0.0 +0.0±0.0",
    ]


def test_one_policy_and_one_seed_have_no_change_and_no_interval():
    lines = shown([row("RANDOM", 1)])
    assert lines[0] == "aws-long, 1 seed, ideal hit rate 81.4%"
    assert "RANDOM 334 385 1,592 2,796" in lines
    assert not any("against" in line for line in lines)


def test_a_change_from_nothing_is_a_dash():
    lines = shown([row("A", 1, throughput_rps=0), row("B", 1)])
    assert lines[-1] == "B +0.0 +0.0 +0.0 +0.0 -"
