"""A log recorded from any history of a router replays to identical decisions, under any PYTHONHASHSEED.

The histories have everything a live router is told: fleets that change, two endpoints, variants, components
with adapters, sessions, chains, failures, facts about caches and deadlines.
"""

import os
import subprocess
import sys
from dataclasses import replace
from random import Random

import pytest

from warmroute.core.decision import NEW_SESSION, Assigned, RoutingRequest
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
from warmroute.core.fleet import (
    AccessKey,
    ApiKey,
    Component,
    Endpoint,
    Fleet,
    Routing,
    RoutingStrategy,
    Target,
    TargetState,
    Variant,
)
from warmroute.routing.key import native_key
from warmroute.routing.log import FORMAT, Began, Decided, Ended, encode
from warmroute.routing.recorder import RecordedRouter
from warmroute.routing.sessions import Session
from warmroute.sim.replay import replay

STRATEGIES = (
    Routing(),
    Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS),
    Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=1),
    Routing(RoutingStrategy.KV_AWARE),
)
NAMES = ("1", "11", "2", "21", "111")
COMPONENTS = (Component("base"), Component("other"), Component("lora", "base"))
STATES = (TargetState.IN_SERVICE,) * 4 + (TargetState.DRAINING,)
SECRETS = ("secret-of-the-server", "secret-of-a-caller", "secret-key-of-a-caller", "secret-path", "SESSION-")


def a_fleet(version, world):
    """A fleet drawn from ``world``: an endpoint of two variants, and one with components."""
    plain = tuple(
        Variant(name, world.choice((0.5, 1.0, 3.0)), world.choice(STRATEGIES), tuple(
            a_target(target, version, world) for target in world.sample(NAMES, 4)))
        for name in world.sample(("1", "11", "21"), 2)
    )  # fmt: skip
    copies = tuple(
        replace(a_target(f"{name}{component}", version, world), instance_id=name, component=component,
                adapters=("lora",) if component == "base" and world.random() < 0.5 else ())
        for name in world.sample(NAMES, 3) for component in ("base", "other")
    )  # fmt: skip
    several = Variant("all", 1.0, world.choice(STRATEGIES), copies, COMPONENTS)
    endpoints = (Endpoint("1", True, plain), Endpoint("11", True, (several,)))
    keys = (AccessKey("AKIA", "secret-of-a-caller"),), (ApiKey("me", "secret-key-of-a-caller"),)
    return Fleet(version, "us-east-1", "0" * 12, endpoints[: world.choice((1, 2, 2, 2))], *keys)


def a_chain(world):
    """Blocks of one of four long texts, of which two have the first blocks in common."""
    text, blocks = world.randrange(4), world.randrange(9)
    return tuple(number if number < 4 and text < 2 else (text << 32) + number for number in range(blocks))


def a_target(name, version, world):
    return Target(
        name, name, version // 4 + 1, "host", 80, state=world.choice(STATES),
        api_key="secret-of-the-server", path_prefix="/secret-path",
    )  # fmt: skip


class History:
    """A router that lives through what ``world`` draws, and its log."""

    def __init__(self, seed, steps=1500):
        self.world = Random(seed)
        self.lines = [Began(FORMAT, "0.1.0", 1, f"{seed + 1:016x}")]
        self.router = RecordedRouter(Random(seed + 1), self.note)
        self.now_ns = 10**12
        self.held = []
        self.next_fleet()
        for step in range(steps):
            self.now_ns += self.world.randrange(10**8)
            self.router.on_deadline(self.now_ns)
            self.step(step)
        self.lines.append(Ended("stopped"))

    def note(self, line):
        self.lines.append(line)
        return True

    @property
    def data(self):
        return encode(self.lines)

    @property
    def decisions(self):
        return [line for line in self.lines if isinstance(line, Decided)]

    def next_fleet(self):
        self.router.apply_fleet(a_fleet(self.router.fleet_version + 1, self.world))

    def step(self, step):
        action = self.world.random()
        if action < 0.01:
            self.next_fleet()
        elif action < 0.05:
            self.learn()
        elif action < 0.07:
            self.adopt()
        elif action < 0.6 or not self.held:
            self.ask()
        else:
            lease = self.held[self.world.randrange(len(self.held))]
            event = self.fact(lease, outage=step % 500 < 150)
            if not isinstance(event, FirstToken):
                self.held = [other for other in self.held if other is not lease]
            self.sessions(lease)
            self.router.apply(event, self.now_ns)

    def ask(self):
        world = self.world
        endpoint = self.router.endpoints[world.choice(sorted(self.router.endpoints))]
        name = world.choice(("base", "other", "lora", "nothing")) if endpoint.name == "11" else ""
        session = world.choice(("", "", NEW_SESSION, f"SESSION-{world.randrange(20)}"))
        wanted = world.choice((None, None, "1", "rubbish of a caller"))
        book = self.router.choose_variant(endpoint, wanted, component=name, session=session)
        if book is None:
            return
        component, adapter = book.addressed(name) or ("", "")
        chain = a_chain(world)
        body = world.choice((b"", b"a", b"b" * 2000, b"c"))
        key = native_key(book.key_head, body, book.prefix_length, "") if book.prefix_length else None
        request = RoutingRequest(key, chain, len(chain) * 1024 + 100, component, adapter, session)
        tried = ()
        for _ in range(3):
            decision = self.router.decide(book, request, self.now_ns, tried)
            if not isinstance(decision, Assigned) or world.random() < 0.9:
                break
            self.router.apply(Failed(decision.lease, FailureCause.CONNECT_FAILED), self.now_ns)
            tried = (*tried, decision.target.target_id)
        else:
            return
        if isinstance(decision, Assigned):
            self.held.append(decision.lease)

    def fact(self, lease, *, outage):
        if self.world.random() < 0.2:
            return FirstToken(lease)
        if outage and self.world.random() < 0.7:
            causes = (FailureCause.CONNECT_FAILED, FailureCause.CLOSED, FailureCause.SERVER_ERROR)
            return Failed(lease, self.world.choice(causes))
        if self.world.random() < 0.1:
            return Cancelled(lease)
        return Completed(lease, *self.world.choice(((-1, -1), (1000, 0), (1000, 512), (1000, 900, 50))))

    def adopt(self):
        endpoint = self.world.choice(sorted(self.router.endpoints))
        (name, revision) = self.world.choice(list(self.router.endpoints[endpoint].variants))
        target = self.world.choice(NAMES) + self.world.choice(("", "base", "other"))
        generation = self.router.fleet_version // 4 + self.world.choice((0, 1, 1))
        deadline_ns = self.now_ns + self.world.randrange(-(10**8), 10**10)
        session = Session(name, target, generation, deadline_ns, revision)
        self.router.adopt_session(endpoint, f"SESSION-{self.world.randrange(20)}", session, self.now_ns)

    def sessions(self, lease):
        session_id = f"SESSION-{self.world.randrange(20)}" + self.world.choice(("", "", "x" * 300))
        if self.world.random() < 0.3:
            deadline_ns = self.now_ns + self.world.randrange(-(10**9), 10**10)
            self.router.open_session(lease, session_id, deadline_ns, self.now_ns)
        elif self.world.random() < 0.2:
            self.router.close_session(lease, session_id)

    def learn(self):
        name = self.world.choice(NAMES) + self.world.choice(("", "base", "other"))
        at = (name, self.router.fleet_version // 4 + self.world.choice((0, 1, 1, 1)))
        blocks = a_chain(self.world)
        events = (
            TextBlocksStored(*at, blocks), TextBlocksRemoved(*at, blocks), CacheCleared(*at),
            EventsLost(*at, "gap"),
        )  # fmt: skip
        self.router.learn(self.world.choice(events), self.now_ns)


@pytest.mark.parametrize("seed", range(8))
def test_the_log_of_any_history_replays_to_identical_decisions(seed):
    history = History(seed)
    found = replay(history.data.splitlines(keepends=True))
    assert found.difference is None
    assert found.lines == len(history.lines)
    assert found.decisions == len(history.decisions) > 300
    assert found.ended == "stopped"


def test_histories_have_every_kind_of_line_reason_and_refusal():
    """Else the test above would say less than it seems to."""
    histories = [History(seed) for seed in range(8)]
    lines = [line for history in histories for line in history.lines]
    assert len({type(line) for line in lines}) == 11
    decisions = [line for history in histories for line in history.decisions]
    assert {line.reason for line in decisions} >= {
        "random", "least_outstanding", "affinity", "overflow", "saturated", "no_key", "only_candidate",
        "adapter_not_loaded", "session", "cached", "home", "load",
    }  # fmt: skip
    assert {line.refusal for line in decisions} >= {"all_ejected", "session_unknown", "session_gone"}
    assert {line.rank for line in decisions} >= {-1, 0, 1}
    assert any(line.tried for line in decisions)


def test_a_log_has_no_secret_no_session_id_and_nothing_that_callers_write_into_names():
    data = History(1).data
    for secret in (*SECRETS, "rubbish", "nothing", "AKIA"):
        assert secret.encode() not in data


@pytest.mark.parametrize("hash_seed", ["1", "4711"])
def test_a_log_replays_in_another_process_under_another_hash_seed(tmp_path, hash_seed):
    history = History(3)
    file = tmp_path / "decisions.jsonl"
    file.write_bytes(history.data)
    run = subprocess.run(
        [sys.executable, "-m", "warmroute", "simulate", "replay", str(file)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stdout.endswith(f"\n{len(history.decisions):,} decisions, all identical\n"), run
    assert run.returncode == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("field", ["target", "reason", "rank", "in_flight", "candidates", "refusal"])
def test_any_changed_decision_is_found_at_its_line(seed, field):
    history = History(seed, steps=400)
    number = Random(seed).choice([n for n, line in enumerate(history.lines) if isinstance(line, Decided)])
    line = history.lines[number]
    changed = {"rank": line.rank + 1, "in_flight": line.in_flight + 1, "candidates": line.candidates + 1}
    history.lines[number] = type(line)(
        **{name: getattr(line, name) for name in line.__struct_fields__}
        | {field: changed.get(field, "something else")}
    )
    found = replay(history.data.splitlines(keepends=True))
    assert found.difference is not None
    assert found.difference.number == number + 1
    assert found.difference.recorded == history.lines[number]
    assert found.difference.replayed == line
