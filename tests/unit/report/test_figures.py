"""Figures of a case: what is drawn, and how it gets into a file or a page."""

import xml.etree.ElementTree as ET

import pytest

from warmroute.report.case import Case
from warmroute.report.figures import (
    BEST_OTHER,
    COLOURS,
    INK,
    OTHER,
    VARIABLES,
    figures,
    image,
    lines,
    themed_svg,
)
from warmroute.sim.series import QUANTILES, Course

POLICIES = ("chwbl", "RANDOM", "lmetric", "KV_AWARE:estimated", "KV_AWARE")


def case(policies=POLICIES, *, bucket_s=10, change_s=None, slow=1.0):
    return Case(
        "aws-long@14", "Title", {},
        [{"policy": policy, "seed": 1, "ttft_mean_ms": 100 - place} for place, policy in enumerate(policies)],
        quantiles={policy: [(10 + 90 * share) * slow for share in QUANTILES] for policy in policies},
        courses={
            policy: Course(
                bucket_s, (None, 0.5, 0.75), (1, 2, 3), (0.5, 4, 1), (("a", 0.25), ("b", 0.75))
            )
            for policy in policies
        },
        warmup_s=10,
        change_s=change_s,
    )  # fmt: skip


def drawn(made=None, *, legend=False):
    return dict(figures(made or case(), legend=legend))


def test_live_policies_and_the_best_other_stand_out():
    made = lines(case())
    assert [(line.policy, line.colour, line.dashed, line.front) for line in made] == [
        ("chwbl", OTHER, False, False),
        ("lmetric", BEST_OTHER, False, True),
        ("RANDOM", COLOURS["RANDOM"], False, True),
        ("KV_AWARE", COLOURS["KV_AWARE"], False, True),
        ("KV_AWARE:estimated", COLOURS["KV_AWARE:estimated"], True, True),
    ]
    assert [line.policy for line in lines(case(("RANDOM",)))] == ["RANDOM"]


def test_a_case_has_the_figures_it_has_data_for():
    assert list(drawn()) == ["ttft", "hit-rate", "waiting", "shares"]
    assert drawn(Case("x", "", {}, [{"policy": "RANDOM", "ttft_mean_ms": 1}])) == {}


def test_the_distribution_has_a_line_per_policy_from_0_to_100_percent():
    (axes,) = drawn()["ttft"].axes
    assert len(axes.lines) == 5
    x, y = axes.lines[0].get_data()
    assert (x[0], y[0], x[-1], y[-1]) == (10, 0, 100, 100)
    assert axes.get_xscale() == "log"


@pytest.mark.parametrize(("slow", "labels"), [(1, {"20", "50", "100"}), (100, {"2 s", "5 s", "10 s"})])
def test_times_have_short_labels(slow, labels):
    figure = drawn(case(slow=slow))["ttft"]
    figure.draw_without_rendering()
    assert labels <= {text.get_text() for text in figure.axes[0].get_xticklabels()}


def test_courses_are_in_seconds_or_minutes_and_leave_gaps():
    (axes,) = drawn()["hit-rate"].axes
    x, y = axes.lines[0].get_data()
    assert list(x) == [5, 15, 25]
    assert str(y[0]) == "nan"
    assert list(y[1:]) == [50, 75]
    assert axes.get_xlabel() == "seconds"
    (slow,) = drawn(case(bucket_s=300))["waiting"].axes
    assert slow.get_xlabel() == "minutes"
    assert list(slow.lines[0].get_data()[0]) == [2.5, 7.5, 12.5]
    assert list(slow.lines[0].get_data()[1]) == [0.5, 4, 1]


def test_the_change_of_the_fleet_is_a_line():
    (with_change,) = drawn(case(change_s=15))["waiting"].axes
    assert len(with_change.lines) == 6
    assert with_change.lines[-1].get_color() == INK
    assert list(with_change.lines[-1].get_xdata()) == [15, 15]


def test_shares_have_a_row_per_policy_and_a_dot_per_instance():
    (axes,) = drawn()["shares"].axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["KV_AWARE:estimated", "KV_AWARE", "RANDOM", "lmetric", "chwbl"]
    assert [tuple(dot) for dot in axes.collections[0].get_offsets()] == [(25, 0), (75, 0)]


def test_a_figure_by_itself_says_whose_line_is_whose():
    (legend,) = drawn(legend=True)["ttft"].legends
    assert {text.get_text() for text in legend.texts} == {
        "lmetric", "RANDOM", "KV_AWARE", "KV_AWARE:estimated", "another policy",
    }  # fmt: skip
    assert not drawn(legend=True)["shares"].legends
    assert drawn(legend=True)["shares"].axes[0].get_title("left").endswith(", aws-long@14")
    assert not drawn()["ttft"].legends


def test_files_are_svg_and_png_and_the_same_every_time():
    assert image(drawn()["ttft"], "png").startswith(b"\x89PNG")
    svg = image(drawn()["ttft"], "svg")
    assert ET.fromstring(svg).tag.endswith("svg")
    assert image(drawn()["ttft"], "svg") == svg


def test_a_figure_in_a_page_takes_its_colours_and_has_no_names_of_others():
    made = themed_svg(drawn()["ttft"], name="0-ttft", label='aws-long: "x"')
    root = ET.fromstring(made.replace("xlink:", ""))
    assert root.get("aria-label") == 'aws-long: "x"'
    assert root.get("viewBox") == "0 0 360 223.2"
    assert "var(--policy-0)" in made
    assert "var(--other)" in made
    assert not [colour for colour in VARIABLES if colour in made]
    assert "Time to first token" in made  # as text, not as shapes
    other = themed_svg(drawn()["ttft"], name="1-ttft", label="")
    ids = [
        {element.get("id") for element in ET.fromstring(text.replace("xlink:", "")).iter()} - {None}
        for text in (made, other)
    ]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert "http" not in made.replace("http://www.w3.org", "")


def test_figures_touch_no_global_state():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    drawn(legend=True)
    assert dict(mpl.rcParams) == before
