"""The live router as the simulator sees it."""

from random import Random
from types import SimpleNamespace

import pytest

from warmroute.core.decision import NO_PROMPT
from warmroute.core.events import CacheCleared, Completed, Failed, FailureCause, TextBlocksStored
from warmroute.core.fleet import Target
from warmroute.engine.prefix_cache import BlocksStored
from warmroute.routing.key import partition, text_key
from warmroute.sim import policy
from warmroute.sim.policy import LIVE_POLICIES, News, Settings
from warmroute.workload.prompts import Request, text_of

SETTINGS = Settings(prefix_length=1024, concurrency_threshold=2)
TARGETS = tuple(Target(f"instance-{n}", f"instance-{n}", 1, "127.0.0.1", 8000 + n) for n in range(4))


def request(first=0, tokens=1000):
    return Request(tokens, 10, ((first, tokens // 16 + 1),))


def chooser(name):
    made = LIVE_POLICIES[name](SETTINGS, Random(1))
    made.apply_targets(1, TARGETS)
    return made


def test_the_policies_have_the_names_of_the_api():
    assert list(LIVE_POLICIES) == [
        "RANDOM", "LEAST_OUTSTANDING_REQUESTS", "PREFIX_AWARE", "KV_AWARE", "KV_AWARE:estimated",
    ]  # fmt: skip


def test_the_key_is_the_live_one_of_the_made_up_text():
    expected = text_key(partition(endpoint="simulated", variant="all"), text_of([(0, 63)], 4500), 1024, "")
    assert chooser("PREFIX_AWARE").asked(request()).key == expected


def test_equal_starts_have_equal_keys_and_different_ones_do_not():
    prefix_aware = chooser("PREFIX_AWARE")
    tailed = Request(500, 10, ((0, 15), (900, 20)))
    assert prefix_aware.asked(request()) == prefix_aware.asked(tailed)
    assert prefix_aware.asked(request()) != prefix_aware.asked(request(first=5000))


def test_keys_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(policy, "KEYS_KEPT", 2)
    prefix_aware = chooser("PREFIX_AWARE")
    keys = [prefix_aware.asked(request(first=1000 * n)) for n in range(5)]
    assert [prefix_aware.asked(request(first=1000 * n)) for n in range(5)] == keys
    assert len(prefix_aware._keys) <= 2


@pytest.mark.parametrize("name", ["RANDOM", "LEAST_OUTSTANDING_REQUESTS"])
def test_a_strategy_without_keys_makes_none(name):
    assert chooser(name).asked(request()) is NO_PROMPT


@pytest.mark.parametrize("name", LIVE_POLICIES)
def test_a_decision_is_counted_until_it_ends(name):
    made = chooser(name)
    decision = made.decide(request(), made.asked(request()), 0, ())
    assert (made.open_leases(), sum(made.in_flight().values())) == (1, 1)
    assert made.in_flight()[decision.target.target_id] == 1
    made.apply(Completed(decision.lease), 5)
    assert (made.open_leases(), sum(made.in_flight().values())) == (0, 0)


def test_prefix_aware_keeps_a_key_at_home_until_the_threshold():
    made = chooser("PREFIX_AWARE")
    key = made.asked(request())
    reasons = [made.decide(request(), key, 0, ()).reason for _ in range(3)]
    assert reasons == ["affinity", "affinity", "overflow"]


def test_an_ejection_has_a_deadline():
    made = chooser("RANDOM")
    assert made.next_deadline_ns() is None
    failed = made.decide(request(), NO_PROMPT, 0, ())
    made.apply(Failed(failed.lease, FailureCause.CONNECT_FAILED), 0)
    deadline = made.next_deadline_ns()
    assert deadline == 1_000_000_000
    made.on_deadline(deadline)
    assert made.next_deadline_ns() is None


def test_fleets_come_in_order():
    made = chooser("RANDOM")
    with pytest.raises(AssertionError, match="in order of their versions"):
        made.apply_targets(1, TARGETS)


def test_everything_an_engine_has_is_told_as_an_emptied_cache_and_what_is_in_it(monkeypatch):
    made, learnt = chooser("KV_AWARE"), []
    router = SimpleNamespace(learn=lambda event, now_ns: learnt.append((now_ns, event)))
    monkeypatch.setattr(made, "_router", router)
    made.learn(News("instance-1", 4, (BlocksStored(0, 29, 0), BlocksStored(900, 3, 29)), snapshot=True), 7)
    # The second piece is shorter than the way to the end of a text block.
    assert learnt == [
        (7, CacheCleared("instance-1", 4)),
        (7, TextBlocksStored("instance-1", 4, (1, 3, 7, 14, 28))),
    ]
