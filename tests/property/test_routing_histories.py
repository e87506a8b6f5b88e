"""The invariants of docs/invariants.md over random histories of a router.

A second, deliberately simple model keeps what was decided, what the fleet says and what the failures
mean, and is compared with the router after every step. Names are chosen to be prefixes of each other.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from xxhash import xxh3_64_intdigest

from warmroute.core.decision import Assigned, Lease, Reason, Refusal, Refused, RoutingRequest
from warmroute.core.events import Cancelled, Completed, Failed, FailureCause
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, TargetState, Variant
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.router import Router

ENDPOINTS = ["1", "11"]
VARIANTS = ["1", "11"]
TARGETS = ["1", "11", "2", "21", "111"]
KEYS = [0, 1, 11, 2**63, 2**64 - 1]
CERTAIN = (FailureCause.CONNECT_FAILED, FailureCause.LOADING)
SECOND = 10**9

prefix_aware = st.integers(1, 3).map(
    lambda n: Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=n)
)
routings = st.one_of(
    st.just(Routing()), st.just(Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)), prefix_aware
)
states = st.sampled_from([TargetState.IN_SERVICE] * 4 + [TargetState.DRAINING, TargetState.STARTING])
places = st.sampled_from([(e, v) for e in ENDPOINTS for v in VARIANTS])
target_sets = st.sets(st.sampled_from(TARGETS), min_size=1)
seeds = st.integers(0, 1000)


@dataclass
class VariantModel:
    """What the fleet says of a variant."""

    routing: Routing
    weight: float
    targets: dict[str, TargetState]

    @property
    def serving(self):
        return [name for name, state in self.targets.items() if state is TargetState.IN_SERVICE]


@dataclass
class HealthModel:
    """What the failures of one generation of a target mean."""

    state: str = "well"
    consecutive: int = 0
    ejections: int = 0
    until_ns: int = 0
    paroled_at: int = 0
    """Number of the first lease taken after the ejection."""


@dataclass
class Open:
    """A lease as the model remembers it."""

    place: tuple[str, str]
    lease: Lease
    number: int

    @property
    def at(self):
        return (*self.place, self.lease.target.target_id, self.lease.generation)


@dataclass
class Model:
    """Everything that was said to the router."""

    variants: dict[str, dict[str, VariantModel]] = field(default_factory=dict)
    # Of a target of a variant; it only grows, also while the target is away.
    generations: Counter = field(default_factory=Counter)
    # By endpoint, variant, target and generation.
    health: dict[tuple, HealthModel] = field(default_factory=dict)
    open: list[Open] = field(default_factory=list)
    taken: int = 0

    def at(self, place, name):
        return (*place, name, self.generations[(*place, name)])

    def variant(self, place):
        return self.variants.get(place[0], {}).get(place[1])

    def places(self):
        return [(endpoint, name) for endpoint, variants in self.variants.items() for name in variants]

    def load(self, at):
        return sum(lease.at == at for lease in self.open)

    def health_of(self, at):
        return self.health.setdefault(at, HealthModel())

    def probing(self, at):
        health = self.health_of(at)
        return health.state == "probation" and any(
            lease.at == at and lease.number >= health.paroled_at for lease in self.open
        )

    def known(self, at):
        """Whether the fleet has this generation of this target."""
        variant = self.variant(at[:2])
        return variant is not None and at[2] in variant.targets and self.at(at[:2], at[2]) == at

    def forget(self):
        """A target that left is forgotten with its last lease."""
        for at in [at for at in self.health if not self.known(at) and not self.load(at)]:
            del self.health[at]

    def expected_change(self, ended, event, now_ns):
        """Note the end of an attempt; say what must be told of the target's health."""
        if not self.known(ended.at) or isinstance(event, Cancelled):
            return None
        health = self.health_of(ended.at)
        probe = health.state == "probation" and ended.number >= health.paroled_at
        if health.state == "probation" and not probe:
            return None
        if isinstance(event, Completed):
            health.consecutive = 0
            if health.state == "ejected":
                return None
            health.state, health.ejections = "well", 0
            return "recovered" if probe else None
        if event.cause is FailureCause.STALE_CONNECTION or health.state == "ejected":
            return None
        health.consecutive += 1
        if event.cause not in CERTAIN:
            serving = [self.at(ended.place, name) for name in self.variant(ended.place).serving]
            others = sum(self.health_of(at).state == "ejected" for at in serving)
            if (health.consecutive < 5 and not probe) or 2 * (others + 1) > len(serving):
                return None
        health.state = "ejected"
        health.until_ns = now_ns + min(2**health.ejections, 30) * SECOND
        health.ejections += 1
        return event.cause.value


def by_rendezvous(key, names):
    """The key's order, written down a second time."""
    return sorted(names, key=lambda name: xxh3_64_intdigest(name.encode(), key), reverse=True)


class History(RuleBasedStateMachine):
    """Requests, ends and time over whatever fleet there is."""

    def __init__(self):
        super().__init__()
        self.router = Router(Random(0))
        self.model = Model()
        self.version = 0
        self.now_ns = 10**12

    def begin(self, seed, routing, names):
        self.router = Router(Random(seed))
        members = dict.fromkeys(sorted(names), TargetState.IN_SERVICE)
        self.model.variants["1"] = {"1": VariantModel(routing, 1.0, members)}
        self.publish()

    # --- the fleet ----------------------------------------------------------------------------
    def publish(self):
        self.version += 1
        endpoints = tuple(
            Endpoint(EndpointName(e), True, tuple(self.described((e, v)) for v in variants))
            for e, variants in self.model.variants.items()
        )
        assert self.router.apply_fleet(Fleet(self.version, "us-east-1", "0" * 12, endpoints))
        self.model.forget()

    def described(self, place):
        variant = self.model.variant(place)
        members = tuple(
            Target(TargetId(t), InstanceId(t), self.model.at(place, t)[3], "host", 80, state=state)
            for t, state in variant.targets.items()
        )
        return Variant(VariantName(place[1]), variant.weight, variant.routing, members)

    # --- deciding -----------------------------------------------------------------------------
    @precondition(lambda self: self.model.places())
    @rule(data=st.data(), key=st.sampled_from([None, *KEYS]), times=st.integers(1, 6),
          tried=st.sets(st.sampled_from(TARGETS), max_size=2))  # fmt: skip
    def decide(self, data, key, times, tried):
        place = data.draw(st.sampled_from(self.model.places()), label="variant")
        for _ in range(times):
            self.decide_once(place, key, tuple(sorted(tried)))

    def decide_once(self, place, key, tried):
        model, variant = self.model, self.model.variant(place)
        load = {
            name: model.load(model.at(place, name)) for name in variant.serving
            if name not in tried and not model.probing(model.at(place, name))
            and model.health_of(model.at(place, name)).state != "ejected"
        }  # fmt: skip
        decision = self.router.decide(
            self.router.endpoints[place[0]].variants[place[1]], RoutingRequest(key=key), 0, tried
        )
        if not load:
            assert isinstance(decision, Refused)
            assert decision.refusal is self.expected_refusal(variant.serving, tried)
            return
        assert isinstance(decision, Assigned)
        assert decision.target.target_id in load
        assert decision.lease.generation == model.at(place, decision.target.target_id)[3]
        assert (decision.variant, decision.strategy) == (place[1], variant.routing.strategy)
        assert (decision.candidates, decision.in_flight) == (len(load), load[decision.target.target_id])
        self.check_rule(decision, variant.routing, key, load)
        model.open.append(Open(place, decision.lease, model.taken))
        model.taken += 1

    def expected_refusal(self, serving, tried):
        if not serving:
            return Refusal.NO_TARGET
        return Refusal.ALL_TRIED if set(serving) <= set(tried) else Refusal.ALL_EJECTED

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
            self.check_prefix_aware(decision, routing.concurrency_threshold, by_rendezvous(key, load), load)

    def check_prefix_aware(self, decision, threshold, ranked, load):
        picked = decision.target.target_id
        below = [name for name in ranked if load[name] < threshold]
        assert decision.rank == ranked.index(picked)
        if below:
            assert picked == below[0]
            assert decision.reason is (Reason.AFFINITY if picked == ranked[0] else Reason.OVERFLOW)
        else:
            assert decision.reason is Reason.SATURATED
            assert load[picked] == min(load.values())

    @rule(endpoint=st.sampled_from(ENDPOINTS), named=st.sampled_from([None, *VARIANTS, "111"]))
    def choose_a_variant(self, endpoint, named):
        variants = self.model.variants.get(endpoint)
        if variants is None:
            assert endpoint not in self.router.endpoints
            return
        book = self.router.choose_variant(self.router.endpoints[endpoint], named)
        if named is not None:
            assert (book.name if book else None) == (named if named in variants else None)
        elif book is None:
            assert not any(variant.weight for variant in variants.values())
        else:
            assert variants[book.name].weight > 0

    # --- ends of attempts ---------------------------------------------------------------------
    def end(self, data, kind, *arguments):
        self.now_ns += 1
        ended = self.model.open.pop(data.draw(st.integers(0, len(self.model.open) - 1), label="which lease"))
        event = kind(ended.lease, *arguments)
        expected = self.model.expected_change(ended, event, self.now_ns)
        change = self.router.apply(event, self.now_ns)
        self.model.forget()
        assert (change.reason if change else None) == expected
        if change:
            assert (change.target_id, change.generation) == ended.at[2:]
            assert change.ejected is isinstance(event, Failed)

    @precondition(lambda self: self.model.open)
    @rule(data=st.data())
    def complete(self, data):
        self.end(data, Completed)

    @precondition(lambda self: self.model.open)
    @rule(data=st.data())
    def cancel(self, data):
        self.end(data, Cancelled)

    @precondition(lambda self: self.model.open)
    @rule(data=st.data(), cause=st.sampled_from([*FailureCause, *[FailureCause.SERVER_ERROR] * 4]),
          times=st.integers(1, 8))  # fmt: skip
    def fail(self, data, cause, times):
        for _ in range(min(times, len(self.model.open))):
            self.end(data, Failed, cause)

    @precondition(lambda self: self.model.open)
    @rule(data=st.data())
    def refuse_a_connection(self, data):
        self.end(data, Failed, FailureCause.CONNECT_FAILED)

    # --- time ---------------------------------------------------------------------------------
    @rule(step_ns=st.sampled_from([0, 1, SECOND, 4 * SECOND, 30 * SECOND]))
    def time_passes(self, step_ns):
        self.now_ns += step_ns
        self.come_to_now()

    @precondition(lambda self: self.router.next_deadline_ns() is not None)
    @rule(late_ns=st.sampled_from([-1, 0, 1]))
    def the_next_deadline_comes(self, late_ns):
        self.now_ns = max(self.now_ns, self.router.next_deadline_ns() + late_ns)
        self.come_to_now()

    def come_to_now(self):
        expected = []
        for at in self.ejected():
            if self.model.health[at].until_ns <= self.now_ns:
                self.model.health[at].state = "probation"
                self.model.health[at].paroled_at = self.model.taken
                expected.append((at[2], at[3], False, "probation"))
        changes = self.router.on_deadline(self.now_ns)
        assert sorted((c.target_id, c.generation, c.ejected, c.reason) for c in changes) == sorted(expected)

    def ejected(self):
        """Ejected targets of the variants that the fleet has, those that left but have leases included."""
        return [
            at for at, health in self.model.health.items()
            if health.state == "ejected" and self.model.variant(at[:2])
            and at == self.model.at(at[:2], at[2])
        ]  # fmt: skip

    # --- after every step -----------------------------------------------------------------------
    @invariant()
    def the_router_knows_the_endpoints_and_variants_of_the_fleet(self):
        known = {name: set(book.variants) for name, book in self.router.endpoints.items()}
        assert known == {name: set(variants) for name, variants in self.model.variants.items()}

    @invariant()
    def every_open_lease_is_counted_once_and_nothing_else(self):
        assert self.router.open_leases() == len(self.model.open)
        counted = 0
        for place in self.model.places():
            variant = self.model.variant(place)
            rows = self.router.endpoints[place[0]].variants[place[1]].rows
            assert set(variant.targets) <= set(rows)
            for name, row in rows.items():
                assert row.in_flight == self.model.load((*place, name, row.target.generation)) >= 0
                assert row.gone is (name not in variant.targets)
                assert not row.gone or row.in_flight, "a row that is gone and idle is forgotten"
                counted += row.in_flight
        live = [lease for lease in self.model.open if self.model.known(lease.at)]
        assert len(live) <= counted <= len(self.model.open)

    @invariant()
    def exactly_the_targets_in_service_that_are_not_ejected_are_candidates(self):
        for place in self.model.places():
            expected = [
                name for name in sorted(self.model.variant(place).serving)
                if self.model.health_of(self.model.at(place, name)).state != "ejected"
            ]  # fmt: skip
            book = self.router.endpoints[place[0]].variants[place[1]]
            assert [row.target.target_id for row in book.candidates] == expected

    @invariant()
    def the_next_deadline_is_the_first_end_of_an_ejection(self):
        ends = [self.model.health[at].until_ns for at in self.ejected()]
        assert self.router.next_deadline_ns() == min(ends, default=None)

    def teardown(self):
        while self.model.open:
            self.router.apply(Completed(self.model.open.pop().lease), self.now_ns)
        assert self.router.open_leases() == 0
        assert all(in_flight == 0 for _, in_flight, _ in self.router.targets().values())
        self.router.apply_fleet(Fleet(self.version + 1, "us-east-1", "0" * 12))
        assert self.router.targets() == {}
        assert self.router.next_deadline_ns() is None


class FleetHistory(History):
    """Endpoints, variants and targets that come and go under load."""

    @initialize(seed=seeds, routing=routings, names=target_sets)
    def start(self, seed, routing, names):
        self.begin(seed, routing, names)

    @precondition(lambda self: self.model.places())
    @rule(data=st.data(), name=st.sampled_from(TARGETS), state=states, renewed=st.booleans())
    def put_a_target(self, data, name, state, renewed):
        """Join, return (with or without a new generation), start, drain, or come into service again."""
        place = data.draw(st.sampled_from(self.model.places()), label="variant")
        if renewed:
            self.model.generations[(*place, name)] += 1
        self.model.variant(place).targets[name] = state
        self.publish()

    @precondition(lambda self: self.model.places())
    @rule(data=st.data(), name=st.sampled_from(TARGETS))
    def remove_a_target(self, data, name):
        place = data.draw(st.sampled_from(self.model.places()), label="variant")
        self.model.variant(place).targets.pop(name, None)
        self.publish()

    @rule(place=places, routing=routings, weight=st.sampled_from([0.0, 0.5, 1.0]), names=target_sets)
    def put_a_variant(self, place, routing, weight, names):
        """Create a variant, and its endpoint, or give it another strategy and other targets."""
        members = dict.fromkeys(sorted(names), TargetState.IN_SERVICE)
        self.model.variants.setdefault(place[0], {})[place[1]] = VariantModel(routing, weight, members)
        self.publish()

    @precondition(lambda self: self.model.places())
    @rule(data=st.data(), routing=routings)
    def switch_strategy(self, data, routing):
        place = data.draw(st.sampled_from(self.model.places()), label="variant")
        self.model.variant(place).routing = routing
        self.publish()

    @rule(place=places)
    def remove_a_variant(self, place):
        self.model.variants.get(place[0], {}).pop(place[1], None)
        self.publish()

    @rule(endpoint=st.sampled_from(ENDPOINTS))
    def delete_an_endpoint(self, endpoint):
        self.model.variants.pop(endpoint, None)
        self.publish()

    @rule(behind=st.integers(0, 3))
    def an_old_fleet_arrives(self, behind):
        assert not self.router.apply_fleet(Fleet(self.version - behind, "us-east-1", "0" * 12))


class HotPrefixHistory(FleetHistory):
    """The same with PREFIX_AWARE and enough requests for one key to overflow and to saturate."""

    @initialize(seed=seeds, routing=prefix_aware, names=st.sets(st.sampled_from(TARGETS), min_size=3))
    def start(self, seed, routing, names):
        self.begin(seed, routing, names)

    @precondition(lambda self: ("1", "1") in self.model.places())
    @rule(key=st.sampled_from(KEYS[:2]), times=st.integers(1, 10))
    def a_hot_prefix(self, key, times):
        for _ in range(times):
            self.decide_once(("1", "1"), key, ())


class HealthHistory(History):
    """A fleet of one variant whose targets fail, are ejected, and come back, or are started anew."""

    @initialize(seed=seeds, routing=routings, names=st.sets(st.sampled_from(TARGETS[:4]), min_size=1))
    def start(self, seed, routing, names):
        self.begin(seed, routing, names)

    @rule(data=st.data(), state=states, renewed=st.integers(0, 3))
    def restart_or_drain_a_target(self, data, state, renewed):
        variant = self.model.variant(("1", "1"))
        name = data.draw(st.sampled_from(list(variant.targets)), label="target")
        self.model.generations["1", "1", name] += renewed == 0
        variant.targets[name] = state
        self.publish()


def case(machine, max_examples):
    machine.TestCase.settings = settings(max_examples=max_examples, stateful_step_count=40, deadline=None)
    return machine.TestCase


TestFleetHistory = case(FleetHistory, 60)
TestHotPrefixHistory = case(HotPrefixHistory, 40)
TestHealthHistory = case(HealthHistory, 100)
