"""Whatever happens to copies, engines, routers and adapters, the sets of adapters keep their promises."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.resources.lora.places import PlaceState, done, may_unload, shown, stamp_places
from warmroute.resources.lora.sets import Copy, Demand, Scene, Tuning, Use, arrange

NAMES = ("a", "aa", "ab", "b", "ba")
COPIES = ("i-1", "i-11", "i-2", "i-21")
LIMIT = 2
TUNING = Tuning(busy=2, residence_s=3, patience_s=2, cold_s=10, surplus_s=20, want_s=5)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(NAMES)),
        st.tuples(st.just("lease"), st.sampled_from(NAMES)),
        st.tuples(st.just("end"), st.sampled_from(NAMES)),
        st.tuples(st.just("engine"), st.sampled_from(COPIES)),
        st.tuples(st.just("refuse"), st.sampled_from(COPIES)),
        st.tuples(st.just("restart"), st.sampled_from(COPIES)),
        st.tuples(st.just("open"), st.sampled_from(COPIES)),
        st.tuples(st.just("close"), st.sampled_from(COPIES)),
        st.tuples(st.just("update"), st.sampled_from(NAMES)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(st.just("control restarts"), st.just("")),
        st.tuples(st.just("time"), st.just("")),
    ),
    max_size=80,
)


class World:
    """Control, one router that acknowledges at once, and engines that do one thing at a time."""

    def __init__(self):
        self.now_s = 100.0
        self.version = 1
        self.revisions = dict.fromkeys(NAMES, 1)
        self.copies = {name: Copy(name, f"h-{name[:3]}", 1, True, limit=LIMIT) for name in COPIES}
        self.engines = {name: {} for name in COPIES}
        self.leases = {}
        self.used = {}
        self.demands = {}
        self.barred = set()

    def plan(self):
        scene = Scene(
            revisions=dict(self.revisions),
            copies=tuple(self.copies.values()),
            demands=self.demands,
            uses={at: Use(self.leases.get(at, 0), self.used.get(at, 0.0)) for at in self.used},
            barred=frozenset(self.barred),
            now_s=self.now_s,
        )
        arranged = arrange(scene, TUNING)
        reversed_scene = replace(
            scene,
            copies=tuple(reversed(scene.copies)),
            revisions=dict(reversed(list(scene.revisions.items()))),
        )
        assert arrange(reversed_scene, TUNING).places == arranged.places
        self.check_moves(arranged)
        self.version += 1
        self.demands = arranged.demands
        for name, places in arranged.places.items():
            self.copies[name] = replace(self.copies[name], places=stamp_places(places, self.version))

    def check_moves(self, arranged):
        for name, places in arranged.places.items():
            assert len(places) <= LIMIT
            assert len({place.adapter for place in places}) == len(places)
            before = {place.adapter: place for place in self.copies[name].places}
            for place in places:
                old = before.get(place.adapter)
                evicted = old is not None and (old.state, place.state) == (
                    PlaceState.SERVING,
                    PlaceState.LEAVING,
                )
                if evicted and self.revisions.get(place.adapter) == old.revision:
                    assert self.now_s >= old.since_s + TUNING.residence_s

    def shown_on(self, adapter):
        return [
            name
            for name, copy in self.copies.items()
            if copy.open and adapter in shown(copy.places, copy.generation)
        ]

    def engine(self, name, refuses=False):
        """Let one engine do the next thing it is told."""
        copy = self.copies[name]
        for place in copy.places:
            at = (name, place.adapter)
            if place.state is PlaceState.LOADING and refuses:
                self.barred.add(at)
                self.settle(name, place, None)
                return
            if place.state is PlaceState.LOADING:
                self.engines[name][place.adapter] = place.revision
                assert len(self.engines[name]) <= LIMIT
                self.settle(name, place, done(place, generation=copy.generation, now_s=self.now_s))
                return
            if may_unload(place, acked_version=self.version, in_flight=self.leases.get(at, 0)):
                self.engines[name].pop(place.adapter, None)
                self.settle(name, place, done(place, generation=copy.generation, now_s=self.now_s))
                return

    def settle(self, name, place, after):
        places = tuple(
            kept
            for each in self.copies[name].places
            if (kept := after if each is place else each) is not None
        )
        self.copies[name] = replace(self.copies[name], places=places)

    def happen(self, what, who):
        match what:
            case "ask" if who in self.revisions:
                known = self.demands.get(who, Demand())
                self.demands = {**self.demands, who: known.asked(len(self.shown_on(who)), self.now_s)}
            case "lease":
                for name in self.shown_on(who)[:1]:
                    self.leases[name, who] = self.leases.get((name, who), 0) + 1
                    self.used[name, who] = self.now_s
            case "end":
                self.leases = {at: max(n - (at[1] == who), 0) for at, n in self.leases.items()}
            case "engine":
                self.engine(who)
            case "refuse":
                self.engine(who, refuses=True)
            case "restart":
                copy = self.copies[who]
                self.copies[who] = replace(copy, generation=copy.generation + 1)
                self.engines[who] = {}
                self.leases = {at: n for at, n in self.leases.items() if at[0] != who}
            case "open":
                self.copies[who] = replace(self.copies[who], open=True)
            case "close":
                copy = self.copies[who]
                self.copies[who] = replace(copy, open=False, generation=copy.generation + 1)
                self.engines[who] = {}
                self.leases = {at: n for at, n in self.leases.items() if at[0] != who}
            case "update" if who in self.revisions:
                self.revisions[who] += 1
            case "delete":
                self.revisions.pop(who, None)
            case "control restarts":
                self.demands = {}
            case _:
                pass
        self.now_s += 1.0
        self.plan()
        self.check()

    def check(self):
        for name, copy in self.copies.items():
            for adapter in shown(copy.places, copy.generation):
                assert adapter in self.engines[name], "a request could miss it"
        for (name, adapter), leases in self.leases.items():
            if leases:
                assert adapter in self.engines[name], "unloaded under a request"


@given(steps)
@settings(max_examples=150, deadline=None)
def test_no_request_ever_misses_its_adapter_and_no_limit_is_exceeded(history):
    world = World()
    for what, who in history:
        world.happen(what, who)


@given(steps, st.sampled_from(NAMES))
@settings(max_examples=100, deadline=None)
def test_what_is_asked_for_long_enough_is_loaded(history, name):
    world = World()
    for what, who in history:
        world.happen(what, who)
    world.barred.clear()
    world.leases.clear()
    world.revisions.setdefault(name, 1)
    world.happen("open", COPIES[0])
    for _ in range(40):
        if not world.shown_on(name):
            world.happen("ask", name)
        for copy in COPIES:
            world.engine(copy)
    assert world.shown_on(name)


@given(steps)
@settings(max_examples=100, deadline=None)
def test_without_anything_happening_it_comes_to_rest(history):
    world = World()
    for what, who in history:
        world.happen(what, who)
    world.leases.clear()
    for _ in range(120):
        for copy in COPIES:
            world.engine(copy)
            world.engine(copy)
        world.happen("time", "")
    before = {name: copy.places for name, copy in world.copies.items()}
    for _ in range(30):
        world.happen("time", "")
    assert {name: copy.places for name, copy in world.copies.items()} == before
    for name in world.revisions:
        assert len(world.shown_on(name)) <= 1
