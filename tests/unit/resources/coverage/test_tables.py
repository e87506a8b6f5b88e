import pytest

from warmroute.resources.coverage.tables import Treatment, check_coverage, structure
from warmroute.resources.errors import ApiError

ITEM = structure(noun="item", named_by="Name", honoured=("Name",), refused={"Old": "Use Name."})
ROW = structure(
    noun="thing",
    named_by="ThingName",
    honoured=("ThingName", "Items", "One", "Config"),
    stored=("Kept",),
    refused={"Gone": "Leave it out."},
    notes={"Kept": "for ever"},
    inside={
        "Items": ITEM,
        "One": structure(noun="one", honoured=("X",)),
        "Config": structure(honoured=("Y",)),
    },
)


def test_a_row_tells_what_becomes_of_each_member():
    assert ROW.members["ThingName"].treatment is Treatment.HONOURED
    assert (ROW.members["Kept"].treatment, ROW.members["Kept"].text) == (Treatment.STORED, "for ever")
    assert (ROW.members["Gone"].treatment, ROW.members["Gone"].text) == (Treatment.REFUSED, "Leave it out.")
    assert ROW.members["Items"].inside is ITEM


def test_what_is_honoured_or_stored_passes_with_everything_in_it():
    check_coverage(ROW, {"ThingName": "t", "Items": [{"Name": "i"}], "One": {"X": 1}, "Kept": {"any": 1}})


@pytest.mark.parametrize("nothing", [[], {}, None, False])
def test_what_asks_for_nothing_passes(nothing):
    check_coverage(ROW, {"Gone": nothing, "New": nothing})


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"Gone": 1}, "Gone of thing of the request is not supported by warmroute. Leave it out."),
        ({"ThingName": "t", "Gone": 1}, 'Gone of thing "t" is not supported by warmroute. Leave it out.'),
        ({"ThingName": "t", "New": "x"}, 'New of thing "t" is not supported by warmroute. Leave it out.'),
        ({"Items": [{"Name": "a"}, {"Name": "b", "Old": 1}]}, 'Old of item "b" is not supported'),
        ({"ThingName": "t", "One": {"Z": 1}}, 'Z of one of thing "t" is not supported'),
        ({"ThingName": "t", "Config": {"Z": 1}}, 'Z of thing "t" is not supported'),
    ],
)
def test_what_is_refused_or_undecided_is_named(request_, text):
    with pytest.raises(ApiError) as caught:
        check_coverage(ROW, request_)
    assert text in caught.value.message
