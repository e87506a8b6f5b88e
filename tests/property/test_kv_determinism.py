"""KV_AWARE decides the same for the same seed and input log, under any PYTHONHASHSEED.

Run as a program it prints the log of one seeded history. What is true of all strategies is tested in
``test_routing_determinism.py``; this history has prompts that come again, engines that tell and report, and
fleets that switch to KV_AWARE and back.
"""

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from unittest import mock

from warmroute.core.decision import Assigned, RoutingRequest
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
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, TargetState, Variant
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing import kvindex
from warmroute.routing.router import Router

KV_AWARE = Routing(RoutingStrategy.KV_AWARE)
STRATEGIES = (KV_AWARE,) * 9 + (Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS),)
TARGETS = ("1", "11", "2", "21", "111", "22", "i-3f9c2a7d10b4")


def a_fleet(version, world):
    """Most targets of the last fleet, one of them of a new generation every few versions."""
    members = world.sample(TARGETS, 6)
    states = (TargetState.IN_SERVICE,) * 6 + (TargetState.DRAINING,)
    targets = tuple(
        Target(TargetId(name), InstanceId(name), version // 9 + 1, "host", 80, state=world.choice(states))
        for name in members
    )
    variant = Variant(VariantName("v"), 1.0, world.choice(STRATEGIES), targets)
    endpoint = Endpoint(EndpointName("e"), True, (variant,))
    return Fleet(version, "us-east-1", "0" * 12, (endpoint,), routers=world.choice((1, 1, 4)))


def a_request(world):
    """one of 12 documents behind one of 2 system prompts, with a question of its own; or less."""
    document = world.randrange(12)
    chain = (*range(100, 103 + document % 2), *range(10_000 * (1 + document), 10_000 * (1 + document) + 12))
    chain = (*chain[: world.choice((0, 2, 9, 20, 20, 20))], world.randrange(2**64))
    if world.random() < 0.05:
        return RoutingRequest(key=world.choice((None, 5)))
    return RoutingRequest(key=5, chain=chain, characters=1024 * len(chain) + world.randrange(1024))


def an_end(lease, world, *, cold):
    """Most complete, with a report that may be nonsense; for a while engines have nothing in their caches."""
    if world.random() < 0.05:
        return Failed(lease, world.choice(list(FailureCause)))
    if world.random() < 0.05:
        return Cancelled(lease)
    cached = 0 if cold else world.choice((-1, 0, 100, 2500, 2500, 2500, 9000))
    return Completed(lease, world.choice((-1, 3000, 3000)), cached, world.choice((-1, 20, 400)))


def news(world, version):
    name, generation = world.choice(TARGETS), version // 9 + world.choice((1, 1, 1, 1, 0, 2))
    blocks = a_request(world).chain
    return world.choice((
        CacheCleared(name, generation), EventsLost(name, generation, "gap"),
        *[TextBlocksStored(name, generation, blocks)] * 8, *[TextBlocksRemoved(name, generation, blocks)] * 4,
    ))  # fmt: skip


def log(seed, steps=6000):
    """Every decision of a history; ``world`` draws what happens, the router has a source of its own."""
    limits = {"KV_RECORD_BLOCKS_MAX": 120, "KV_RECORD_BLOCKS_MIN": 60, "KV_GHOSTS_MAX": 100}
    with mock.patch.multiple(kvindex, **limits):
        world, router, now_ns = Random(seed), Router(Random(seed + 1)), 10**12
        held, lines = [], []
        router.apply_fleet(a_fleet(1, world))
        for step in range(steps):
            now_ns += world.randrange(10**8)
            lines.extend(f"{step} {change}" for change in router.on_deadline(now_ns))
            action = world.random()
            if action < 0.005:
                router.apply_fleet(a_fleet(router.fleet_version + 1, world))
            elif action < 0.2:
                router.learn(news(world, router.fleet_version), now_ns)
            elif action < 0.5 or not held:
                book = router.endpoints["e"].variants["v", 0]
                decision = router.decide(book, a_request(world), now_ns)
                lines.append(f"{step} {said(decision)} {known(book)}")
                if isinstance(decision, Assigned):
                    held.append(decision.lease)
            elif action < 0.7:
                router.apply(FirstToken(world.choice(held)), now_ns)
            else:
                lease = held.pop(world.randrange(len(held)))
                router.apply(an_end(lease, world, cold=step % 3000 > 1500), now_ns)
        return "\n".join(lines)


def said(decision):
    if not isinstance(decision, Assigned):
        return decision.refusal.value
    target = f"{decision.target.target_id}#{decision.lease.generation}"
    return f"{target} {decision.reason.value} {decision.rank} {decision.in_flight}/{decision.candidates}"


def known(book):
    """All that decisions depend on, in few words."""
    if book.kv is None:
        return "nothing"
    shelves = [(each.trust.value, each.pending, len(each.blocks)) for each in book.kv.index.shelves.values()]
    return f"{shelves} {len(book.kv.index)} {book.kv.index.asked_again} {book.kv.surprise} {book.kv.rate}"


def log_of_a_process(seed, hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), str(seed)], env=environment, capture_output=True, check=True
    )
    return done.stdout


def test_the_same_seed_decides_the_same_in_one_process_and_another_does_not():
    assert log(1) == log(1) != log(2)


def test_the_same_seed_decides_the_same_under_any_hash_seed():
    logs = [log_of_a_process(7, hash_seed) for hash_seed in ("0", "1", "4242")]
    assert logs[0].count(b"\n") > 1500
    assert logs[0] == logs[1] == logs[2]


def test_the_history_meets_every_kind_of_decision_and_trust():
    text = log(7)
    words = "cached home load no_key least_outstanding exact estimated unknown probation"
    for word in words.split():
        assert word in text, word


if __name__ == "__main__":
    print(log(int(sys.argv[1])))
