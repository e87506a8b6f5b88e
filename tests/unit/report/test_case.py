from warmroute.report.case import Case, mean_quantiles


def rows(policy, *means):
    return [{"policy": policy, "seed": seed, "ttft_mean_ms": mean} for seed, mean in enumerate(means)]


def test_rows_are_found_by_policy_in_their_order():
    case = Case("x", "", {}, [*rows("b", 1), *rows("a", 2), *rows("b", 3)])
    assert {policy: [row["ttft_mean_ms"] for row in own] for policy, own in case.by_policy.items()} == {
        "b": [1, 3],
        "a": [2],
    }
    assert list(case.by_policy) == ["b", "a"]


def test_the_best_other_policy_is_the_one_with_the_lowest_mean_that_is_not_ours():
    made = [
        *rows("KV_AWARE", 1), *rows("RANDOM", 2), *rows("KV_AWARE, 4 routers", 3), *rows("lmetric", 9, 5),
        *rows("chwbl", 6, 7), *rows("PREFIX_AWARE[1024,4]", 8),
    ]  # fmt: skip
    assert Case("x", "", {}, made).best_other == "chwbl"
    assert Case("x", "", {}, rows("RANDOM", 1)).best_other is None


def test_quantiles_are_averaged_one_by_one():
    assert mean_quantiles([(1, 2, 3), (3, 4, 9)]) == (2, 3, 6)
    assert mean_quantiles([]) == ()
