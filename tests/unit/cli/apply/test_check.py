from datetime import UTC, date, datetime

import pytest

from warmroute.cli.apply.check import allowed, check
from warmroute.resources.shapes import Shape

TEXT = Shape("T", "string", least=1, most=5, pattern="[a-z]+")
ITEM = Shape("I", "structure", members={"Name": TEXT}, required=("Name",))
SHAPE = Shape(
    "File",
    "structure",
    members={
        "Name": TEXT,
        "Count": Shape("C", "integer", least=0, most=10),
        "Weight": Shape("W", "float", least=0, most=3.4e38),
        "On": Shape("B", "boolean"),
        "Kind": Shape("K", "string", enum=("A", "B")),
        "Type": Shape("ProductionVariantInstanceType", "string", enum=("ml.x",)),
        "At": Shape("D", "timestamp"),
        "Items": Shape("L", "list", least=1, most=2, item=ITEM),
        "Map": Shape("M", "map", most=1, key=TEXT, item=Shape("V", "string", most=3)),
    },
)


def mistakes(**members):
    return check(SHAPE, members)[1]


def test_what_is_right_comes_back_with_integers_and_seconds():
    document = {
        "Name": "abc",
        "Count": 3.0,
        "Weight": 1,
        "On": True,
        "Kind": "A",
        "Type": "my.box",
        "At": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
        "Items": [{"Name": "x"}],
        "Map": {"k": "v"},
    }
    checked, wrong = check(SHAPE, document)
    assert wrong == []
    assert checked == document | {"Count": 3, "At": 60.0}
    assert isinstance(checked["Count"], int)
    assert check(SHAPE, {"At": datetime(1970, 1, 1, 0, 1)})[0] == {"At": 60.0}  # noqa: DTZ001
    assert check(SHAPE, {"At": 60}) == ({"At": 60}, [])


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"Nam": "a"}, "Nam: no such member; did you mean Name?"),
        ({"Qqq": 1}, "Qqq: no such member; allowed are Name, Count, Weight"),
        ({"a b": 1}, '"a b": no such member'),
        ({1: 1}, "1: no such member"),
        ({"Name": 5}, "Name = 5: must be text of 1 to 5 characters that matches [a-z]+; put it in quotes"),
        ({"Name": ""}, 'Name = "": must be text of 1 to 5'),
        ({"Name": "abcdef"}, 'Name = "abcdef": must be'),
        ({"Name": "A"}, 'Name = "A": must be'),
        ({"Name": date(2026, 1, 1)}, 'Name = "2026-01-01": must be text'),
        ({"Count": "3"}, 'Count = "3": must be an integer, 0 to 10'),
        ({"Count": 11}, "Count = 11: must be an integer, 0 to 10"),
        ({"Count": -1}, "Count = -1: must be"),
        ({"Count": 1.5}, "Count = 1.5: must be"),
        ({"Count": True}, "Count = true: must be"),
        ({"Weight": float("nan")}, "Weight = NaN: must be a number, at least 0"),
        ({"On": 1}, "On = 1: must be true or false"),
        ({"Kind": "C"}, 'Kind = "C": must be one of A, B'),
        ({"Kind": False}, "Kind = false: must be one of A, B; put it in quotes"),
        ({"At": "soon"}, 'At = "soon": must be a time such as'),
        ({"Items": {}}, "Items = {}: must be a list of 1 to 2 tables"),
        ({"Items": []}, "Items = []: must be a list of 1 to 2 tables"),
        ({"Items": ["x"]}, 'Items[0] = "x": must be a table'),
        ({"Items": [{}]}, "Items[0].Name is missing; it must be text of 1 to 5 characters"),
        ({"Items": [{"Name": "a"}, {"Name": "B"}]}, 'Items[1].Name = "B"'),
        ({"Map": {"a": "v", "b": "v"}}, "must be a table of text values"),
        ({"Map": {"a b": 7}}, 'Map."a b" = 7: must be text of at most 3 characters'),
        ({"Map": "x"}, 'Map = "x": must be a table of text values'),
    ],
)
def test_each_mistake_names_place_value_and_what_is_allowed(members, text):
    (found,) = check(SHAPE, members)[1]
    assert text in found


def test_all_mistakes_are_told_and_nothing_is_null():
    assert len(mistakes(Name="A", Count="x", Items=[{}, {}])) == 4
    assert check(SHAPE, {"Name": None}) == ({}, [])


def test_something_else_than_a_table_and_long_values_are_told_shortly():
    assert check(SHAPE, [])[1] == ["the file = []: must be a table"]
    (found,) = mistakes(Name="x" * 1000)
    assert len(found) < 150


def test_a_shape_that_contains_itself_ends():
    inner = Shape("S", "structure")
    inner.members["S"] = inner
    document = {}
    deepest = document
    for _ in range(50):
        deepest["S"] = {}
        deepest = deepest["S"]
    (found,) = check(inner, document)[1]
    assert found.endswith("go too deep")


def test_bounds_in_words():
    assert allowed(Shape("x", "integer", least=1)) == "an integer, at least 1"
    assert allowed(Shape("x", "long", most=5)) == "an integer, at most 5"
    assert allowed(Shape("x", "double")) == "a number"
    assert allowed(Shape("x", "list", item=Shape("y", "string"))) == "a list of values"
    assert allowed(Shape("x", "string", pattern=".*")) == "text"
