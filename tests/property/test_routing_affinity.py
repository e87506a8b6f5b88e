"""What affinity promises over fleets that change, for any names and keys."""

from random import Random
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.core.events import Completed
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, TargetState, Variant
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.rendezvous import weights
from warmroute.routing.router import Router

names = st.lists(
    st.text(alphabet="12", min_size=1, max_size=4) | st.text(min_size=1, max_size=20).map("i-{}".format),
    min_size=2, max_size=8, unique=True,
)  # fmt: skip
keys = st.integers(0, 2**64 - 1)


def fleet(version, members, threshold=1, draining=()):
    routing = Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=threshold)
    targets = tuple(
        Target(TargetId(name), InstanceId(name), 1, "host", 80,
               state=TargetState.DRAINING if name in draining else TargetState.IN_SERVICE)
        for name in members
    )  # fmt: skip
    variant = Variant(VariantName("v"), 1.0, routing, targets)
    return Fleet(version, "us-east-1", "0" * 12, (Endpoint(EndpointName("e"), True, (variant,)),))


def walk(router, key, times):
    """Where a key's next requests go while none of them ends; everything is released at the end."""
    book = router.endpoints["e"].variants["v", 0]
    decisions = [router.decide(book, RoutingRequest(key=key), 0) for _ in range(times)]
    for decision in decisions:
        router.apply(Completed(decision.lease), 0)
    assert router.open_leases() == 0
    return [decision.target.target_id for decision in decisions]


def ranked_by_weight(key, members):
    scores = weights(key, [SimpleNamespace(name=name.encode()) for name in members])
    return [name for _, name in sorted(zip(scores, members, strict=True), reverse=True)]


@given(names, keys, st.data())
def test_the_order_of_the_others_is_the_same_without_one(members, key, data):
    gone = data.draw(st.sampled_from(members))
    expected = [name for name in ranked_by_weight(key, members) if name != gone]
    assert ranked_by_weight(key, [name for name in members if name != gone]) == expected


@given(names, keys, st.data())
def test_a_key_moves_only_when_its_own_home_drains_or_leaves(members, key, data):
    gone = data.draw(st.sampled_from(members))
    router = Router(Random(1))
    router.apply_fleet(fleet(1, members))
    ranked = walk(router, key, len(members))
    expected = [name for name in ranked if name != gone]
    router.apply_fleet(fleet(2, members, draining=[gone]))
    assert walk(router, key, len(expected)) == expected
    router.apply_fleet(fleet(3, [name for name in members if name != gone]))
    assert walk(router, key, len(expected)) == expected
    router.apply_fleet(fleet(4, members))
    assert walk(router, key, len(members)) == ranked


@given(names, keys, st.lists(st.integers(0, 100), min_size=2, max_size=5), st.data())
def test_routers_agree_on_owner_and_overflow_whatever_they_lived_through(members, key, seeds, data):
    walks = []
    for seed in seeds:
        router = Router(Random(seed))
        router.apply_fleet(fleet(1, data.draw(st.permutations(members))[: data.draw(st.integers(1, 3))]))
        walk(router, data.draw(keys), 1)
        router.apply_fleet(fleet(2, data.draw(st.permutations(members))))
        walks.append(walk(router, key, len(members)))
    assert all(seen == walks[0] for seen in walks)
    assert sorted(walks[0]) == sorted(members)


@given(names, keys, st.integers(1, 4))
def test_the_walk_down_the_order_fills_each_target_up_to_the_threshold(members, key, threshold):
    router = Router(Random(1))
    router.apply_fleet(fleet(1, members, threshold))
    seen = walk(router, key, threshold * len(members))
    ranked = seen[::threshold]
    assert seen == [name for name in ranked for _ in range(threshold)]
    assert len(set(ranked)) == len(members)


@given(names, keys, st.integers(1, 4))
def test_beyond_the_threshold_of_all_the_load_stays_level(members, key, threshold):
    router = Router(Random(1))
    router.apply_fleet(fleet(1, members, threshold))
    book = router.endpoints["e"].variants["v", 0]
    for _ in range(threshold * len(members)):
        router.decide(book, RoutingRequest(key=key), 0)
    more = [router.decide(book, RoutingRequest(key=key), 0) for _ in range(2 * len(members))]
    assert {decision.reason for decision in more} == {Reason.SATURATED}
    assert {in_flight for _, in_flight, _ in router.targets().values()} == {threshold + 2}


# --- copies -----------------------------------------------------------------------------------
instances = st.lists(st.text(alphabet="12", min_size=1, max_size=3), min_size=2, max_size=4, unique=True)
counts = st.lists(st.integers(1, 3), min_size=4, max_size=4)


def copies_of(members, of):
    """Copies, by the instance that carries each: as many as ``of`` says."""
    return {f"{name}/{n}": name for name, count in zip(members, of, strict=False) for n in range(count)}


def fleet_of_copies(version, places, threshold=1):
    routing = Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=threshold)
    targets = tuple(
        Target(TargetId(name), InstanceId(at), 1, "host", 80, component="c") for name, at in places.items()
    )
    variant = Variant(VariantName("v"), 1.0, routing, targets)
    return Fleet(version, "us-east-1", "0" * 12, (Endpoint(EndpointName("e"), True, (variant,)),))


def walk_copies(router, key, times):
    book = router.endpoints["e"].variants["v", 0]
    decisions = [router.decide(book, RoutingRequest(key=key, component="c"), 0) for _ in range(times)]
    for decision in decisions:
        router.apply(Completed(decision.lease), 0)
    return [decision.target.target_id for decision in decisions]


@given(instances, counts, keys, st.integers(1, 3))
def test_a_key_fills_every_copy_on_an_instance_before_it_goes_to_the_next(members, of, key, threshold):
    places = copies_of(members, of)
    router = Router(Random(1))
    router.apply_fleet(fleet_of_copies(1, places, threshold))
    seen = walk_copies(router, key, threshold * len(places))
    order = seen[::threshold]
    assert seen == [name for name in order for _ in range(threshold)]
    assert sorted(order) == sorted(places)
    visited = [places[name] for name in order]
    assert all(
        visited[n] == visited[n + 1] or visited[n] not in visited[n + 1 :] for n in range(len(visited) - 1)
    )
    assert list(dict.fromkeys(visited)) == ranked_by_weight(key, members)


@given(instances, counts, keys, st.data())
def test_a_copy_or_an_instance_that_leaves_or_joins_changes_nothing_in_the_order_of_the_others(
    members, of, key, data
):
    places = copies_of(members, of)
    gone = data.draw(st.sampled_from(sorted(places) + members))
    left = {name: at for name, at in places.items() if gone not in (name, at)}
    router = Router(Random(1))
    router.apply_fleet(fleet_of_copies(1, places))
    whole = walk_copies(router, key, len(places))
    router.apply_fleet(fleet_of_copies(2, left))
    assert walk_copies(router, key, len(left)) == [name for name in whole if name in left]
    router.apply_fleet(fleet_of_copies(3, dict(data.draw(st.permutations(list(places.items()))))))
    assert walk_copies(router, key, len(places)) == whole


@given(instances, keys)
def test_one_copy_on_each_instance_is_ordered_as_the_instances_themselves(members, key):
    router, plain = Router(Random(1)), Router(Random(1))
    router.apply_fleet(fleet_of_copies(1, copies_of(members, [1] * len(members))))
    plain.apply_fleet(fleet(1, members))
    seen = walk_copies(router, key, len(members))
    assert [name.rpartition("/")[0] for name in seen] == walk(plain, key, len(members))
