"""What routing sees of a request: a key, and under KV_AWARE the chain of all its text."""

import json

import pytest

from tests.unit.dataplane.conftest import PREFIX_AWARE, target
from warmroute.core.decision import RoutingRequest
from warmroute.core.fleet import Routing, RoutingStrategy, Variant
from warmroute.dataplane.asking import native_request, openai_request
from warmroute.routing.key import (
    TEXT_BLOCK_CHARACTERS,
    blocks_of,
    byte_chain,
    native_key,
    text_chain,
    text_key,
)
from warmroute.routing.router import VariantBook
from warmroute.wire.chat import BodyKind, read

KV_AWARE = Routing(RoutingStrategy.KV_AWARE)
LONG = "a text of some length. " * 300


def book_of(routing):
    return VariantBook("llm", Variant("AllTraffic", 1.0, routing, (target("i-1"), target("i-2"))))


@pytest.fixture
def kv():
    return book_of(KV_AWARE)


def native(book, body, prefix_aware_id="", component=""):
    return native_request(book, body, prefix_aware_id=prefix_aware_id, component=component)


def chat(book, *, names_endpoint=True, component="", text=LONG, **members):
    messages = [{"role": "user", "content": text}]
    found = read(json.dumps({"messages": messages, **members}).encode(), BodyKind.CHAT, 10**6)
    return openai_request(book, found, names_endpoint=names_endpoint, component=component)


@pytest.mark.parametrize("strategy", [RoutingStrategy.RANDOM, RoutingStrategy.LEAST_OUTSTANDING_REQUESTS])
def test_a_strategy_that_does_not_look_at_prompts_gets_nothing_of_them(strategy):
    book = book_of(Routing(strategy))
    assert native(book, LONG.encode()) == chat(book) == RoutingRequest()
    assert native(book, b"x", component="c") == chat(book, component="c") == RoutingRequest(component="c")


def test_prefix_aware_gets_a_key_and_no_chain():
    book = book_of(PREFIX_AWARE)
    assert native(book, LONG.encode(), "id") == RoutingRequest(
        native_key(book.key_head, LONG.encode(), 1024, "id")
    )
    asked = chat(book, prompt_cache_key="id", tools=[{"a": 1}], cache_salt="t", names_endpoint=False)
    assert asked == RoutingRequest(text_key(book.key_head, LONG, 1024, "id"))


def test_kv_aware_gets_the_chain_of_a_native_body_and_its_length(kv):
    body = LONG.encode()
    asked = native(kv, body, "id")
    assert asked.chain == byte_chain(kv.key_head, body)
    assert len(asked.chain) == blocks_of(len(body)) == 9
    assert asked.characters == len(body)
    assert asked.key == native_key(kv.key_head, body, TEXT_BLOCK_CHARACTERS, "id")


def test_kv_aware_gets_the_chain_of_the_whole_text_of_a_chat(kv):
    asked = chat(kv, prompt_cache_key="id")
    assert asked.chain == text_chain(kv.key_head, LONG)
    assert asked.characters == len(LONG)
    assert asked.key == text_key(kv.key_head, LONG, TEXT_BLOCK_CHARACTERS, "id")


def test_ids_of_callers_are_part_of_the_key_and_not_of_the_chain(kv):
    one, other = chat(kv, prompt_cache_key="1"), chat(kv, prompt_cache_key="2")
    assert one.key != other.key
    assert one.chain == other.chain
    one, other = native(kv, LONG.encode(), "1"), native(kv, LONG.encode(), "2")
    assert one.key != other.key
    assert one.chain == other.chain


def test_tools_are_the_front_of_the_chain_as_they_are_spelt(kv):
    tools = [{"type": "function", "function": {"name": "f", "description": "é" * 1000}}]
    asked = chat(kv, tools=tools)
    spelt = json.dumps(tools)
    assert asked.chain == text_chain(kv.key_head, spelt + LONG)
    assert asked.characters == len(spelt) + len(LONG)
    assert asked.key == chat(kv).key
    assert set(asked.chain).isdisjoint(chat(kv).chain)


def test_a_cache_salt_partitions_chain_and_key_on_both_routes(kv):
    plain, one, other = chat(kv), chat(kv, cache_salt="1"), chat(kv, cache_salt="2")
    assert len({plain.key, one.key, other.key}) == 3
    assert set(plain.chain).isdisjoint(one.chain)
    assert set(one.chain).isdisjoint(other.chain)
    assert one == chat(kv, cache_salt="1")
    bodies = [json.dumps({"prompt": LONG, "cache_salt": salt}).encode() for salt in "12"]
    one, other = (native(kv, body) for body in bodies)
    assert set(one.chain).isdisjoint(other.chain)  # although all but the last bytes are the same


def test_the_model_asked_of_the_engine_partitions_the_chain_where_the_caller_names_it(kv):
    one, other = (chat(kv, names_endpoint=False, model=model) for model in ("base", "lora"))
    assert set(one.chain).isdisjoint(other.chain)
    assert set(one.chain).isdisjoint(chat(kv).chain)
    assert chat(kv, names_endpoint=False).chain == chat(kv).chain
    assert chat(kv, model="llm").chain == chat(kv, model="llm/component").chain


def test_the_engines_own_model_is_no_other_by_any_of_its_names():
    targets = (target("i-1", model_name="meta/llama"), target("i-2", model_name="meta/llama"))
    book = VariantBook("llm", Variant("AllTraffic", 1.0, KV_AWARE, targets))
    for model in ("", "llm", "meta/llama"):
        assert chat(book, names_endpoint=False, model=model).chain == chat(book).chain
    assert chat(book, names_endpoint=False, model="Llm").chain != chat(book).chain
    book.retire()
    assert chat(book, names_endpoint=False, model="meta/llama").chain != chat(book).chain


def test_a_component_partitions_the_chain_and_is_named(kv):
    one, other = (chat(kv, component=component) for component in ("a", "b"))
    assert (one.component, other.component) == ("a", "b")
    assert set(one.chain).isdisjoint(other.chain)
    one, other = (native(kv, LONG.encode(), component=component) for component in ("a", "b"))
    assert (one.component, other.component) == ("a", "b")
    assert set(one.chain).isdisjoint(other.chain)


def test_a_prompt_shorter_than_a_block_has_a_key_alone(kv):
    asked = chat(kv, text="short")
    assert (asked.chain, asked.characters) == ((), 5)
    assert asked.key is not None
    assert native(kv, b"short").chain == ()


def test_a_request_without_any_text_has_no_key(kv):
    assert native(kv, b"") == chat(kv, text="") == RoutingRequest()


def test_a_character_of_any_language_is_one_character(kv):
    assert len(chat(kv, text="\U0001f600" * 2048).chain) == len(chat(kv, text="a" * 2048).chain) > 1


# --- components, adapters and sessions ------------------------------------------------------------
@pytest.mark.parametrize("routing", [Routing(), PREFIX_AWARE, KV_AWARE])
def test_what_a_call_names_is_part_of_what_routing_sees(routing):
    book = book_of(routing)
    more = {"prefix_aware_id": "", "component": "c", "adapter": "a"}
    asked = native_request(book, LONG.encode(), session="s", **more)
    assert (asked.component, asked.adapter, asked.session) == ("c", "a", "s")
    found = read(json.dumps({"messages": [{"role": "user", "content": LONG}]}).encode(), BodyKind.CHAT, 10**6)
    asked = openai_request(book, found, names_endpoint=False, component="c", adapter="a")
    assert (asked.component, asked.adapter, asked.session) == ("c", "a", "")


@pytest.mark.parametrize("routing", [PREFIX_AWARE, KV_AWARE])
def test_an_adapter_has_keys_and_chains_of_its_own_and_a_session_has_none(routing):
    book = book_of(routing)
    asked = [
        native_request(
            book, LONG.encode(), prefix_aware_id="", component="c", adapter=adapter, session=session
        )
        for adapter, session in (("", ""), ("a", ""), ("b", ""), ("", "s"))
    ]
    assert len({one.key for one in asked}) == 3
    assert (asked[0].key, asked[0].chain) == (asked[3].key, asked[3].chain)
    if routing is KV_AWARE:
        assert set(asked[0].chain).isdisjoint(asked[1].chain)


def test_under_an_adapter_the_model_that_a_caller_names_changes_nothing(kv):
    body = {"messages": [{"role": "user", "content": LONG}]}
    found = [read(json.dumps(body | {"model": model}).encode(), BodyKind.CHAT, 10**6) for model in ("x", "y")]
    one, other = [
        openai_request(kv, each, names_endpoint=False, component="c", adapter="a") for each in found
    ]
    assert one == other
