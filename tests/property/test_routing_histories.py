"""The invariants of docs/invariants.md over random histories of a router.

A second, deliberately simple model keeps what was decided and what the fleet says, and is compared
with the router after every step. Names are chosen to be prefixes of each other.
"""

from dataclasses import dataclass, field
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from xxhash import xxh3_64_intdigest

from warmroute.core.decision import Assigned, Lease, Reason, Refusal, Refused
from warmroute.core.events import Cancelled, Completed, Failed, FailureCause
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, TargetState, Variant
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.health import EJECTION_NS_MAX
from warmroute.routing.router import Router, VariantBook

ENDPOINTS = ["1", "11"]
VARIANTS = ["1", "11"]
TARGETS = ["1", "11", "2", "21", "111"]
KEYS = [0, 1, 11, 2**63, 2**64 - 1]
CERTAIN = (FailureCause.CONNECT_FAILED, FailureCause.LOADING)

prefix_aware = st.integers(1, 3).map(
    lambda n: Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=n)
)
routings = st.one_of(
    st.just(Routing()), st.just(Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)), prefix_aware
)
states = st.sampled_from([TargetState.IN_SERVICE] * 4 + [TargetState.DRAINING, TargetState.STARTING])
places = st.sampled_from([(e, v) for e in ENDPOINTS for v in VARIANTS])


@dataclass
class VariantModel:
    """What the fleet says of a variant: its routing, its weight, and the state of its targets."""

    routing: Routing
    weight: float = 1.0
    targets: dict[str, TargetState] = field(default_factory=dict)


@dataclass
class Open:
    """A lease as the model remembers it."""

    place: tuple[str, str]
    lease: Lease

    @property
    def name(self):
        return self.lease.target.target_id


def by_rendezvous(key, names):
    """The key's order, written down a second time."""
    return sorted(names, key=lambda name: xxh3_64_intdigest(name.encode(), key), reverse=True)


class RouterHistory(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.version = 0
        self.now_ns = 10**12
        self.model: dict[str, dict[str, VariantModel]] = {}
        # Of a target of a variant; it only grows, also while the target is away.
        self.generations: dict[tuple[str, str, str], int] = {}
        self.open: list[Open] = []

    @initialize(seed=st.integers(0, 1000), routing=routings, names=st.sets(st.sampled_from(TARGETS)))
    def start(self, seed, routing, names):
        self.begin(seed, routing, names)

    def begin(self, seed, routing, names):
        self.router = Router(Random(seed))
        self.model["1"] = {"1": VariantModel(routing, 1.0, dict.fromkeys(names, TargetState.IN_SERVICE))}
        self.publish()

    # --- the fleet ----------------------------------------------------------------------------
    def publish(self):
        self.version += 1
        endpoints = tuple(
            Endpoint(EndpointName(e), True, tuple(self.described(e, v) for v in sorted(self.model[e])))
            for e in sorted(self.model)
        )
        assert self.router.apply_fleet(Fleet(self.version, "us-east-1", "0" * 12, endpoints))

    def described(self, endpoint, name):
        variant = self.model[endpoint][name]
        members = tuple(
            Target(TargetId(t), InstanceId(t), self.generation(endpoint, name, t), "host", 80, state=state)
            for t, state in variant.targets.items()
        )
        return Variant(VariantName(name), variant.weight, variant.routing, members)

    def generation(self, endpoint, variant, target):
        return self.generations.setdefault((endpoint, variant, target), 1)

    @rule(place=places, name=st.sampled_from(TARGETS), state=states, renewed=st.booleans())
    def put_a_target(self, place, name, state, renewed):
        """Join, return (with or without a new generation), start, drain, or come into service again."""
        endpoint, variant = place
        if variant not in self.model.get(endpoint, {}):
            return
        if renewed:
            self.generations[endpoint, variant, name] = self.generation(endpoint, variant, name) + 1
        self.model[endpoint][variant].targets[name] = state
        self.publish()

    @rule(place=places, name=st.sampled_from(TARGETS))
    def remove_a_target(self, place, name):
        endpoint, variant = place
        if self.model.get(endpoint, {}).get(variant, VariantModel(Routing())).targets.pop(name, None):
            self.publish()

    @rule(place=places, routing=routings, weight=st.sampled_from([0.0, 0.5, 1.0]),
          names=st.sets(st.sampled_from(TARGETS), min_size=1))  # fmt: skip
    def put_a_variant(self, place, routing, weight, names):
        """Create a variant, and its endpoint, or give it another strategy and other targets."""
        endpoint, variant = place
        self.model.setdefault(endpoint, {})[variant] = VariantModel(
            routing, weight, dict.fromkeys(names, TargetState.IN_SERVICE)
        )
        self.publish()

    @rule(place=places, routing=routings)
    def switch_strategy(self, place, routing):
        endpoint, variant = place
        if variant in self.model.get(endpoint, {}):
            self.model[endpoint][variant].routing = routing
            self.publish()

    @rule(place=places)
    def remove_a_variant(self, place):
        endpoint, variant = place
        if self.model.get(endpoint, {}).pop(variant, None):
            self.publish()

    @rule(endpoint=st.sampled_from(ENDPOINTS))
    def delete_an_endpoint(self, endpoint):
        if self.model.pop(endpoint, None) is not None:
            self.publish()

    @rule(behind=st.integers(0, 3))
    def an_old_fleet_arrives(self, behind):
        assert not self.router.apply_fleet(Fleet(self.version - behind, "us-east-1", "0" * 12))

    # --- deciding -----------------------------------------------------------------------------
    def open_on(self, place, name, generation):
        return sum(o.place == place and (o.name, o.lease.generation) == (name, generation) for o in self.open)

    @rule(place=places, key=st.sampled_from([None, *KEYS]), times=st.integers(1, 4),
          tried=st.sets(st.sampled_from(TARGETS), max_size=2))  # fmt: skip
    def decide(self, place, key, tried, times):
        endpoint, name = place
        if name not in self.model.get(endpoint, {}):
            return
        book = self.router.endpoints[endpoint].variants[name]
        for _ in range(times):
            self.decide_once(book, place, key, tuple(sorted(tried)))

    def decide_once(self, book, place, key, tried):
        variant = self.model[place[0]][place[1]]
        serving = [t for t, state in variant.targets.items() if state is TargetState.IN_SERVICE]
        allowed = [
            t for t in serving
            if t not in tried and not book.rows[t].health.ejected and not self.probe_is_open(book, place, t)
        ]  # fmt: skip
        load = {t: self.open_on(place, t, self.generation(*place, t)) for t in allowed}
        decision = self.router.decide(book, key, tried)
        if not allowed:
            assert isinstance(decision, Refused)
            if not serving:
                assert decision.refusal is Refusal.NO_TARGET
            elif set(serving) <= set(tried):
                assert decision.refusal is Refusal.ALL_TRIED
            else:
                assert decision.refusal is Refusal.ALL_EJECTED
            return
        assert isinstance(decision, Assigned)
        picked = decision.target.target_id
        assert picked in allowed
        assert decision.lease.generation == self.generation(*place, picked)
        assert decision.candidates == len(allowed)
        assert decision.in_flight == load[picked]
        assert decision.strategy is variant.routing.strategy
        self.open.append(Open(place, decision.lease))
        self.check_rule(decision, variant.routing, key, load)

    def probe_is_open(self, book, place, name):
        """On probation, and a lease taken since its ejection ended is open."""
        row = book.rows[name]
        return row.health.probation and any(o.lease is row.probe for o in self.open)

    def check_rule(self, decision, routing, key, load):
        picked, least = decision.target.target_id, min(load.values())
        if len(load) == 1:
            assert decision.reason is Reason.ONLY_CANDIDATE
        elif routing.strategy is RoutingStrategy.RANDOM:
            assert (decision.reason, decision.rank) == (Reason.RANDOM, -1)
        elif routing.strategy is RoutingStrategy.LEAST_OUTSTANDING_REQUESTS:
            assert (decision.reason, decision.rank) == (Reason.LEAST_OUTSTANDING, -1)
            assert load[picked] == least
        elif key is None:
            assert (decision.reason, decision.rank) == (Reason.NO_KEY, -1)
            assert load[picked] == least
        else:
            ranked = by_rendezvous(key, load)
            below = [name for name in ranked if load[name] < routing.concurrency_threshold]
            assert decision.rank == ranked.index(picked)
            if below:
                assert picked == below[0]
                assert decision.reason is (Reason.AFFINITY if picked == ranked[0] else Reason.OVERFLOW)
            else:
                assert decision.reason is Reason.SATURATED
                assert load[picked] == least

    @rule(endpoint=st.sampled_from(ENDPOINTS), named=st.sampled_from([None, *VARIANTS, "111"]))
    def choose_a_variant(self, endpoint, named):
        if endpoint not in self.model:
            assert endpoint not in self.router.endpoints
            return
        book = self.router.choose_variant(self.router.endpoints[endpoint], named)
        variants = self.model[endpoint]
        if named is not None:
            assert (book.name if book else None) == (named if named in variants else None)
        elif book is None:
            assert not any(variant.weight for variant in variants.values())
        else:
            assert variants[book.name].weight > 0

    # --- ends of attempts ---------------------------------------------------------------------
    def release(self, data):
        self.now_ns += 1
        return self.open.pop(data.draw(st.integers(0, len(self.open) - 1), label="which lease"))

    def serving_rows(self, lease):
        book = lease.book
        assert isinstance(book, VariantBook)
        return [r for r in book.rows.values() if not r.gone and r.target.state is TargetState.IN_SERVICE]

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def complete(self, data):
        ended = self.release(data)
        row = ended.lease.book.rows.get(ended.name)
        probe = row is not None and row.health.probation and row.probe is ended.lease and not row.gone
        change = self.router.apply(Completed(ended.lease), self.now_ns)
        assert (change is not None) is probe
        assert change is None or (not change.ejected and not row.health.probation)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def cancel(self, data):
        assert self.router.apply(Cancelled(self.release(data).lease), self.now_ns) is None

    @precondition(lambda self: self.open)
    @rule(data=st.data(), cause=st.sampled_from(FailureCause), times=st.integers(1, 6))
    def fail(self, data, cause, times):
        for _ in range(min(times, len(self.open))):
            ended = self.release(data)
            change = self.router.apply(Failed(ended.lease, cause), self.now_ns)
            if change is None:
                continue
            assert change.ejected
            assert (change.target_id, change.generation) == (ended.name, ended.lease.generation)
            assert cause is not FailureCause.STALE_CONNECTION
            if cause not in CERTAIN:
                serving = self.serving_rows(ended.lease)
                assert sum(row.health.ejected for row in serving) <= len(serving) / 2

    # --- time ---------------------------------------------------------------------------------
    @rule(step_ns=st.sampled_from([0, 1, 10**9, 4 * 10**9, EJECTION_NS_MAX]))
    def time_passes(self, step_ns):
        self.now_ns += step_ns
        changes = self.router.on_deadline(self.now_ns)
        assert all(not change.ejected and change.reason == "probation" for change in changes)
        deadline = self.router.next_deadline_ns()
        assert deadline is None or self.now_ns < deadline <= self.now_ns + EJECTION_NS_MAX

    # --- after every step -----------------------------------------------------------------------
    @invariant()
    def the_router_knows_the_endpoints_and_variants_of_the_fleet(self):
        known = {name: set(book.variants) for name, book in self.router.endpoints.items()}
        assert known == {name: set(variants) for name, variants in self.model.items()}

    @invariant()
    def every_open_lease_is_counted_once_and_nothing_else(self):
        assert self.router.open_leases() == len(self.open)
        current = 0
        for endpoint, variants in self.model.items():
            for name, variant in variants.items():
                rows = self.router.endpoints[endpoint].variants[name].rows
                for target_id, row in rows.items():
                    count = self.open_on((endpoint, name), target_id, row.target.generation)
                    assert row.in_flight == count >= 0
                    current += count
                    assert (target_id in variant.targets) is not row.gone
                    assert not row.gone or count > 0, "a row that is gone and idle is forgotten"
        assert current <= len(self.open)

    @invariant()
    def exactly_the_targets_in_service_that_are_not_ejected_are_candidates(self):
        for endpoint, variants in self.model.items():
            for name, variant in variants.items():
                book = self.router.endpoints[endpoint].variants[name]
                expected = {
                    t for t, state in variant.targets.items()
                    if state is TargetState.IN_SERVICE and not book.rows[t].health.ejected
                }  # fmt: skip
                names = [row.target.target_id for row in book.candidates]
                assert set(names) == expected
                assert names == sorted(names)

    def teardown(self):
        while self.open:
            self.router.apply(Completed(self.open.pop().lease), self.now_ns)
        if hasattr(self, "router"):
            assert self.router.open_leases() == 0
            assert all(in_flight == 0 for _, in_flight, _ in self.router.targets().values())
            self.version += 1
            self.router.apply_fleet(Fleet(self.version, "us-east-1", "0" * 12))
            assert self.router.targets() == {}
            assert self.router.next_deadline_ns() is None


class PrefixAwareHistory(RouterHistory):
    """The same, always with the strategy that has the most rules and with enough targets to overflow."""

    @initialize(seed=st.integers(0, 1000), routing=prefix_aware,
                names=st.sets(st.sampled_from(TARGETS), min_size=3))  # fmt: skip
    def start(self, seed, routing, names):
        self.begin(seed, routing, names)

    @rule(key=st.sampled_from(KEYS), times=st.integers(1, 8))
    def a_hot_prefix(self, key, times):
        if "1" in self.model.get("1", {}):
            book = self.router.endpoints["1"].variants["1"]
            for _ in range(times):
                self.decide_once(book, ("1", "1"), key, ())


TestRouterHistory = RouterHistory.TestCase
TestRouterHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPrefixAwareHistory = PrefixAwareHistory.TestCase
TestPrefixAwareHistory.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
