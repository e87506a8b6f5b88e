"""The invariants of docs/invariants.md over random histories of a router.

A second, deliberately simple model keeps what was decided, what the fleet says and what the failures
mean, and is compared with the router after every step. Names are chosen to be prefixes of each other.
Targets are instances, or copies of two inference components on three of them.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from xxhash import xxh3_64_intdigest

from warmroute.core.decision import (
    NEW_SESSION,
    Assigned,
    Lease,
    Reason,
    Refusal,
    Refused,
    RoutingRequest,
)
from warmroute.core.events import Cancelled, Completed, Failed, FailureCause
from warmroute.core.fleet import (
    Endpoint,
    Fleet,
    Routing,
    RoutingStrategy,
    Target,
    TargetState,
    Variant,
)
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.key import partition
from warmroute.routing.router import Router
from warmroute.routing.sessions import SessionTable

ENDPOINTS = ["1", "11"]
VARIANTS = ["1", "11"]
TARGETS = ["1", "11", "2", "21", "111"]
KEYS = [0, 1, 11, 2**63, 2**64 - 1]
# Of copies, where they are: the same instances carry both components.
COPIES = [(i, c, n) for i in ("1", "11", "2") for c in ("1", "11") for n in ("1", "11", "2")]
ADAPTERS = ["2", "21"]
SESSIONS = ["1", "11", "2"]
SESSIONS_MAX = 2
CERTAIN = (FailureCause.CONNECT_FAILED, FailureCause.LOADING)
SECOND = 10**9

prefix_aware = st.integers(1, 3).map(
    lambda n: Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=n)
)
routings = st.one_of(
    st.just(Routing()), st.just(Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)), prefix_aware
)
states = st.sampled_from([TargetState.IN_SERVICE] * 4 + [TargetState.DRAINING, TargetState.STARTING])
states_out_of_service = st.sampled_from([TargetState.DRAINING, TargetState.STARTING])
places = st.sampled_from([(e, v) for e in ENDPOINTS for v in VARIANTS])
target_sets = st.sets(st.sampled_from(TARGETS), min_size=1)
seeds = st.integers(0, 1000)


def revised(name):
    """Return a variant's name with its revision, which the router's books are kept by."""
    return name, len(name)


@dataclass
class Member:
    """What the fleet says of a target."""

    state: TargetState
    instance: str
    component: str = ""
    adapters: frozenset[str] = frozenset()


@dataclass
class VariantModel:
    """What the fleet says of a variant."""

    routing: Routing
    weight: float
    targets: dict[str, Member]

    def serving(self, component):
        return [
            name for name, member in self.targets.items()
            if member.state is TargetState.IN_SERVICE and member.component == component
        ]  # fmt: skip


def instances(names):
    """Targets that are instances, all of them in service."""
    return {name: Member(TargetState.IN_SERVICE, name) for name in sorted(names)}


@dataclass
class Pin:
    """What a session is pinned to."""

    at: tuple
    deadline_ns: int


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
    # By endpoint and id; those that are over stay until somebody looks after them.
    sessions: dict[tuple[str, str], Pin] = field(default_factory=dict)
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

    def expire(self, now_ns):
        self.sessions = {at: pin for at, pin in self.sessions.items() if pin.deadline_ns > now_ns}

    def sessions_full(self, now_ns):
        if len(self.sessions) >= SESSIONS_MAX:
            self.expire(now_ns)
        return len(self.sessions) >= SESSIONS_MAX

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
            variant = self.variant(ended.place)
            alike = variant.serving(variant.targets[ended.at[2]].component)
            serving = [self.at(ended.place, name) for name in alike]
            others = sum(self.health_of(at).state == "ejected" for at in serving)
            if (health.consecutive < 5 and not probe) or 2 * (others + 1) > len(serving):
                return None
        health.state = "ejected"
        health.until_ns = now_ns + min(2**health.ejections, 30) * SECOND
        health.ejections += 1
        return event.cause.value


def in_order(key, names, targets):
    """The key's order, written down a second time: instances, and the copies on each."""
    weight = lambda name: xxh3_64_intdigest(name.encode(), key)
    return sorted(names, key=lambda name: (weight(targets[name].instance), weight(name)), reverse=True)


class History(RuleBasedStateMachine):
    """Requests, ends and time over whatever fleet there is."""

    def __init__(self):
        super().__init__()
        self.begin_router(0)
        self.model = Model()
        self.version = 0
        self.now_ns = 10**12

    def begin_router(self, seed):
        self.router = Router(Random(seed))
        self.router.sessions = SessionTable(SESSIONS_MAX)

    def begin(self, seed, routing, members):
        self.begin_router(seed)
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
            Target(TargetId(t), InstanceId(m.instance), self.model.at(place, t)[3], "host", 80, state=m.state,
                   component=m.component, adapters=tuple(sorted(m.adapters)))
            for t, m in variant.targets.items()
        )  # fmt: skip
        name, revision = revised(place[1])
        return Variant(VariantName(name), variant.weight, variant.routing, members, revision=revision)

    # --- deciding -----------------------------------------------------------------------------
    @precondition(lambda self: self.model.places())
    @rule(data=st.data(), key=st.sampled_from([None, *KEYS]), times=st.integers(1, 6),
          tried=st.sets(st.sampled_from(TARGETS), max_size=2))  # fmt: skip
    def decide(self, data, key, times, tried):
        place = data.draw(st.sampled_from(self.model.places()), label="variant")
        for _ in range(times):
            self.decide_once(place, RoutingRequest(key=key), tuple(sorted(tried)))

    def decide_once(self, place, request, tried=()):
        """Decide, and compare with what the model says; return the lease, None for a refusal."""
        book = self.router.endpoints[place[0]].variants[revised(place[1])]
        expected = self.expected(place, request, tried)
        decision = self.router.decide(book, request, self.now_ns, tried)
        if isinstance(expected, Refusal):
            assert decision == Refused(expected)
            return None
        assert isinstance(decision, Assigned)
        model, variant = self.model, self.model.variant(place)
        name = decision.target.target_id
        load = {each: model.load(model.at(place, each)) for each in expected}
        assert name in load
        assert decision.lease.generation == model.at(place, name)[3]
        assert (decision.variant, decision.strategy) == (place[1], variant.routing.strategy)
        assert (decision.candidates, decision.in_flight) == (len(load), load[name])
        self.check_rule(decision, place, request, load)
        model.open.append(Open(place, decision.lease, model.taken))
        model.taken += 1
        return decision.lease

    def expected(self, place, request, tried):
        """The candidates, or why there are none."""
        session = request.session
        if session == NEW_SESSION and self.model.sessions_full(self.now_ns):
            return Refusal.SESSIONS_FULL
        if session and session != NEW_SESSION:
            return self.expected_of_session(place, request, tried)
        serving = self.model.variant(place).serving(request.component)
        free = [
            name for name in serving
            if name not in tried and self.health_at(place, name) not in ("ejected", "probing")
        ]  # fmt: skip
        if free:
            return self.with_adapter(place, request, free) or free
        if not serving:
            return Refusal.NO_COPY if request.component else Refusal.NO_TARGET
        return Refusal.ALL_TRIED if set(serving) <= set(tried) else Refusal.ALL_EJECTED

    def with_adapter(self, place, request, names):
        targets = self.model.variant(place).targets
        return [name for name in names if not request.adapter or request.adapter in targets[name].adapters]

    def expected_of_session(self, place, request, tried):
        pin, targets = self.model.sessions.get((place[0], request.session)), self.model.variant(place).targets
        if pin is None or pin.deadline_ns <= self.now_ns:
            return Refusal.SESSION_UNKNOWN
        if not self.model.known(pin.at):
            return Refusal.SESSION_GONE
        name = pin.at[2]
        if pin.at[:2] != place or targets[name].component != request.component:
            return Refusal.SESSION_UNKNOWN
        if name in tried:
            return Refusal.ALL_TRIED
        ready = targets[name].state is not TargetState.STARTING and self.with_adapter(place, request, [name])
        if not ready or self.health_at(place, name) in ("ejected", "probing"):
            return Refusal.SESSION_UNAVAILABLE
        return [name]

    def health_at(self, place, name):
        at = self.model.at(place, name)
        return "probing" if self.model.probing(at) else self.model.health_of(at).state

    def check_rule(self, decision, place, request, load):
        routing, least = self.model.variant(place).routing, min(load.values())
        picked = load[decision.target.target_id]
        if request.session not in ("", NEW_SESSION):
            assert (decision.reason, decision.rank) == (Reason.SESSION, -1)
        elif request.adapter and not self.with_adapter(place, request, load):
            self.check_cold_adapter(decision, place, request, load)
        elif len(load) == 1:
            assert decision.reason is Reason.ONLY_CANDIDATE
        elif routing.strategy is RoutingStrategy.RANDOM:
            assert (decision.reason, decision.rank) == (Reason.RANDOM, -1)
        elif routing.strategy is RoutingStrategy.LEAST_OUTSTANDING_REQUESTS:
            assert (decision.reason, decision.rank, picked) == (Reason.LEAST_OUTSTANDING, -1, least)
        elif request.key is None:
            assert (decision.reason, decision.rank, picked) == (Reason.NO_KEY, -1, least)
        else:
            targets = self.model.variant(place).targets
            reason = self.check_order(decision, request.key, routing.concurrency_threshold, place, load)
            if len({targets[name].instance for name in load}) == 1:
                reason = Reason.ONLY_INSTANCE
            assert decision.reason is reason

    def check_order(self, decision, key, threshold, place, load):
        """The first below the threshold in the key's order, else a least loaded one; return the reason."""
        picked = decision.target.target_id
        ranked = in_order(key, load, self.model.variant(place).targets)
        below = [name for name in ranked if load[name] < threshold]
        assert decision.rank == ranked.index(picked)
        if below:
            assert picked == below[0]
            return Reason.AFFINITY if picked == ranked[0] else Reason.OVERFLOW
        assert load[picked] == min(load.values())
        return Reason.SATURATED

    def check_cold_adapter(self, decision, place, request, load):
        assert decision.reason is Reason.ADAPTER_NOT_LOADED
        threshold = self.model.variant(place).routing.concurrency_threshold
        head = partition(
            endpoint=place[0], variant=place[1], component=request.component, adapter=request.adapter
        )
        self.check_order(decision, xxh3_64_intdigest(head), threshold or 10**9, place, load)

    # --- sessions -----------------------------------------------------------------------------
    def asked(self, data, place):
        """What a request on a variant may name."""
        del data, place
        return RoutingRequest()

    @precondition(lambda self: self.model.places())
    @rule(data=st.data(), session=st.sampled_from(SESSIONS), key=st.sampled_from([None, *KEYS]),
          life_ns=st.sampled_from([0, 1, 3 * SECOND, 60 * SECOND, 10**15]))  # fmt: skip
    def open_a_session(self, data, session, key, life_ns):
        """A model server begins a session; it may name it as one that is open already, here or elsewhere."""
        place = data.draw(st.sampled_from(self.model.places()), label="variant")
        asked = self.asked(data, place)
        request = RoutingRequest(
            key=key, component=asked.component, adapter=asked.adapter, session=NEW_SESSION
        )
        lease = self.decide_once(place, request)
        if lease is None:
            return
        at, deadline_ns = (place[0], session), self.now_ns + life_ns
        pin = self.model.sessions.get(at)
        if pin and pin.deadline_ns > self.now_ns and self.model.known(pin.at):
            fits = life_ns > 0 and pin.at[:3] == self.model.open[-1].at[:3]
        else:
            fits = life_ns > 0 and (pin is not None or not self.model.sessions_full(self.now_ns))
        assert self.router.open_session(lease, session, deadline_ns, self.now_ns) is fits
        if fits:
            deadline_ns = min(deadline_ns, self.now_ns + 86_400 * SECOND)
            self.model.sessions[at] = Pin(self.model.open[-1].at, deadline_ns)

    @precondition(lambda self: self.model.places())
    @rule(data=st.data(), session=st.sampled_from(SESSIONS), times=st.integers(1, 3),
          tried=st.booleans(), astray=st.booleans())  # fmt: skip
    def go_on_with_a_session(self, data, session, times, tried, astray):
        """Another request of a session, also on a variant, or a component, that it does not belong to."""
        endpoint = data.draw(st.sampled_from(sorted({e for e, _ in self.model.places()})), label="endpoint")
        pin = self.model.sessions.get((endpoint, session))
        book = self.router.choose_variant(self.router.endpoints[endpoint], None, session=session)
        if pin is not None and self.model.variant(pin.at[:2]) is not None:
            assert book.name == pin.at[1]
        names = [v for e, v in self.model.places() if e == endpoint]
        if astray or book is None:
            name = data.draw(st.sampled_from(names), label="variant")
            book = self.router.endpoints[endpoint].variants[revised(name)]
        place = (endpoint, book.name)
        asked = self.asked(data, place)
        if pin is not None and not astray and self.model.known(pin.at):
            asked = RoutingRequest(component=self.model.variant(place).targets[pin.at[2]].component)
        request = RoutingRequest(component=asked.component, adapter=asked.adapter, session=session)
        for _ in range(times):
            self.decide_once(place, request, (pin.at[2],) if pin and tried else ())

    @precondition(lambda self: any(self.model.known(pin.at) for pin in self.model.sessions.values()))
    @rule(data=st.data(), state=states_out_of_service, renewed=st.integers(0, 3))
    def a_target_with_a_session_drains_or_restarts(self, data, state, renewed):
        pins = [at for at, pin in self.model.sessions.items() if self.model.known(pin.at)]
        endpoint, session = data.draw(st.sampled_from(pins), label="session")
        *place, name, _ = self.model.sessions[endpoint, session].at
        variant = self.model.variant(tuple(place))
        variant.targets[name].state = state
        self.model.generations[(*place, name)] += renewed == 0
        self.publish()
        component = variant.targets[name].component
        self.decide_once(tuple(place), RoutingRequest(component=component, session=session))

    @precondition(lambda self: self.model.open)
    @rule(data=st.data(), session=st.sampled_from(SESSIONS))
    def close_a_session(self, data, session):
        """A model server says that it has closed a session, its own or another one."""
        ended = data.draw(st.sampled_from(self.model.open), label="which lease")
        pin = self.model.sessions.get((ended.at[0], session))
        own = pin is not None and pin.at == ended.at
        assert self.router.close_session(ended.lease, session) is own
        if own:
            del self.model.sessions[ended.at[0], session]

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
        self.model.expire(self.now_ns)
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
        known = {name: set(book.variant_names()) for name, book in self.router.endpoints.items()}
        assert known == {name: set(variants) for name, variants in self.model.variants.items()}

    @invariant()
    def every_open_lease_is_counted_once_and_nothing_else(self):
        assert self.router.open_leases() == len(self.model.open)
        counted = 0
        for place in self.model.places():
            variant = self.model.variant(place)
            rows = self.router.endpoints[place[0]].variants[revised(place[1])].rows
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
            targets = self.model.variant(place).targets
            well = [
                name for name in sorted(targets) if targets[name].state is TargetState.IN_SERVICE
                and self.model.health_of(self.model.at(place, name)).state != "ejected"
            ]  # fmt: skip
            book = self.router.endpoints[place[0]].variants[revised(place[1])]
            assert [row.target.target_id for row in book.candidates] == well
            for component in {"", *(member.component for member in targets.values())}:
                for adapter in ("", *ADAPTERS):
                    fit = [
                        name for name in well if targets[name].component == component
                        and (not adapter or adapter in targets[name].adapters)
                    ]  # fmt: skip
                    pool = book.pool_of(component, adapter)
                    assert [row.target.target_id for row in pool.candidates] == fit

    @invariant()
    def the_next_deadline_is_the_first_end_of_an_ejection_or_a_session(self):
        ends = [self.model.health[at].until_ns for at in self.ejected()]
        ends += [pin.deadline_ns for pin in self.model.sessions.values()]
        assert self.router.next_deadline_ns() == min(ends, default=None)

    @invariant()
    def exactly_the_sessions_of_the_model_are_open_and_counted(self):
        table = self.router.sessions
        assert len(table) == len(self.model.sessions) <= SESSIONS_MAX
        pinned = Counter(pin.at[2:] for pin in self.model.sessions.values())
        for name, generation in {at[2:] for at in self.model.health} | set(pinned):
            assert table.pinned_to(name, generation) == pinned[name, generation]

    def teardown(self):
        while self.model.open:
            self.router.apply(Completed(self.model.open.pop().lease), self.now_ns)
        assert self.router.open_leases() == 0
        assert all(in_flight == 0 for _, in_flight, _ in self.router.targets().values())
        self.router.on_deadline(self.now_ns + 86_400 * SECOND)
        assert len(self.router.sessions) == 0
        self.router.apply_fleet(Fleet(self.version + 1, "us-east-1", "0" * 12))
        assert self.router.targets() == {}
        assert self.router.next_deadline_ns() is None


class FleetHistory(History):
    """Endpoints, variants and targets that come and go under load."""

    @initialize(seed=seeds, routing=routings, names=target_sets)
    def start(self, seed, routing, names):
        self.begin(seed, routing, instances(names))

    @precondition(lambda self: self.model.places())
    @rule(data=st.data(), name=st.sampled_from(TARGETS), state=states, renewed=st.booleans())
    def put_a_target(self, data, name, state, renewed):
        """Join, return (with or without a new generation), start, drain, or come into service again."""
        place = data.draw(st.sampled_from(self.model.places()), label="variant")
        if renewed:
            self.model.generations[(*place, name)] += 1
        self.model.variant(place).targets[name] = Member(state, name)
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
        variant = VariantModel(routing, weight, instances(names))
        self.model.variants.setdefault(place[0], {})[place[1]] = variant
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
        self.begin(seed, routing, instances(names))

    @precondition(lambda self: ("1", "1") in self.model.places())
    @rule(key=st.sampled_from(KEYS[:2]), times=st.integers(1, 10))
    def a_hot_prefix(self, key, times):
        for _ in range(times):
            self.decide_once(("1", "1"), RoutingRequest(key=key))


class HealthHistory(History):
    """A fleet of one variant whose targets fail, are ejected, and come back, or are started anew."""

    @initialize(seed=seeds, routing=routings, names=st.sets(st.sampled_from(TARGETS[:4]), min_size=1))
    def start(self, seed, routing, names):
        self.begin(seed, routing, instances(names))

    @rule(data=st.data(), state=states, renewed=st.integers(0, 3))
    def restart_or_drain_a_target(self, data, state, renewed):
        variant = self.model.variant(("1", "1"))
        name = data.draw(st.sampled_from(list(variant.targets)), label="target")
        self.model.generations["1", "1", name] += renewed == 0
        variant.targets[name].state = state
        self.publish()


class CopyHistory(History):
    """Copies of two components on the same instances, and adapters that are loaded on some of them."""

    @initialize(seed=seeds, routing=st.one_of(routings, prefix_aware),
                places=st.sets(st.sampled_from(COPIES), min_size=4))  # fmt: skip
    def start(self, seed, routing, places):
        self.begin(seed, routing, {"/".join(at): self.copy(at) for at in sorted(places)})

    def copy(self, at, state=TargetState.IN_SERVICE, adapters=()):
        return Member(state, at[0], at[1], frozenset(adapters))

    def asked(self, data, place):
        component = data.draw(st.sampled_from(["1", "1", "1", "11", ""]), label="component")
        return RoutingRequest(
            component=component, adapter=data.draw(st.sampled_from(["", "", *ADAPTERS]), label="adapter")
        )

    @rule(data=st.data(), key=st.sampled_from([None, *KEYS[:2]]), times=st.integers(1, 8),
          tried=st.sets(st.sampled_from(COPIES), max_size=3))  # fmt: skip
    def decide(self, data, key, times, tried):
        asked = self.asked(data, ("1", "1"))
        request = RoutingRequest(key=key, component=asked.component, adapter=asked.adapter)
        for _ in range(times):
            self.decide_once(("1", "1"), request, tuple(sorted("/".join(at) for at in tried)))

    @rule(key=st.sampled_from(KEYS[:2]), component=st.sampled_from(["1", "11"]), times=st.integers(1, 10))
    def a_hot_prefix(self, key, component, times):
        for _ in range(times):
            self.decide_once(("1", "1"), RoutingRequest(key=key, component=component))

    @rule(at=st.sampled_from(COPIES), state=states, renewed=st.integers(0, 3),
          adapters=st.sets(st.sampled_from(ADAPTERS)))  # fmt: skip
    def put_a_copy(self, at, state, renewed, adapters):
        """Place one, start it anew, drain it, or load and unload adapters on it."""
        self.model.generations["1", "1", "/".join(at)] += renewed == 0
        self.model.variant(("1", "1")).targets["/".join(at)] = self.copy(at, state, adapters)
        self.publish()

    @rule(at=st.sampled_from(COPIES))
    def remove_a_copy(self, at):
        self.model.variant(("1", "1")).targets.pop("/".join(at), None)
        self.publish()

    @rule(instance=st.sampled_from(["1", "11", "2"]))
    def remove_an_instance(self, instance):
        """All copies on it, of whatever component."""
        targets = self.model.variant(("1", "1")).targets
        for name in [name for name, member in targets.items() if member.instance == instance]:
            del targets[name]
        self.publish()

    @rule(routing=st.one_of(routings, prefix_aware))
    def switch_strategy(self, routing):
        self.model.variant(("1", "1")).routing = routing
        self.publish()


def case(machine, max_examples):
    machine.TestCase.settings = settings(max_examples=max_examples, stateful_step_count=40, deadline=None)
    return machine.TestCase


TestFleetHistory = case(FleetHistory, 60)
TestHotPrefixHistory = case(HotPrefixHistory, 40)
TestHealthHistory = case(HealthHistory, 100)
TestCopyHistory = case(CopyHistory, 120)
