import base64
import json

import pytest

from tests.unit.resources.carrying import component
from warmroute.resources.errors import ApiError
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.listing import PAGE_DEFAULT, Listing, page, summaries
from warmroute.resources.records import EndpointRecord, ModelRecord

LISTING = Listing("ListThings", {"Name": lambda r: r.name, "CreationTime": lambda r: r.created_s})


def model(name, created_s):
    return ModelRecord(name=name, arn=name, created_s=created_s, document={})


MODELS = [model("a", 3.0), model("ab", 1.0), model("b", 2.0), model("c", 2.0)]


def names(request, records=MODELS, listing=LISTING):
    return [record.name for record in page(listing, request, records)[0]]


def test_the_newest_come_first_and_names_break_ties():
    assert names({}) == ["a", "c", "b", "ab"]
    assert names({"SortOrder": "Ascending"}) == ["ab", "b", "c", "a"]
    assert names({"SortBy": "Name", "SortOrder": "Ascending"}) == ["a", "ab", "b", "c"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"NameContains": "a"}, ["a", "ab"]),
        ({"CreationTimeAfter": 2.0}, ["a", "c", "b"]),
        ({"CreationTimeBefore": 2.0}, ["ab"]),
        ({"CreationTimeAfter": 1.0, "CreationTimeBefore": 3.0}, ["c", "b", "ab"]),
        ({"NameContains": "z"}, []),
    ],
)
def test_filters(filters, expected):
    assert names(filters) == expected


def test_endpoints_have_more_filters():
    def endpoint(name, status, modified_s):
        return EndpointRecord(name, name, status, 1.0, modified_s)

    records = [
        endpoint("up", EndpointStatus.IN_SERVICE, 5.0),
        endpoint("down", EndpointStatus.FAILED, 6.0),
    ]
    assert names({"StatusEquals": "Failed"}, records) == ["down"]
    assert names({"LastModifiedTimeBefore": 6.0}, records) == ["up"]
    assert names({"LastModifiedTimeAfter": 6.0}, records) == ["down"]


@pytest.mark.parametrize("order", ["Ascending", "Descending"])
@pytest.mark.parametrize("sort_by", ["Name", "CreationTime"])
def test_pages_join_up_and_miss_nothing(order, sort_by):
    request = {"SortBy": sort_by, "SortOrder": order, "MaxResults": 1}
    seen, token = [], {}
    while True:
        shown, token = page(LISTING, request | token, MODELS)
        seen += [record.name for record in shown]
        if not token:
            break
    assert seen == names({"SortBy": sort_by, "SortOrder": order})


def test_a_record_that_goes_between_two_pages_moves_no_other():
    request = {"SortBy": "Name", "SortOrder": "Ascending", "MaxResults": 2}
    _, token = page(LISTING, request, MODELS)
    assert names(request | token, MODELS[1:]) == ["b", "c"]
    assert page(LISTING, request | token, []) == ((), {})


def test_a_page_has_ten_records_unless_told_otherwise():
    many = [model(f"m{i:02}", float(i)) for i in range(PAGE_DEFAULT + 1)]
    shown, token = page(LISTING, {}, many)
    assert (len(shown), set(token)) == (PAGE_DEFAULT, {"NextToken"})
    assert page(LISTING, {}, many[:PAGE_DEFAULT])[1] == {}


def test_a_token_goes_with_its_own_query_only():
    _, token = page(LISTING, {"MaxResults": 1}, MODELS)
    for other in ({"NameContains": "a"}, {"SortBy": "Name"}, {"SortOrder": "Ascending"}):
        with pytest.raises(ApiError, match="NextToken"):
            page(LISTING, other | token, MODELS)
    with pytest.raises(ApiError, match="NextToken"):
        page(Listing("ListOthers", LISTING.sort_keys), token, MODELS)
    assert len(page(LISTING, {"MaxResults": 2} | token, MODELS)[0]) == 2


def forged(*change):
    _, token = page(LISTING, {"MaxResults": 1}, MODELS)
    fingerprint = json.loads(base64.urlsafe_b64decode(token["NextToken"]))[0]
    return base64.urlsafe_b64encode(json.dumps([fingerprint, *change]).encode()).decode()


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "é",
        "aGFsbG8=",
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        forged("text", "a"),
        forged(1.0),
        forged(1.0, 2),
        forged(None, "a"),
    ],
)
def test_forged_tokens_are_refused(token):
    with pytest.raises(ApiError, match="NextToken"):
        page(LISTING, {"NextToken": token}, MODELS)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["two", "one"]),
        ({"EndpointNameEquals": "e1"}, ["one"]),
        ({"VariantNameEquals": "v2"}, ["two"]),
        ({"EndpointNameEquals": "e1", "VariantNameEquals": "v2"}, []),
        ({"StatusEquals": "Failed"}, ["two"]),
        ({"LastModifiedTimeAfter": 9.0}, ["two"]),
    ],
)
def test_components_are_filtered_by_place_status_and_times(filters, expected):
    one = component("one", endpoint="e1", variant="v1", created_s=1.0, modified_s=2.0)
    two = component(
        "two", endpoint="e2", variant="v2", created_s=2.0, modified_s=9.0, status=ComponentStatus.FAILED
    )
    assert names(filters, [one, two]) == expected


def test_summaries_are_name_arn_and_time():
    shown = summaries("Model", {"MaxResults": 1}, MODELS)
    assert shown["Models"] == [{"ModelName": "a", "ModelArn": "a", "CreationTime": 3.0}]
    assert "NextToken" in shown
