import json

import msgspec
import pytest

from warmroute.core.decision import NEW_SESSION, Lease, RoutingRequest
from warmroute.core.events import (
    CacheCleared,
    Cancelled,
    Completed,
    EventsLost,
    Failed,
    FailureCause,
    FirstToken,
    TextBlocksRemoved,
    TextBlocksStored,
)
from warmroute.core.fleet import AccessKey, ApiKey, Endpoint, Fleet, Routing, Target, Variant
from warmroute.routing.log import (
    FORMAT,
    AttemptTold,
    Began,
    CacheTold,
    DeadlineMet,
    Decided,
    Ended,
    FleetApplied,
    Health,
    LogError,
    SessionAdopted,
    SessionClosed,
    SessionOpened,
    VariantChosen,
    adopted,
    alias,
    asked_of,
    attempt_event,
    attempt_told,
    cache_event,
    cache_told,
    decode,
    decode_first,
    encode,
    from_hex,
    in_hex,
    without_secrets,
)
from warmroute.routing.sessions import Session

TARGET = Target("i-1", "i-1", 2, "10.0.0.7", 8000, api_key="hidden", path_prefix="/hidden")
FLEET = Fleet(
    7, "us-east-1", "0" * 12, (Endpoint("llm", True, (Variant("v", 1.0, Routing(), (TARGET,)),)),),
    (AccessKey("id", "hidden"),), (ApiKey("me", "hidden"),), session_key="hidden",
)  # fmt: skip
BEGAN = Began(FORMAT, "0.1.0", 1, "00000000000000ff", "router-0", 12.5, 77)
LINES = [
    BEGAN,
    FleetApplied(without_secrets(FLEET), applied=True),
    VariantChosen("llm", None, "", "", "v", 1),
    Decided(
        5, 1, "00000000000000aa", 2048, in_hex((1, 2**64 - 1)), "c", "a", "s", ("i-2",), 1, "i-1", 2, "v",
        "PREFIX_AWARE", "overflow", 1, 3, 4,
    ),
    Decided(6, 1, refusal="all_tried"),
    AttemptTold(7, 1, "failed", "closed", change=Health("i-1", 2, True, "closed")),
    SessionOpened(8, 1, "s", 9, True),
    SessionAdopted(8, "llm", "s", "v", 0, "i-1", 2, 9, True),
    SessionClosed(1, "s", False),
    CacheTold(9, "stored", "i-1", 2, in_hex((3,))),
    DeadlineMet(10, (Health("i-1", 2, False, "probation"),)),
    Ended("stopped"),
]  # fmt: skip
LEASE = Lease(TARGET, 2, None)
ATTEMPT_EVENTS = [
    FirstToken(LEASE), Completed(LEASE), Completed(LEASE, 10, 5, 7), Cancelled(LEASE),
    *(Failed(LEASE, cause) for cause in FailureCause),
]  # fmt: skip
CACHE_EVENTS = [
    TextBlocksStored("i-1", 2, (0, 2**64 - 1)), TextBlocksRemoved("i-1", 2, (1,)), CacheCleared("i-1", 2),
    EventsLost("i-1", 2, "gap"),
]  # fmt: skip


# --- lines ----------------------------------------------------------------------------------


def test_lines_are_read_as_they_were_written():
    written = encode(LINES).splitlines()
    assert [decode(line) for line in written] == LINES


def test_the_lines_of_format_2_are_pinned():
    """A change here is another format: older logs could not be replayed."""
    assert encode([BEGAN, LINES[3], LINES[5]]).decode().splitlines() == [
        (
            '{"what":"log","format":2,"warmroute":"0.1.0","key_version":1,"seed":"00000000000000ff",'
            '"router":"router-0","began_s":12.5,"began_ns":77}'
        ),
        (
            '{"what":"decide","now_ns":5,"book":1,"key":"00000000000000aa","characters":2048,'
            '"chain":"0000000000000001ffffffffffffffff","component":"c","adapter":"a","session":"s",'
            '"tried":["i-2"],"lease":1,"target":"i-1","generation":2,"variant":"v","strategy":"PREFIX_AWARE",'
            '"reason":"overflow","rank":1,"in_flight":3,"candidates":4}'
        ),
        (
            '{"what":"apply","now_ns":7,"lease":1,"event":"failed","cause":"closed",'
            '"change":{"target":"i-1","generation":2,"ejected":true,"reason":"closed"}}'
        ),
    ]


def test_what_did_not_happen_is_left_out():
    assert encode([LINES[4]]) == b'{"what":"decide","now_ns":6,"book":1,"refusal":"all_tried"}\n'


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"{}", b"[]", b'{"what":"nothing"}', b'{"what":"end"}', b'{"what":"end","why":"full","x":1}',
     b'{"what":"end","wh', b'{"what":"end","why":"\xff"}'],
)  # fmt: skip
def test_a_damaged_line_is_refused(line):
    with pytest.raises(LogError, match="no line of a decision log"):
        decode(line)


def test_a_text_that_is_no_text_cannot_be_written():
    with pytest.raises(ValueError, match="surrogates"):
        encode([VariantChosen("\ud800")])


# --- the first line -------------------------------------------------------------------------


def test_the_first_line_of_a_log_is_read():
    assert decode_first(encode([BEGAN])) == BEGAN


@pytest.mark.parametrize(
    "line",
    [b"", b"hello", b'{"time":1}', b'{"what":"end","why":"full"}', b'{"what":"end","format":1}', b"\xff"],
)
def test_a_file_of_another_kind_is_refused(line):
    with pytest.raises(LogError, match="does not begin like a decision log"):
        decode_first(line)


def test_a_newer_format_is_named_whatever_else_it_says():
    line = json.dumps({"what": "log", "format": 3, "something": "new"}).encode()
    with pytest.raises(LogError, match="format 3; this version reads 1 to 2"):
        decode_first(line)


def test_a_log_of_format_1_is_read_and_its_variants_have_one_revision():
    first = decode_first(encode([BEGAN]).replace(b'"format":2', b'"format":1'))
    assert isinstance(first, Began)
    assert first.format == 1
    line = b'{"what":"choose","endpoint":"llm","variant":"v","book":1}'
    assert decode(line) == VariantChosen("llm", None, "", "", "v", 1, 0)


def test_a_shadow_is_written_without_its_secrets_too():
    shadow = Variant("s", 1.0, Routing(), (TARGET,))
    endpoint = Endpoint("llm", True, (), shadow)
    (bare,) = without_secrets(Fleet(7, "us-east-1", "0" * 12, (endpoint,))).endpoints
    assert (bare.shadow.targets[0].api_key, bare.shadow.targets[0].path_prefix) == (None, "")


def test_a_first_line_that_is_damaged_is_refused():
    with pytest.raises(LogError, match="no line of a decision log"):
        decode_first(b'{"what":"log","format":1}')


# --- what is written instead of what was said -----------------------------------------------


def test_a_fleet_loses_its_secrets_and_nothing_else():
    bare = without_secrets(FLEET)
    assert b"hidden" not in encode([FleetApplied(bare, applied=True)])
    (variant,) = bare.endpoints[0].variants
    assert variant.targets[0].host == "10.0.0.7"
    assert (bare.version, variant.routing, variant.targets[0].generation) == (7, Routing(), 2)
    assert without_secrets(bare) == bare


def test_no_member_of_a_fleet_is_a_secret_but_those_that_are_left_out():
    """A new one of them has to be thought of here."""
    secrets = {"api_key", "path_prefix", "access_keys", "api_keys", "session_key"}
    plain = {
        "version", "region", "account", "endpoints", "name", "in_service", "variants", "weight", "routing",
        "targets", "components", "target_id", "instance_id", "generation", "host", "port", "state", "tls",
        "model_name", "native", "hold_first_event", "component", "adapters", "routers", "revision", "share",
        "shadow", "carries_components", "adapter_prefix",
    }  # fmt: skip
    named = {
        field.name
        for kind in (Fleet, Endpoint, Variant, Target)
        for field in msgspec.inspect.type_info(kind).fields
    }
    assert named - plain == secrets


def test_an_adopted_session_is_pinned_to_what_its_line_says():
    line = SessionAdopted(8, "llm", "s", "v", 3, "i-1", 2, 9, True)
    assert adopted(line) == Session("v", "i-1", 2, 9, 3)


def test_a_session_id_is_hidden_always_in_the_same_way():
    assert alias("session-1") == alias("session-1") != alias("session-2")
    assert len(alias("session-1")) == 16
    assert "session" not in alias("session-1")


def test_what_is_no_session_id_stays_none():
    assert alias("") == ""
    assert alias(NEW_SESSION) == NEW_SESSION
    assert len(alias("x" * 256)) == 16
    assert len(alias("x" * 257)) == 257


# --- hashes, requests and events ------------------------------------------------------------


@pytest.mark.parametrize("hashes", [(), (0,), (2**64 - 1, 1, 2**63)])
def test_hashes_are_read_as_they_were_written(hashes):
    assert from_hex(in_hex(hashes)) == hashes


@pytest.mark.parametrize("text", ["0", "0" * 15, "0" * 17, "x" * 16])
def test_hashes_of_another_length_or_alphabet_are_refused(text):
    with pytest.raises(LogError, match="16 hexadecimal digits each"):
        from_hex(text)


def test_a_request_is_made_again():
    assert asked_of(LINES[3]) == RoutingRequest(0xAA, (1, 2**64 - 1), 2048, "c", "a", "s")
    assert asked_of(LINES[4]) == RoutingRequest()


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        (RoutingRequest, {"key", "chain", "characters", "component", "adapter", "session"}),
        (FirstToken, {"lease"}),
        (Completed, {"lease", "prompt_tokens", "cached_tokens", "output_tokens"}),
        (Failed, {"lease", "cause"}),
        (Cancelled, {"lease"}),
        (TextBlocksStored, {"target_id", "generation", "blocks"}),
        (TextBlocksRemoved, {"target_id", "generation", "blocks"}),
        (CacheCleared, {"target_id", "generation"}),
        (EventsLost, {"target_id", "generation", "why"}),
    ],
)
def test_every_member_of_what_a_router_is_told_has_its_place_in_a_line(kind, members):
    """A new one may move decisions: give it a place, and a value in the tests beside this one."""
    assert set(kind.__struct_fields__) == members


@pytest.mark.parametrize("event", ATTEMPT_EVENTS, ids=repr)
def test_facts_about_attempts_are_made_again(event):
    line = attempt_told(event, now_ns=1, lease=2, change=None)
    assert (line.now_ns, line.lease) == (1, 2)
    assert attempt_event(line, LEASE) == event


@pytest.mark.parametrize(
    "line",
    [AttemptTold(1, 1, "nothing"), AttemptTold(1, 1, "failed"), AttemptTold(1, 1, "failed", "nothing")],
)
def test_unknown_facts_about_attempts_are_refused(line):
    with pytest.raises(LogError, match="no attempt has the event"):
        attempt_event(line, LEASE)


@pytest.mark.parametrize("event", CACHE_EVENTS, ids=repr)
def test_facts_about_caches_are_made_again(event):
    assert cache_event(cache_told(event, now_ns=1)) == event


def test_unknown_facts_about_caches_are_refused():
    with pytest.raises(LogError, match="no cache has the event nothing"):
        cache_event(CacheTold(1, "nothing", "i-1", 1))
