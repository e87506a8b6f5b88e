"""The selection of cases and sizes, as data."""

import pytest

from warmroute.core.errors import ConfigurationError
from warmroute.sim.cases import CASES
from warmroute.sim.suite import FULL, LARGE_PROFILE, SHORT, SMALL_PROFILE, policy_of

EIGHT = ("aws-long", "aws-short", "ladder", "mooncake", "agents", "do-no-harm", "skew")
"""The eighth is a change of the fleet in any of them."""


@pytest.mark.parametrize("sub_cases", [SHORT, FULL], ids=["short", "full"])
def test_a_selection_has_all_eight_cases_on_both_profiles(sub_cases):
    for profile in (LARGE_PROFILE, SMALL_PROFILE):
        there = {each.case for each in sub_cases.values() if each.parameters.text("profile") == profile}
        missing = set(EIGHT) - there
        # llm-d's ladder has a profile of its own in the short selection.
        assert missing <= ({"ladder"} if profile == LARGE_PROFILE and sub_cases is SHORT else set())
    changed = {(each.case, each.parameters.text("fault")) for each in sub_cases.values() if each.changes}
    assert changed >= {
        (case, kind) for case in ("aws-long", "aws-short", "skew") for kind in ("drain", "add")
    }


def test_everything_has_every_case_changed_on_both_profiles():
    changed = {
        (each.case, each.parameters.text("fault"), each.parameters.text("profile"))
        for each in FULL.values()
        if each.changes
    }
    for case in ("aws-long", "aws-short", "mooncake", "agents", "do-no-harm", "bursts", "skew", "hot"):
        for profile in (LARGE_PROFILE, SMALL_PROFILE):
            assert {(case, "drain", profile), (case, "add", profile)} <= changed


@pytest.mark.parametrize("sub_case", [*SHORT.values(), *FULL.values()], ids=lambda each: each.name)
def test_a_sub_case_is_a_case_with_parameters_that_it_has(sub_case):
    parameters = sub_case.parameters  # raises if a parameter is wrong
    assert sub_case.scenario is CASES[sub_case.case]
    assert sub_case.name.startswith(sub_case.case)
    assert ("+drain" in sub_case.name or "+add" in sub_case.name) is sub_case.changes
    assert sub_case.name.endswith("/8b") <= (parameters.text("profile") == SMALL_PROFILE)
    if sub_case.changes and sub_case.case != "ladder":
        minute = parameters.number("duration_s") - parameters.number("fault_s")
        assert minute == 60
        assert parameters.number("warmup_s") < parameters.number("fault_s")


@pytest.mark.parametrize("sub_cases", [SHORT, FULL], ids=["short", "full"])
def test_seeds_of_recordings_differ(sub_cases):
    for each in sub_cases.values():
        if each.case in ("mooncake", "bursts"):
            assert each.parameters.number("start_max_s") or each.parameters.number("spread_s")


def test_a_sub_case_takes_the_parameters_that_it_has():
    made = SHORT["mooncake@2x"].having({"speed": "1", "clients": "3"})
    assert made.parameters.number("speed") == 1
    assert "clients" not in dict(made.overrides)
    assert [name for name, _ in made.overrides].count("speed") == 1


def test_several_routers_are_a_sub_case_of_their_own():
    made = SHORT["aws-long@14"].with_routers()
    assert made.name == "aws-long@14+4routers"
    assert made.parameters.whole("routers") == 4


def test_the_grid_is_lengths_by_thresholds_around_the_cases_own():
    assert SHORT["aws-long@14"].grid() == (
        "PREFIX_AWARE[1024,4]", "PREFIX_AWARE[1024,16]", "PREFIX_AWARE[4096,4]", "PREFIX_AWARE[4096,16]",
        "PREFIX_AWARE[16384,4]", "PREFIX_AWARE[16384,16]",
    )  # fmt: skip
    assert SHORT["ladder@10"].grid()[:2] == ("PREFIX_AWARE[1024,48]", "PREFIX_AWARE[1024,192]")


def test_the_short_grid_is_low_thresholds_with_the_cases_own_length():
    assert SHORT["aws-short@140"].short_grid() == ("PREFIX_AWARE[1024,1]", "PREFIX_AWARE[1024,4]")


def test_a_grid_stays_within_what_sagemaker_allows():
    assert SHORT["aws-long@14"].having({"threshold": "1000"}).grid()[1] == "PREFIX_AWARE[1024,1024]"
    assert SHORT["aws-long@14"].having({"threshold": "1"}).grid()[0] == "PREFIX_AWARE[1024,1]"


def test_a_pair_is_read_from_the_name_of_a_policy():
    assert policy_of("KV_AWARE:estimated") == ("KV_AWARE:estimated", {})
    assert policy_of("PREFIX_AWARE[4096,40]") == (
        "PREFIX_AWARE",
        {"prefix_length": "4096", "threshold": "40"},
    )
    with pytest.raises(ConfigurationError, match="has a pair, got lmetric"):
        policy_of("lmetric[4096,40]")
