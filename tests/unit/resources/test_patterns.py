import re

import pytest

from warmroute.adapters.service_model import load_schema
from warmroute.resources.patterns import compile_java, translate


def patterns_of(shape, seen):
    if id(shape) in seen:
        return set()
    seen.add(id(shape))
    inner = [*shape.members.values(), shape.item, shape.key]
    found = {shape.pattern} if shape.pattern else set()
    return found.union(*(patterns_of(one, seen) for one in inner if one is not None))


def test_every_pattern_that_can_be_reached_compiles():
    schema = load_schema(())
    seen = set()
    found = set().union(*(patterns_of(s, seen) for s in (*schema.inputs.values(), *schema.outputs.values())))
    assert len(found) > 20
    for pattern in found:
        compile_java(pattern)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", ["a", "a--b", "a" * 63], ["", "-a", "a-", "a_b", "a\n", "é"]),
        (r"\d+", ["012"], ["٣", ""]),
        (r".*", ["", "x y"], ["a\nb", "a\rb", "a\u2028b", "a\u0085b"]),
        (r"[\S]+", ["é"], ["a b", ""]),
        (r"[\s\S]+", ["a\nb"], [""]),
        (r"([\p{L}\p{Z}\p{N}_.:/=+\-@]*)", ["", "Straße 7", "名前", "a-b@c"], ["a#b", "a\tb", "😀"]),
        (r"\A\S[\p{Print}]*\z", ["a b~"], [" a", "a\n", "aé"]),
        (r"\p{Alnum}+", ["aZ9"], ["é", "_"]),
        (r"\P{L}", ["1"], ["a"]),
        (r"\p{IsL}", ["é"], ["1"]),
        (r"a\Z", ["a"], ["ab"]),
        (r"[.]\.", [".."], ["a.", "x"]),
        (r"(?!\s*$).+", ["a"], ["", "  "]),
    ],
)
def test_patterns_match_whole_values_as_java_does(pattern, matching, others):
    compiled = compile_java(pattern)
    assert [value for value in matching if not compiled.fullmatch(value)] == []
    assert [value for value in others if compiled.fullmatch(value)] == []


@pytest.mark.parametrize("pattern", ["a\\", r"\pL", r"\p{L", r"[a[b]]", r"[\P{L}]"])
def test_constructs_that_no_pattern_uses_are_refused(pattern):
    with pytest.raises(ValueError, match=re.escape("character class") + "|pattern"):
        translate(pattern)


def test_ends_of_input_are_translated_outside_of_classes_only():
    assert translate(r"\z") == r"\Z"
    assert translate(r"[\.z]") == r"[\.z]"


def test_pairs_of_utf16_units_are_one_character():
    any_text = compile_java("[\\u0020-\\uD7FF\\uE000-\\uFFFD\\uD800\\uDC00-\\uDBFF\\uDFFF\\r\\n\\t]*")
    assert any_text.fullmatch("plain, ümlaut, \U0001f600, \U0010ffff\r\n\t")
    assert not any_text.fullmatch("\x00")
    assert not any_text.fullmatch("\ud800")
