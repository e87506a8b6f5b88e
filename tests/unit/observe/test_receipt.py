import json

from warmroute.core.decision import Foreseen
from warmroute.core.events import Invocation
from warmroute.observe.receipt import receipt


def served(**more):
    fields = {
        "request_id": "r-1",
        "route": "invocations",
        "started_ns": 1,
        "endpoint": "llm",
        "variant": "AllTraffic",
        "target": "i-1",
        "strategy": "PREFIX_AWARE",
        "reason": "overflow",
        "rank": 2,
        "in_flight": 3,
        "attempts": 1,
    }
    return Invocation(**(fields | more))


def test_a_receipt_says_where_why_and_on_what_ground():
    assert json.loads(receipt(served(), 7)) == {
        "instance": "i-1",
        "variant": "AllTraffic",
        "strategy": "PREFIX_AWARE",
        "reason": "overflow",
        "in_flight": 3,
        "candidates": 7,
        "attempts": 1,
        "rank": 2,
    }


def test_under_kv_aware_a_receipt_says_what_was_known_of_the_cache():
    foreseen = Foreseen(blocks=9, held_blocks=7, pending_characters=0, trust="estimated")
    told = json.loads(receipt(served(reason="cached"), 7, foreseen))
    assert told == json.loads(receipt(served(reason="cached"), 7)) | {
        "blocks": 9,
        "held_blocks": 7,
        "pending_characters": 0,
        "trust": "estimated",
    }


def test_home_has_rank_0():
    assert json.loads(receipt(served(rank=0), 2))["rank"] == 0


def test_a_strategy_without_an_order_gives_no_rank():
    assert "rank" not in json.loads(receipt(served(rank=-1), 2))


def test_a_receipt_is_one_line_fit_for_a_header():
    told = receipt(served(variant="é\r\nx: y"), 1)
    assert b"\n" not in told
    assert b"\r" not in told


def test_a_receipt_names_nothing_about_the_caller():
    told = receipt(served(principal="alice", request_id="r-42"), 1)
    assert b"alice" not in told
    assert b"r-42" not in told


def test_a_receipt_names_the_copy_its_instance_and_where_its_prefix_overflows_to():
    record = served(target="i-1/c/1", component="c", adapter="lora")
    told = json.loads(receipt(record, 4, instance="i-1", order=["i-1/c/1", "i-1/c/2", "i-2/c/1"]))
    assert (told["instance"], told["copy"]) == ("i-1", "i-1/c/1")
    assert (told["component"], told["adapter"]) == ("c", "lora")
    assert told["order"] == ["i-1/c/1", "i-1/c/2", "i-2/c/1"]


def test_an_instance_is_its_own_target():
    assert receipt(served(), 7, instance="i-1") == receipt(served(), 7)
