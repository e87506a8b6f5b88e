"""Arithmetic over metrics."""

import pytest

from warmroute.resources.metrics.expressions import EXPRESSION_CHARACTERS_MAX, ExpressionError, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", 6.0),
        ("a / b * 100", 150.0),
        ("-(a - b)", -2.0),
        ("+a + 1.5", 7.5),
        ("min(a, b)", 4.0),
        ("max(a, b, 9)", 9.0),
        ("fill(none, 3) + a", 9.0),
        ("fill(a, 3)", 6.0),
        ("none + 1", None),
        ("-none", None),
        ("min(a, none)", None),
        ("a / (b - 4)", None),
        ("a * 1e308 * 1e308", None),
        ("a * 1e400", None),
    ],
)
def test_expressions_come_to_a_number_or_nothing(text, expected):
    expression = parse(text, ["a", "b", "none"])
    assert expression.value({"a": 6.0, "b": 4.0, "none": None}) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a +", "cannot be read"),
        ("", "cannot be read"),
        ("a ** 2", "not allowed"),
        ("a.real", "not allowed"),
        ("__import__('os')", "not allowed"),
        ("min(*a)", "not allowed"),
        ("min(a, key=a)", "not allowed"),
        ("'text'", "not allowed"),
        ("True + a", "not allowed"),
        ("a if a else a", "not allowed"),
        ("c", "not one of its metrics: a"),
        ("1 + 1", "reads no metric"),
        ("min()", "got 0 values"),
        ("fill(a)", "got 1 values"),
        ("-" * 30 + "a", "operations deep"),
        ("a" * (EXPRESSION_CHARACTERS_MAX + 1), "at most 1024"),
    ],
)
def test_what_is_not_arithmetic_on_its_metrics_is_refused(text, part):
    with pytest.raises(ExpressionError, match=part):
        parse(text, ["a"])


def test_an_expression_of_the_greatest_length_is_read():
    text = "a+" * (EXPRESSION_CHARACTERS_MAX // 100) + "a"
    assert parse(text.ljust(EXPRESSION_CHARACTERS_MAX), ["a"]).names == {"a"}


def test_a_name_without_any_metrics_is_refused():
    with pytest.raises(ExpressionError, match="there are none"):
        parse("a", [])
