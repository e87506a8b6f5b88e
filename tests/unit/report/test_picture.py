import io

import pytest

from warmroute.report.measurements import Sample, summarise
from warmroute.report.picture import _label, comparison_picture


def samples():
    yield Sample("RANDOM", 1, "a", 1, "i-1", 0.4, 100, 1)
    yield Sample("RANDOM", 1, "a", 2, "i-2", 0.01, 100, 99)
    yield Sample("LEAST_OUTSTANDING_REQUESTS", 1, "b", 1, "", None, 0, 0, "refused")
    yield Sample("PREFIX_AWARE", 1, "c", 1, "i-1", 0.02, 100, 90)


def draw():
    made = list(samples())
    return comparison_picture(made, summarise(made), subtitle="four requests")


def test_every_answer_is_a_dot_and_failed_ones_are_left_out():
    waits, shares = draw().axes

    dots = [tuple(offset) for collection in waits.collections for offset in collection.get_offsets()]
    assert sorted(x for x, _ in dots) == [10.0, 20.0, 400.0]
    assert [round(bar.get_width()) for bar in shares.patches] == [100, 50, 100, 0, 100, 90]
    assert [text.get_text() for text in waits.texts] == ["P50 205 ms", "P50 20 ms"]


def test_the_picture_can_be_saved_and_touches_no_global_state():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    buffer = io.BytesIO()
    draw().savefig(buffer, format="png", dpi=50)

    assert buffer.getvalue().startswith(b"\x89PNG")
    assert dict(mpl.rcParams) == before


def test_nothing_can_be_drawn_too():
    comparison_picture([], (), subtitle="").savefig(io.BytesIO(), format="png")


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("RANDOM", "RANDOM"),
        ("LEAST_OUTSTANDING_REQUESTS", "LEAST_OUTSTANDING_\nREQUESTS"),
        ("A" * 30, "A" * 30),
    ],
)
def test_long_names_are_broken_after_an_underscore(name, label):
    assert _label(name) == label
