# ruff: noqa: E501  (a table is read by its columns)
import pytest

from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.shapes import Shape
from warmroute.resources.validate import ERRORS_MAX, QUOTED_CHARACTERS_MAX, validate

NAME = Shape("Name", "string", least=1, most=5, pattern="[a-z]+")
COLOUR = Shape("Colour", "string", enum=("red", "blue"))
COUNT = Shape("Count", "integer", least=2, most=9)
ITEM = Shape("Item", "structure", members={"Name": NAME, "Count": COUNT}, required=("Name",))
REQUEST = Shape(
    "Request",
    "structure",
    members={
        "Name": NAME,
        "Colour": COLOUR,
        "Count": COUNT,
        "Weight": Shape("Weight", "float", least=0),
        "When": Shape("When", "timestamp"),
        "Flag": Shape("Flag", "boolean"),
        "Items": Shape("Items", "list", item=ITEM, least=1, most=2),
        "Names": Shape("Names", "list", item=NAME, most=2),
        "Environment": Shape("Environment", "map", key=NAME, item=NAME, most=2),
    },
)


def messages(document, shape=REQUEST):
    with pytest.raises(ApiError) as caught:
        validate(shape, document)
    assert caught.value.code is ApiCode.VALIDATION
    return caught.value.message


def unreadable(document):
    with pytest.raises(ApiError) as caught:
        validate(REQUEST, document)
    assert caught.value.code is ApiCode.SERIALIZATION
    return caught.value.message


def test_a_good_request_keeps_known_members_and_drops_nulls():
    document = {
        "Name": "ab",
        "Colour": "red",
        "Count": 3.0,
        "Weight": 1,
        "When": 12.5,
        "Flag": False,
        "Items": [{"Name": "x", "Unknown": {}}],
        "Names": ["a"],
        "Environment": {"a": "b", "c": None},
        "Other": 1,
    }
    checked = validate(REQUEST, document)
    assert checked == {
        "Name": "ab",
        "Colour": "red",
        "Count": 3,
        "Weight": 1,
        "When": 12.5,
        "Flag": False,
        "Items": [{"Name": "x"}],
        "Names": ["a"],
        "Environment": {"a": "b"},
    }
    assert isinstance(checked["Count"], int)
    assert validate(REQUEST, {"Name": None}) == {}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"Count": 1}, "Value '1' at 'count' failed to satisfy constraint: Member must have value greater than or equal to 2"),
        ({"Count": 10}, "Member must have value less than or equal to 9"),
        ({"Name": "abcdef"}, "Value 'abcdef' at 'name' failed to satisfy constraint: Member must have length less than or equal to 5"),
        ({"Name": "A"}, "Member must satisfy regular expression pattern: [a-z]+"),
        ({"Colour": "green"}, "Value 'green' at 'colour' failed to satisfy constraint: Member must satisfy enum value set: [red, blue]"),
        ({"Items": []}, "Value '[]' at 'items' failed to satisfy constraint: Member must have length greater than or equal to 1"),
        ({"Items": [{}]}, "Value null at 'items.1.member.name' failed to satisfy constraint: Member must not be null"),
        ({"Items": [{"Name": "a"}, {"Name": "b", "Count": 1}]}, "at 'items.2.member.count'"),
        ({"Names": ["a", "B", "C"]}, "Value '[a, B, C]' at 'names' failed to satisfy constraint: Member must have length less than or equal to 2"),
        ({"Names": ["B", "C"]}, "Value '[B, C]' at 'names' failed to satisfy constraint: Member must satisfy constraint: [Member must satisfy regular expression pattern: [a-z]+]"),
        ({"Environment": {"A": "b"}}, "Value '{A=b}' at 'environment' failed to satisfy constraint: Map keys must satisfy constraint: [Member must satisfy"),
        ({"Environment": {"a": "B"}}, "Map value must satisfy constraint: [Member must satisfy"),
        ({"Environment": {"a": "b", "c": "d", "e": "f"}}, "Member must have length less than or equal to 2"),
        ({"Weight": -1}, "Member must have value greater than or equal to 0"),
    ],
)  # fmt: skip
def test_broken_constraints_are_told_in_sagemakers_words(document, text):
    assert text in messages(document)


def test_several_broken_constraints_are_told_together():
    text = messages({"Name": "ABCDEF", "Count": 1})
    assert text.startswith("3 validation errors detected: Value 'ABCDEF' at 'name'")
    assert text.count("; Value") == 2
    assert messages({"Count": 1}).startswith("1 validation error detected: ")


def test_the_number_of_errors_told_is_bounded():
    many = Shape("Many", "list", item=ITEM)
    shape = Shape("Request", "structure", members={"Items": many})
    text = messages({"Items": [{}] * (ERRORS_MAX + 5)}, shape)
    assert text.startswith(f"{ERRORS_MAX + 5} validation errors detected")
    assert text.count("Value null") == ERRORS_MAX


def test_long_values_are_cut_and_not_matched():
    text = messages({"Name": "a" * 10_000})
    assert "a" * QUOTED_CHARACTERS_MAX + "…" in text
    assert "pattern" in text


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "Start of list found where not expected: expected structure"),
        (None, "NULL_VALUE can not be converted to a structure"),
        ("x", "STRING_VALUE can not be converted to a structure"),
        ({"Name": 1}, "NUMBER_VALUE can not be converted to a String at 'name'"),
        ({"Name": {}}, "Start of structure or map found where not expected at 'name': expected String"),
        ({"Count": "1"}, "STRING_VALUE can not be converted to an Integer at 'count'"),
        ({"Count": 1.5}, "NUMBER_VALUE can not be converted to an Integer at 'count'"),
        ({"Count": 2**31}, "NUMBER_VALUE can not be converted to an Integer at 'count'"),
        ({"Count": -(2**31) - 1}, "NUMBER_VALUE can not be converted to an Integer at 'count'"),
        ({"Count": 10**400}, "NUMBER_VALUE can not be converted to an Integer at 'count'"),
        ({"Count": True}, "TRUE_VALUE can not be converted to an Integer at 'count'"),
        ({"Weight": "x"}, "STRING_VALUE can not be converted to a Float"),
        ({"When": 253_402_300_800}, "NUMBER_VALUE can not be converted to a Timestamp at 'when'"),
        ({"When": -1e308}, "NUMBER_VALUE can not be converted to a Timestamp at 'when'"),
        ({"Weight": 10**400}, "NUMBER_VALUE can not be converted to a Float at 'weight'"),
        ({"When": "2026"}, "STRING_VALUE can not be converted to a Timestamp"),
        ({"Flag": 1}, "NUMBER_VALUE can not be converted to a Boolean"),
        ({"Items": {}}, "expected list"),
        ({"Items": [1]}, "can not be converted to a structure at 'items.1.member'"),
        ({"Names": [None]}, "NULL_VALUE can not be converted to a String at 'names.1.member'"),
        ({"Environment": []}, "expected map"),
        ({"Environment": {"a": 1}}, "can not be converted to a String at 'environment.a'"),
    ],
)
def test_wrong_types_are_serialization_errors(document, text):
    assert text in unreadable(document)


def test_nested_values_are_quoted_as_java_prints_them():
    shape = Shape(
        "Request",
        "structure",
        members={"Items": Shape("Items", "list", most=0, item=Shape("I", "structure", members={}))},
    )
    assert "Value '[{a=1, b=[x, true]}]'" in messages({"Items": [{"a": 1, "b": ["x", True]}]}, shape)


def test_a_number_that_is_none_of_the_choices_is_refused_with_them():
    shape = Shape("Input", "structure", {"Every": Shape("Seconds", "integer", choices=(10, 30))})
    assert validate(shape, {"Every": 30}) == {"Every": 30}
    with pytest.raises(ApiError, match=r"Value '11' at 'every' .*enum value set: \[10, 30\]"):
        validate(shape, {"Every": 11})


def test_for_logs_a_refusal_has_no_values():
    with pytest.raises(ApiError) as caught:
        validate(REQUEST, {"Environment": {"A": "secret"}, "Name": "Secret"})
    assert "secret" in caught.value.message
    assert caught.value.logged.startswith("4 validation errors detected: Value at 'name' failed to satisfy")
    assert "ecret" not in caught.value.logged
