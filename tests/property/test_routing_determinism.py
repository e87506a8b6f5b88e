"""Same seed and input log, same decisions, byte for byte, under any PYTHONHASHSEED.

Run as a program it prints the log of one seeded history.
"""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

from warmroute.core.decision import NEW_SESSION, Assigned, RoutingRequest
from warmroute.core.events import Cancelled, Completed, Failed, FailureCause
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, TargetState, Variant
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.key import native_key
from warmroute.routing.router import Router

STRATEGIES = (
    Routing(),
    Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS),
    Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=3),
)
TARGETS = ("1", "11", "2", "21", "111", "22", "i-3f9c2a7d10b4")


COPIES = tuple((instance, component, n) for instance in ("1", "11", "2") for component in "cd" for n in "12")


def some_copies(version, world):
    """Copies of two components on three instances, some of them with an adapter."""
    return tuple(
        Target(TargetId("/".join(at)), InstanceId(at[0]), version // 4 + 1, "host", 80, component=at[1],
               adapters=world.choice(((), (), ("lora",), ("lora", "other"))),
               state=world.choice((TargetState.IN_SERVICE,) * 6 + (TargetState.DRAINING,)))
        for at in world.sample(COPIES, 9))  # fmt: skip


def a_fleet(version, world):
    """A fleet drawn from ``world``: instances with strategies and states, and an endpoint of components."""
    copies = Variant(VariantName("1"), 1.0, world.choice(STRATEGIES), some_copies(version, world))
    return Fleet(version, "us-east-1", "0" * 12, (Endpoint(EndpointName("copies"), True, (copies,)), *(
        Endpoint(EndpointName(endpoint), True, tuple(
            Variant(VariantName(variant), world.choice((0.5, 1.0, 3.0)), world.choice(STRATEGIES), tuple(
                Target(TargetId(name), InstanceId(name), version // 4 + 1, "host", 80,
                       state=world.choice((TargetState.IN_SERVICE,) * 4 + (TargetState.DRAINING,)))
                for name in world.sample(TARGETS, 5)))
            for variant in ("1", "11")))
        for endpoint in ("1", "11"))))  # fmt: skip


def log(seed, steps=5000):
    """Every decision of a history; ``world`` draws what happens, the router has a source of its own."""
    world, router, now_ns = Random(seed), Router(Random(seed + 1)), 10**12
    held, lines, sessions = [], [], []
    router.apply_fleet(a_fleet(1, world))
    for step in range(steps):
        now_ns += world.randrange(10**8)
        lines.extend(f"{step} {change}" for change in router.on_deadline(now_ns))
        action = world.random()
        if action < 0.01:
            router.apply_fleet(a_fleet(router.fleet_version + 1, world))
        elif action < 0.55 or not held:
            request, book = a_request(router, world, sessions)
            decision = router.decide(book, request, now_ns)
            lines.append(f"{step} {book.endpoint}/{book.name} {request} {said(decision)}")
            if isinstance(decision, Assigned):
                held.append(decision.lease)
                if request.session == NEW_SESSION:
                    sessions.append((book.endpoint, request.component, f"s{step}"))
                    deadline_ns = now_ns + world.randrange(20 * 10**9)
                    opened = router.open_session(decision.lease, f"s{step}", deadline_ns, now_ns)
                    lines.append(f"{step} opened {opened}")
        else:
            lease = held.pop(world.randrange(len(held)))
            event = an_end(lease, world, outage=step % 500 < 150)
            lines.append(f"{step} {type(event).__name__} {router.apply(event, now_ns)}")
    return "\n".join(lines)


def a_request(router, world, sessions):
    """A request and its variant: of an instance or a component, with an adapter or a session, or without."""
    endpoint = world.choice(("1", "11", "1", "11", "copies"))
    component = world.choice("cd") if endpoint == "copies" else ""
    adapter = world.choice(("", "", "lora", "other", "cold")) if component else ""
    session = world.choice(("",) * 8 + (NEW_SESSION,))
    if sessions and world.random() < 0.1:
        endpoint, component, session = world.choice(sessions[-20:])
        adapter = ""
    book = router.choose_variant(router.endpoints[endpoint], None, component=component, session=session)
    body = world.choice((b"", b"a", b"b" * 2000, b"c"))
    head = book.head_of(component, adapter)
    key = native_key(head, body, book.prefix_length, "") if book.prefix_length else None
    return RoutingRequest(key=key, component=component, adapter=adapter, session=session), book


def an_end(lease, world, *, outage):
    if outage:
        return Failed(lease, FailureCause.CONNECT_FAILED)
    failed = Failed(lease, world.choice(list(FailureCause)))
    return world.choice((Completed(lease), Completed(lease), Cancelled(lease), failed))


def said(decision):
    if not isinstance(decision, Assigned):
        return decision.refusal.value
    target = f"{decision.target.target_id}#{decision.lease.generation}"
    return f"{target} {decision.reason.value} {decision.rank} {decision.in_flight}/{decision.candidates}"


def log_of_a_process(seed, hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), str(seed)], env=environment, capture_output=True, check=True
    )
    return done.stdout


def test_the_same_seed_decides_the_same_in_one_process():
    assert log(1) == log(1)


def test_another_seed_decides_otherwise():
    assert log(1) != log(2)


def test_the_same_seed_decides_the_same_under_any_hash_seed():
    logs = [log_of_a_process(7, hash_seed) for hash_seed in ("0", "1", "4242")]
    assert logs[0].count(b"\n") > 2000
    assert logs[0] == logs[1] == logs[2]


def test_the_history_meets_every_kind_of_decision():
    text = log(7)
    words = (
        "random least_outstanding affinity overflow saturated no_key all_ejected probation recovered "
        "connect_failed server_error adapter_not_loaded session_unknown session_gone session_unavailable"
    )
    for word in (*words.split(), " session "):
        assert word in text, word


if __name__ == "__main__":
    print(log(int(sys.argv[1])))
