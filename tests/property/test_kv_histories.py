"""KV_AWARE over random histories of a router: what is owed and known of targets is always accounted for.

Fleets change, targets drain, are ejected, leave with requests open and return, strategies switch, engines
report nonsense and tell of generations that are not there. Names are chosen to be prefixes of each other.
"""

from random import Random
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from warmroute.core.decision import NEW_SESSION, Assigned, Reason, RoutingRequest
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
from warmroute.routing.kvindex import Trust
from warmroute.routing.router import Router

SECOND = 10**9
NAMES = ["1", "11", "2", "21", "111"]
ENDPOINTS = ["1", "11"]
KV_AWARE = Routing(RoutingStrategy.KV_AWARE)
OTHERS = [
    Routing(),
    Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS),
    Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=2),
]
BLOCKS_MAX, GHOSTS_MAX = 40, 10


def chain_of(start, shared, end, own):
    """The chained hashes of so many blocks of one kind, then of another: prompts that share starts."""
    kinds = [start] * shared + [end] * own
    return tuple(int("".join(map(str, kinds[: n + 1])), 3) for n in range(len(kinds)))


kinds = st.integers(1, 2)
chains = st.builds(chain_of, kinds, st.integers(0, 25), kinds, st.integers(0, 12))
fleets = st.lists(
    st.tuples(
        st.sets(st.sampled_from(NAMES)),  # members
        st.sets(st.sampled_from(NAMES), max_size=2),  # drain
        st.sets(st.sampled_from(NAMES), max_size=1),  # start anew
        st.sampled_from([KV_AWARE] * 12 + OTHERS),
    ),
    min_size=len(ENDPOINTS), max_size=len(ENDPOINTS),
)  # fmt: skip
counts = st.sampled_from([-1, 0, 1, 5, 300, 10_000, 10**9])


class Histories(RuleBasedStateMachine):
    """One router; ``held`` are the leases of exchanges under way."""

    def __init__(self):
        super().__init__()
        limits = {"KV_RECORD_BLOCKS_MAX": BLOCKS_MAX, "KV_RECORD_BLOCKS_MIN": 4, "KV_GHOSTS_MAX": GHOSTS_MAX}
        self.patches = [mock.patch.object(kvindex, name, value) for name, value in limits.items()]
        for patch in self.patches:
            patch.start()
        self.router = Router(Random(1))
        self.generations = dict.fromkeys(NAMES, 1)
        self.version = 0
        self.held = []
        self.ended = []
        self.now_ns = 10**12

    def teardown(self):
        try:
            for lease in self.held:
                self.router.apply(Cancelled(lease), self.now_ns)
            self.held.clear()
            assert self.router.open_leases() == 0
            self.nothing_is_owed_that_nobody_waits_for()
            for book in self.books():
                shelves = list(book.kv.index.shelves.values())
                assert all((shelf.pending, shelf.resident) == (0, 0) for shelf in shelves)
            books = self.books()
            self.publish([(set(), set(), set(), KV_AWARE)] * 2)
            assert all(len(book.kv.index) == len(book.kv.index._ghosts) == 0 for book in books)
        finally:
            for patch in self.patches:
                patch.stop()

    def books(self):
        books = [book for each in self.router.endpoints.values() for book in each.variants.values()]
        return [book for book in books if book.kv is not None]

    # --- the fleet ----------------------------------------------------------------------------
    @initialize(told=st.booleans())
    def begin(self, told):
        self.publish([(set(NAMES), set(), set(), KV_AWARE)] * 2)
        for name in NAMES if told else ():
            self.router.learn(CacheCleared(name, 1), self.now_ns)

    @rule(described=fleets, routers=st.sampled_from([1, 4]))
    def publish(self, described, routers=1):
        self.version += 1
        endpoints = []
        for name in set().union(*(anew for _, _, anew, _ in described)):
            self.generations[name] += 1
        for endpoint, (members, draining, _, routing) in zip(ENDPOINTS, described, strict=True):
            targets = tuple(
                Target(TargetId(name), InstanceId(name), self.generations[name], "host", 80,
                       state=TargetState.DRAINING if name in draining else TargetState.IN_SERVICE)
                for name in sorted(members)
            )  # fmt: skip
            variant = Variant(VariantName("v"), 1.0, routing, targets)
            endpoints.append(Endpoint(EndpointName(endpoint), True, (variant,)))
        fleet = Fleet(self.version, "us-east-1", "0" * 12, tuple(endpoints), routers=routers)
        assert self.router.apply_fleet(fleet)

    @rule(endpoint=st.sampled_from(ENDPOINTS))
    def remove_an_endpoint(self, endpoint):
        """Its book is kept while it has open leases, and returns with the next fleet."""
        self.version += 1
        empty = Endpoint(EndpointName(endpoint), True, ())
        self.router.apply_fleet(Fleet(self.version, "us-east-1", "0" * 12, (empty,)))

    # --- requests -----------------------------------------------------------------------------
    @rule(endpoint=st.sampled_from(ENDPOINTS), chain=chains, key=st.sampled_from([None, 0, 7, 2**64 - 1]),
          more=st.sampled_from([0, 1, 1023]), tried=st.sets(st.sampled_from(NAMES), max_size=2),
          session=st.sampled_from(["", "", "", NEW_SESSION]), times=st.integers(1, 4))  # fmt: skip
    def ask(self, endpoint, chain, key, more, tried, session, times):
        known = self.router.endpoints.get(endpoint)
        book = known.variants.get("v") if known else None
        if book is None:
            return
        characters = 1024 * len(chain) + more
        request = RoutingRequest(key=key, chain=chain, characters=characters, session=session)
        for _ in range(times):
            decision = self.router.decide(book, request, self.now_ns, tuple(sorted(tried)))
            if isinstance(decision, Assigned):
                self.held.append(decision.lease)
                self.check(book, request, decision, tried)

    @rule(endpoint=st.sampled_from(ENDPOINTS), prompts=st.lists(chains, min_size=1, max_size=5),
          rounds=st.integers(1, 12), share=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
          took_ns=st.sampled_from([0, SECOND]))  # fmt: skip
    def serve(self, endpoint, prompts, rounds, share, took_ns):
        """Prompts come again and again, of which the engine reports a share as cached."""
        for chain in prompts * rounds:
            open_before = len(self.held)
            self.ask(endpoint, chain, 7, 100, (), "", 1)
            if len(self.held) > open_before:
                lease = self.held[-1]
                self.now_ns += took_ns
                self.router.apply(FirstToken(lease), self.now_ns)
                self.nothing_is_owed_that_nobody_waits_for()
                self.router.apply(Completed(lease, 1000, int(1000 * share), 10), self.now_ns)
                self.ended.append(self.held.pop())

    def check(self, book, request, decision, tried):
        name = decision.target.target_id
        assert name not in tried
        assert decision.target.state is TargetState.IN_SERVICE
        assert decision.lease.generation == self.generations[name]
        assert not book.rows[name].health.ejected
        if book.kv is None:
            assert decision.lease.visit is None
            return
        visit = decision.lease.visit
        assert visit.shelf is book.rows[name].shelf is book.kv.index.shelves[name]
        assert 0 <= visit.depth <= len(request.chain)
        if decision.candidates == 1:
            assert decision.reason is Reason.ONLY_CANDIDATE
        elif not request.chain and request.key is None:
            assert (decision.reason, decision.rank) == (Reason.NO_KEY, -1)
        else:
            assert decision.reason is (
                Reason.CACHED if visit.depth else Reason.HOME if decision.rank == 0 else Reason.LOAD
            )
        if visit.shelf.trust is not Trust.UNKNOWN and len(request.chain) <= visit.shelf.capacity:
            held = {*visit.shelf.blocks, *visit.shelf.expected}
            assert set(request.chain) <= held, "the next one like it finds it there"

    # --- how they go --------------------------------------------------------------------------
    def take(self, data):
        place = data.draw(st.integers(0, len(self.held) - 1), label="which lease")
        lease = self.held.pop(place)
        self.ended.append(lease)
        return lease

    @precondition(lambda self: self.held or self.ended)
    @rule(data=st.data(), late=st.booleans())
    def first_token(self, data, late):
        """Also told twice, and after the end."""
        lease = data.draw(
            st.sampled_from(self.ended[-3:] if late and self.ended else self.held or self.ended)
        )
        assert self.router.apply(FirstToken(lease), self.now_ns) is None

    @precondition(lambda self: self.held)
    @rule(data=st.data(), prompt=counts, cached=counts, output=counts)
    def complete(self, data, prompt, cached, output):
        self.router.apply(Completed(self.take(data), prompt, cached, output), self.now_ns)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), share=st.sampled_from([0.0, 0.3, 1.0]), times=st.integers(1, 25))
    def complete_many(self, data, share, times):
        """Prompts of an engine that caches none, some, or all of them."""
        for _ in range(min(times, len(self.held))):
            self.router.apply(Completed(self.take(data), 1000, int(1000 * share), 10), self.now_ns)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def cancel(self, data):
        self.router.apply(Cancelled(self.take(data)), self.now_ns)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), cause=st.sampled_from(FailureCause))
    def fail(self, data, cause):
        self.router.apply(Failed(self.take(data), cause), self.now_ns)

    # --- what engines tell --------------------------------------------------------------------
    @rule(name=st.sampled_from(NAMES), off=st.sampled_from([-1, 0, 0, 0, 0, 1]), blocks=chains,
          kind=st.sampled_from([TextBlocksStored, TextBlocksStored, TextBlocksRemoved]))  # fmt: skip
    def tell(self, name, off, blocks, kind):
        self.learn(name, off, kind, blocks)

    @rule(name=st.sampled_from(NAMES), off=st.sampled_from([-1, 0, 0, 0, 1]))
    def clear(self, name, off):
        self.learn(name, off, CacheCleared)
        for book in self.books():
            shelf = book.kv.index.shelves.get(name)
            if off == 0 and shelf and book.rows[name].target.generation == self.generations[name]:
                assert (shelf.trust, list(shelf.blocks), list(shelf.expected)) == (Trust.EXACT, [], [])

    @rule(name=st.sampled_from(NAMES), off=st.sampled_from([-1, 0, 0, 0, 1]))
    def lose(self, name, off):
        self.learn(name, off, EventsLost, "gap")

    def learn(self, name, off, kind, *what):
        before = self.known()
        self.router.learn(kind(name, self.generations[name] + off, *what), self.now_ns)
        if off == 1:
            assert self.known() == before, "news of a generation that is not there yet are void"

    def known(self):
        shelves = [(name, shelf) for book in self.books() for name, shelf in book.kv.index.shelves.items()]
        return [(name, shelf.trust, shelf.why, list(shelf.blocks)) for name, shelf in shelves]

    # --- time ---------------------------------------------------------------------------------
    @rule(step_ns=st.sampled_from([0, 1, SECOND, 5 * SECOND, 60 * SECOND]))
    def time_passes(self, step_ns):
        self.now_ns += step_ns
        self.router.on_deadline(self.now_ns)

    # --- always -------------------------------------------------------------------------------
    @invariant()
    def nothing_is_owed_that_nobody_waits_for(self):
        """Pending and resident are those of the open leases, of the targets that they were given on."""
        assert self.router.open_leases() == len(self.held)
        for book in self.books():
            for shelf in book.kv.index.shelves.values():
                visits = [lease.visit for lease in self.held if lease.visit and lease.visit.shelf is shelf]
                assert shelf.pending == sum(visit.pending for visit in visits) >= 0
                assert shelf.resident == sum(visit.characters for visit in visits) >= 0
                assert 0 <= book.kv.pending(shelf, self.now_ns) <= shelf.pending
            assert 0 <= book.kv.surprise <= 1
            assert book.kv.output_tokens >= 0
            assert book.kv.rate >= 0

    @invariant()
    def shelves_are_those_of_the_targets_there_are(self):
        for endpoint in self.router.endpoints.values():
            for book in endpoint.variants.values():
                present = {name: row.shelf for name, row in book.rows.items() if not row.gone}
                assert all(row.shelf is None for row in book.rows.values() if row.gone)
                assert present == (book.kv.index.shelves if book.kv else dict.fromkeys(present))

    @invariant()
    def the_table_of_holders_is_the_union_of_the_shelves(self):
        for book in self.books():
            index, table = book.kv.index, {}
            for shelf in index.shelves.values():
                assert len(shelf.blocks) <= BLOCKS_MAX
                for block in {*shelf.blocks, *shelf.expected}:
                    table[block] = table.get(block, 0) | shelf.bit
            assert index._holders == table
            assert len(index._ghosts) <= GHOSTS_MAX * len(index.shelves)


class TestHistories(Histories.TestCase):
    settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
